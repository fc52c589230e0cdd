# SPDX-License-Identifier: Apache-2.0
# Script: writes OUTPUT, a C++ file that defines `mezzo::codegen::SYMBOL`, the text of the file INPUT.
cmake_minimum_required(VERSION 3.24)
file(READ ${INPUT} text)
if(text MATCHES "[)]mezzo\"")
  message(FATAL_ERROR "${INPUT}: the text contains the end mark of its own string literal")
endif()
get_filename_component(name ${INPUT} NAME)
file(WRITE ${OUTPUT} "// Written by codegen/embed.cmake from ${name}.
#include <string_view>

namespace mezzo::codegen {

extern const std::string_view ${SYMBOL};
const std::string_view ${SYMBOL} = R\"mezzo(${text})mezzo\";

}  // namespace mezzo::codegen
")
