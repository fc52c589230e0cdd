#include <mezzo/passes/pass.h>
