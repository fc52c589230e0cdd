#include <llvm/IR/IRBuilder.h>
#include <mezzo/ir/a.h>
