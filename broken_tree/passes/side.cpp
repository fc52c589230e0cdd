  #  include <mezzo/codegen/artifact.h>
