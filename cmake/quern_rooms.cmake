# Precompiled headers save 12 to 26 % of a file (four files measured). The first room (and the first test program)
# compiles them, the others reuse them; a build without (QUERN_PRECOMPILED=OFF, as preset debug has it) shows an include
# that a file forgot.
set(QUERN_STANDARD_HEADERS <algorithm> <chrono> <filesystem> <fstream> <functional> <map> <memory> <optional> <random>
  <span> <string> <string_view> <variant> <vector> <nlohmann/json.hpp>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of its own <string> (its bug 105651), and a precompiled header is not seen as the system's any more.
  add_compile_options(-Wno-array-bounds -Wno-restrict -Wno-mismatched-new-delete -Wno-stringop-overflow
                      -Wno-stringop-overread)
endif()
if(QUERN_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(-Wno-subobject-linkage)  # a unity file is to GCC a program whose .cc files are headers
endif()
function(quern_precompile target first)
  if(NOT QUERN_PRECOMPILED)
    return()
  endif()
  if(target STREQUAL first)
    target_precompile_headers(${target} PRIVATE ${QUERN_STANDARD_HEADERS} ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()

# quern_room(NAME [DEPENDS rooms…] [LINK libraries…]): src/NAME/**.cc becomes the static library quern_NAME; its
# *_test.cc become the test program NAME_test. Files are found by globbing, so adding one needs no change here.
function(quern_room name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(TRANSFORM ARG_DEPENDS PREPEND quern_)
  if(sources)
    add_library(quern_${name} STATIC ${sources})
    target_include_directories(quern_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(quern_${name} PUBLIC ${ARG_DEPENDS} ${ARG_LINK})
    quern_precompile(quern_${name} quern_base)
    if(NOT name MATCHES "^(kernels|quant)$")  # Highway compiles a file once for each instruction set
      set_target_properties(quern_${name} PROPERTIES UNITY_BUILD ${QUERN_UNITY} UNITY_BUILD_BATCH_SIZE 8)
      # Families give their own meaning to the same few names; generated files come late.
      list(FILTER sources INCLUDE REGEX "/families/")
      set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  else()
    add_library(quern_${name} INTERFACE)
    target_include_directories(quern_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(quern_${name} INTERFACE ${ARG_DEPENDS} ${ARG_LINK})
  endif()
  if(QUERN_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE quern_${name} GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE QUERN_TEST_DATA="${CMAKE_SOURCE_DIR}/tests")
    # What they test is optimised; they themselves compile in three quarters of the time without most of it.
    target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
    quern_precompile(${name}_test base_test <gtest/gtest.h>)
    set_target_properties(${name}_test PROPERTIES UNITY_BUILD ${QUERN_UNITY} UNITY_BUILD_BATCH_SIZE 8)
    add_test(NAME ${name} COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${name}_test>)
  endif()
endfunction()

# quern_embed(TARGET FILE FUNCTION): the text of FILE as `std::string_view quern::FUNCTION()` in TARGET.
function(quern_embed target file function)
  set(generated ${CMAKE_BINARY_DIR}/${function}.cc)
  add_custom_command(OUTPUT ${generated} DEPENDS ${CMAKE_SOURCE_DIR}/${file} ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR}/${file} -DTARGET=${generated} -DFUNCTION=${function}
            -P ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake)
  target_sources(${target} PRIVATE ${generated})
  set_source_files_properties(${generated} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
