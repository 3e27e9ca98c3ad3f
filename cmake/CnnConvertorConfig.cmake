# Builds networks into an application:
#
#   execute_process(COMMAND cnn-convertor --cmake-dir OUTPUT_VARIABLE CnnConvertor_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
#   find_package(CnnConvertor REQUIRED)
#   cnn_convertor_add_network(digits ${CMAKE_CURRENT_SOURCE_DIR}/net.ini)
#   target_link_libraries(app PRIVATE digits)
#
# The library `digits` has the header NAME_gen.h. Its property WEIGHTS is the path of NAME_weights.bin. The network is converted
# again when the ini file, the model or any other input changes, and only files with other contents are compiled again.
#
# CNN_CONVERTOR_RUNTIME: a target or library with the SDK's headers and runtime; empty: the emulated device, on the PC;
# NONE: nothing, for networks that need no library (device = nvdla-full).
# CNN_CONVERTOR_COMMAND: the convertor, as a list; by default that of this checkout, or the one in PATH.
cmake_minimum_required(VERSION 3.20)

set(CNN_CONVERTOR_RUNTIME "" CACHE STRING "target with the SDK's headers and runtime; empty: the emulated device; NONE: nothing")
get_filename_component(_cnn_convertor_root ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
if(EXISTS ${_cnn_convertor_root}/cnn_convertor/host)  # a checkout
  set(_cnn_convertor_package ${_cnn_convertor_root}/cnn_convertor)
else()  # a wheel
  set(_cnn_convertor_package ${_cnn_convertor_root})
endif()
set(CNN_CONVERTOR_HOST ${_cnn_convertor_package}/host CACHE INTERNAL "the emulated device")

if(NOT CNN_CONVERTOR_COMMAND)
  if(EXISTS ${_cnn_convertor_root}/convertor.py)
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    set(CNN_CONVERTOR_COMMAND ${Python3_EXECUTABLE} ${_cnn_convertor_root}/convertor.py)
  else()
    find_program(CNN_CONVERTOR_COMMAND cnn-convertor REQUIRED)
  endif()
endif()

# Add a library with a network. INI: needs generate_source = 1. More arguments are options of the convertor.
function(cnn_convertor_add_network TARGET INI)
  get_filename_component(ini ${INI} ABSOLUTE)
  file(STRINGS ${ini} lines)
  set(name "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^[ \t]*name[ \t]*=[ \t]*\"?([A-Za-z0-9_]+)")
      set(name ${CMAKE_MATCH_1})
    endif()
  endforeach()
  if(NOT name)
    message(FATAL_ERROR "${ini} has no name = ... in its section [INPUT]")
  endif()

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${TARGET})
  set(stamp ${folder}/${name}.stamp)
  set(source ${folder}/${name}/${name}_gen.cpp)
  set(weights ${folder}/${name}/${name}_weights.bin)
  file(MAKE_DIRECTORY ${folder})
  # The outputs of a conversion keep their time when their contents stay. The stamp says that they are up to date.
  add_custom_command(
    OUTPUT ${stamp}
    BYPRODUCTS ${source} ${folder}/${name}/${name}_gen.h ${weights} ${folder}/${name}/${name}.json
    COMMAND ${CNN_CONVERTOR_COMMAND} -q ${ini} --output ${folder} --depfile ${stamp}.d --depfile-target ${stamp} ${ARGN}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${ini}
    DEPFILE ${stamp}.d
    COMMENT "Converting ${name}"
    VERBATIM)

  add_library(${TARGET} STATIC ${source} ${stamp})
  target_include_directories(${TARGET} PUBLIC ${folder}/${name})
  target_compile_features(${TARGET} PUBLIC cxx_std_11)
  set_target_properties(${TARGET} PROPERTIES WEIGHTS ${weights} LINKER_LANGUAGE CXX)
  find_package(Threads QUIET)  # for cpu_threads; firmware without an operating system has none
  if(Threads_FOUND)
    target_link_libraries(${TARGET} PUBLIC Threads::Threads)
  endif()
  if(CNN_CONVERTOR_RUNTIME STREQUAL "NONE")
    # its sources are all that it needs
  elseif(CNN_CONVERTOR_RUNTIME)
    target_link_libraries(${TARGET} PUBLIC ${CNN_CONVERTOR_RUNTIME})
  else()
    if(NOT TARGET dmpdv)
      add_subdirectory(${CNN_CONVERTOR_HOST} ${CMAKE_BINARY_DIR}/dmpdv EXCLUDE_FROM_ALL)
    endif()
    target_link_libraries(${TARGET} PUBLIC dmpdv)
  endif()
endfunction()
