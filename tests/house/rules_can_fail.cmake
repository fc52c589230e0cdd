# SPDX-License-Identifier: Apache-2.0
# Script: writes a tree that breaks each rule once and expects every complaint, and one without faults.
cmake_minimum_required(VERSION 3.24)
set(tree ${CMAKE_CURRENT_BINARY_DIR}/broken_tree)
file(REMOVE_RECURSE ${tree})

# expect(SCRIPT): the script accepts the tree. expect(SCRIPT TEXT...): it refuses and says each TEXT.
function(expect script)
  execute_process(COMMAND ${CMAKE_COMMAND} -D ROOT=${tree} -P ${CMAKE_CURRENT_LIST_DIR}/${script}
    RESULT_VARIABLE result ERROR_VARIABLE said)
  if(ARGN AND result EQUAL 0)
    message(FATAL_ERROR "${script} accepts a broken tree")
  elseif(NOT ARGN AND NOT result EQUAL 0)
    message(FATAL_ERROR "${script} refuses a good tree: ${said}")
  endif()
  # Messages are wrapped at spaces.
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  foreach(text IN LISTS ARGN)
    string(FIND "${said}" "${text}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "${script} does not say '${text}' but: ${said}")
    endif()
  endforeach()
endfunction()

file(WRITE ${tree}/ir/a.h "#include <mezzo/ir/b.h>\n#include <fmt/format.h>\n#include <vector>\n")
file(WRITE ${tree}/codegen/llvm/good.cpp "#include <llvm/IR/IRBuilder.h>\n#include <mezzo/ir/a.h>\n")
file(WRITE ${tree}/codegen/cuda/nvrtc.cpp "const char* k = \"libnvrtc.so.12\";\n")
file(WRITE ${tree}/tests/a/good.cpp "#include <mezzo/mezzo.h>\n#include <doctest/doctest.h>\n")
file(WRITE ${tree}/tests/cases/ids.txt "# comment\nRD-01: tested\n")
file(WRITE ${tree}/tests/a/case.cpp "TEST_CASE(\"RD-01: x\") {}\n")
file(WRITE ${tree}/ir/b.h "#include <string>\n")
file(WRITE ${tree}/cmake/public_headers.cmake "set(MEZZO_PUBLIC_HEADERS ir/a.h ir/b.h)\n")
expect(layers.cmake)
expect(file_length.cmake)
expect(case_ids.cmake)
expect(public_headers.cmake)

file(WRITE ${tree}/cmake/public_headers.cmake "set(MEZZO_PUBLIC_HEADERS ir/a.h ir/c.h)\n")
expect(public_headers.cmake
  "ir/a.h is installed and includes ir/b.h, which is not: cmake/public_headers.cmake lists what is"
  "cmake/public_headers.cmake: there is no ir/c.h")

file(WRITE ${tree}/ir/up.cpp "#include <mezzo/passes/pass.h>\n")
file(WRITE ${tree}/passes/side.cpp "  #  include <mezzo/codegen/artifact.h>\n")
file(WRITE ${tree}/dsl/umbrella.cpp "#include <mezzo/mezzo.h>\n")
file(WRITE ${tree}/runtime/quoted.cpp "#include \"device.h\"\n")
file(WRITE ${tree}/codegen/llvm/header.h "#include <llvm/IR/IRBuilder.h>\n")
file(WRITE ${tree}/runtime/toolkit.cpp "#include <cuda.h>\n")
file(WRITE ${tree}/runtime/public.h "#include <nlohmann/json.hpp>\n")
file(WRITE ${tree}/runtime/opens.cpp "const char* k = \"libcuda.so.1\";\n")
file(WRITE ${tree}/passes/tested.cpp "#include <doctest/doctest.h>\n")
string(REPEAT "//\n" 551 long)
file(WRITE ${tree}/ir/long.cpp "${long}")
expect(layers.cmake
  "ir/up.cpp: ir must not include <mezzo/passes/pass.h>"
  "passes/side.cpp: passes must not include <mezzo/codegen/artifact.h>"
  "dsl/umbrella.cpp: dsl must not include <mezzo/mezzo.h>"
  "runtime/quoted.cpp: write <mezzo/FOLDER/FILE>"
  "codegen/llvm/header.h: LLVM headers"
  "runtime/toolkit.cpp: a CUDA toolkit"
  "runtime/public.h: <nlohmann/json.hpp> in a public header"
  "runtime/opens.cpp: libcuda and libnvrtc"
  "passes/tested.cpp: <doctest/doctest.h> belongs into tests")
expect(file_length.cmake "ir/long.cpp: 551 lines")
file(WRITE ${tree}/tests/cases/ids.txt "RD-01: gone\nRD-02: done\nRD-03\n")
file(WRITE ${tree}/tests/a/case.cpp "TEST_CASE(\"RD-02, CF-99: x\") {}\n")
expect(case_ids.cmake
  "RD-01 has no test case whose name holds it"
  "tests/a/case.cpp: CF-99 is not in tests/cases/ids.txt"
  "'RD-03': a line is 'ID: phrase'")
