# Toolchain file for boards with a 64-bit Arm processor and Linux, with Debian's g++-aarch64-linux-gnu:
#   cmake -DCMAKE_TOOLCHAIN_FILE=aarch64-linux-gnu.cmake ...
# CNN_CONVERTOR_SYSROOT: the board's root file system; empty: the compiler's own libraries.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CNN_CONVERTOR_SYSROOT "" CACHE PATH "the board's root file system; empty: the compiler's own libraries")
if(CNN_CONVERTOR_SYSROOT)
  set(CMAKE_SYSROOT ${CNN_CONVERTOR_SYSROOT})
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
