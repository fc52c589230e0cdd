#include <mezzo/ir/b.h>
#include <fmt/format.h>
#include <vector>
