# SPDX-License-Identifier: Apache-2.0
# Script: installs the build folder BUILD into WORK/prefix, builds PROGRAM against it and runs it.
cmake_minimum_required(VERSION 3.24)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(sanitize "")
if(SANITIZE)
  set(sanitize -D CMAKE_CXX_FLAGS=-fsanitize=${SANITIZE})
endif()
file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -G Ninja -S ${PROGRAM} -B ${WORK}/build
  -D CMAKE_PREFIX_PATH=${WORK}/prefix ${sanitize})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
