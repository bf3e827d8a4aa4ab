# Cross builds take the libraries that are headers only from the host's packages, through links that keep the host's other
# headers out of sight. Highway needs its compiled part only to choose between instruction sets at run time; a build for one
# (cmake/aarch64.cmake leaves NEON alone) does without.
set(QUERN_HOST_HEADERS ${CMAKE_BINARY_DIR}/host_headers)
file(MAKE_DIRECTORY ${QUERN_HOST_HEADERS})
foreach(name fmt hwy nlohmann)
  if(NOT EXISTS /usr/include/${name})
    message(FATAL_ERROR "/usr/include/${name} is missing: install libfmt-dev, libhwy-dev and nlohmann-json3-dev")
  endif()
  file(CREATE_LINK /usr/include/${name} ${QUERN_HOST_HEADERS}/${name} SYMBOLIC)
endforeach()

add_library(quern_host_headers INTERFACE)
target_include_directories(quern_host_headers SYSTEM INTERFACE ${QUERN_HOST_HEADERS})
target_compile_definitions(quern_host_headers INTERFACE FMT_HEADER_ONLY)
add_library(fmt::fmt ALIAS quern_host_headers)
add_library(nlohmann_json::nlohmann_json ALIAS quern_host_headers)
set(QUERN_HWY_LIBRARY quern_host_headers)
