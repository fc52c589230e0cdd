# SPDX-License-Identifier: Apache-2.0
# Script: reads the include lines of the sources under ROOT and fails on an upward or sideways one.
#
#                samples   tests
#                     \     /
#                       dsl
#                        |
#                     runtime
#                     /     \
#                passes     codegen
#                     \     /
#                        ir
cmake_minimum_required(VERSION 3.24)

set(below_ir ir)
set(below_passes ir passes)
set(below_codegen ir codegen)
set(below_runtime ir passes codegen runtime generated)
set(below_dsl ir passes codegen runtime dsl)
set(below_samples ${below_dsl} mezzo.h)
set(below_tests ${below_samples})
set(faults "")

macro(fault text)
  string(APPEND faults "${file}: ${text}\n")
endmacro()

macro(check_include line)
  string(REGEX REPLACE "^[ \t]*#[ \t]*include[ \t]*([<\"][^>\"]*).*" "\\1" name "${line}")
  if(name MATCHES "^<mezzo/([^/]+)")
    if(NOT CMAKE_MATCH_1 IN_LIST below_${folder})
      fault("${folder} must not include ${name}>")
    endif()
  elseif(name MATCHES "^\"")
    fault("write <mezzo/FOLDER/FILE> instead of ${name}\"")
  elseif(name MATCHES "^<llvm(-c)?/")
    # vector_emitter.h is a template that only those files and its test include; it is not installed.
    if(NOT file MATCHES "^codegen/llvm/([^/]*[.]cpp|vector_emitter[.]h)$" AND
       NOT file MATCHES "^tests/codegen/[^/]*[.]cpp$")
      fault("LLVM headers belong into codegen/llvm/*.cpp")
    endif()
  elseif(name MATCHES "^<(cuda|nvrtc)[^/]*[.]h$")
    fault("a CUDA toolkit is never required: ${name}> must not be included")
  elseif(name MATCHES "^<(CLI|benchmark|doctest|nlohmann|support)/|^<zlib[.]h")
    if(folder STREQUAL "ir" OR
        (file MATCHES "[.]h$" AND NOT file MATCHES "^(tests|samples|runtime/tool)/"))
      fault("${name}> in a public header or in ir, which use the standard library and fmt only")
    endif()
    if(name MATCHES "^<(benchmark|doctest|support)/" AND NOT folder STREQUAL "tests")
      fault("${name}> belongs into tests")
    endif()
  endif()
endmacro()

foreach(folder IN ITEMS ir passes codegen runtime dsl samples tests)
  set(pattern ${ROOT}/${folder}/*)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${pattern}.h ${pattern}.cpp ${pattern}.def)
  foreach(file IN LISTS files)
    file(STRINGS ${ROOT}/${file} lines REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
    foreach(line IN LISTS lines)
      check_include("${line}")
    endforeach()
    if(NOT file MATCHES "^(tests/|codegen/cuda/nvrtc[.]cpp$|runtime/cuda_[^/]*[.]cpp$)")
      file(STRINGS ${ROOT}/${file} lines REGEX "\"lib(cuda|nvrtc)[^ \"]*[.]so" LIMIT_COUNT 1)
      if(lines)
        fault("libcuda and libnvrtc are opened in codegen/cuda/nvrtc.cpp and runtime/cuda_*.cpp")
      endif()
    endif()
  endforeach()
endforeach()

if(faults)
  message(FATAL_ERROR "includes that point up or sideways:\n${faults}")
endif()
