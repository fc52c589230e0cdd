# SPDX-License-Identifier: Apache-2.0
# Script: writes OUTPUT, a header with MEZZO_GENERATOR_ID, the SHA-256 over names and contents of
# the sources in FOLDER.
cmake_minimum_required(VERSION 3.24)
file(GLOB_RECURSE files LIST_DIRECTORIES false RELATIVE ${FOLDER}
  ${FOLDER}/*.h ${FOLDER}/*.cpp ${FOLDER}/*.cuh ${FOLDER}/*.def)
list(SORT files)
set(all "")
foreach(name IN LISTS files)
  file(SHA256 ${FOLDER}/${name} hash)
  string(APPEND all "${name} ${hash}\n")
endforeach()
string(SHA256 id "${all}")
# Leaves an equal file untouched, so that an edit that is taken back recompiles nothing.
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT
  "// Written by codegen/generator_id.cmake.\n#pragma once\n#define MEZZO_GENERATOR_ID \"@id@\"\n")
