#include <llvm/IR/IRBuilder.h>
