# SPDX-License-Identifier: Apache-2.0
# Script: the headers of cmake/public_headers.cmake under ROOT are there and include each other alone,
# so that the installed tree compiles.
cmake_minimum_required(VERSION 3.24)
include(${ROOT}/cmake/public_headers.cmake)
set(faults "")
foreach(header IN LISTS MEZZO_PUBLIC_HEADERS)
  if(NOT EXISTS ${ROOT}/${header})
    string(APPEND faults "cmake/public_headers.cmake: there is no ${header}\n")
    continue()
  endif()
  file(STRINGS ${ROOT}/${header} lines REGEX "^[ \t]*#[ \t]*include[ \t]*<mezzo/")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^.*<mezzo/([^>]*)>.*" "\\1" name "${line}")
    if(NOT name IN_LIST MEZZO_PUBLIC_HEADERS)
      string(APPEND faults "${header} is installed and includes ${name}, which is not: "
        "cmake/public_headers.cmake lists what is\n")
    endif()
  endforeach()
endforeach()
if(faults)
  message(FATAL_ERROR "${faults}")
endif()
