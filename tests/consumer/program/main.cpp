// SPDX-License-Identifier: Apache-2.0
// Links the installed library: an error made by it names the line of this file.
#include <mezzo/ir/error.h>

#include <iostream>
#include <string>

int main() {
  std::string expected = "main.cpp:" + std::to_string(__LINE__ + 1) + ": error: matmul: bad";
  mezzo::UserError error(mezzo::ir::Location::here(), "matmul: bad");
  std::cout << error.what() << "\n";
  return std::string(error.what()).ends_with(expected) ? 0 : 1;
}
