# kernelopt_library(NAME DEPS a b LIBS x y): one target a folder.
#
# The *.cc of the folder and of those in it make the library kernelopt_NAME, its *_test.cc the test
# program NAME_test. DEPS are folders of this project (the layer test holds
# them to the order that docs/architecture.md gives), LIBS other targets.

add_library(kernelopt_flags INTERFACE)
target_compile_options(kernelopt_flags INTERFACE -Wall -Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # A warning is an error with the compiler that releases are built with (GCC 12);
  # a newer one has new warnings, which must not stop a user's build. At -O3 GCC 12
  # sees overlaps that can't be when it inlines std::string (GCC bug 105651), and
  # uninitialised members of moved-from containers (GCC bug 105562); the asan preset
  # and clang-tidy look for real ones.
  target_compile_options(kernelopt_flags INTERFACE -Werror
                         $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict -Wno-maybe-uninitialized>)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(kernelopt_flags INTERFACE -Wno-gnu-statement-expression)
endif()
target_include_directories(kernelopt_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(KERNELOPT_TESTS)
  # Lets tests end a process at a chosen place (src/base/fail_point.h).
  target_compile_definitions(kernelopt_flags INTERFACE KERNELOPT_FAIL_POINTS)
endif()
if(KERNELOPT_ASAN)
  # GCC 12 warns of fmt's own buffers when it instruments them at -O3.
  target_compile_options(kernelopt_flags INTERFACE -fsanitize=address,undefined
                         -fno-sanitize-recover=undefined -fno-omit-frame-pointer
                         -Wno-stringop-overflow)
  target_link_options(kernelopt_flags INTERFACE -fsanitize=address,undefined)
endif()
if(KERNELOPT_FUZZ)
  target_compile_options(kernelopt_flags INTERFACE -fsanitize=fuzzer-no-link,address)
  target_link_options(kernelopt_flags INTERFACE -fsanitize=address)
endif()

function(kernelopt_library name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc
       ${CMAKE_CURRENT_SOURCE_DIR}/*/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(deps ${ARG_DEPS})
  list(TRANSFORM deps PREPEND kernelopt_)
  if(sources)
    add_library(kernelopt_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(kernelopt_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(kernelopt_${name} ${scope} kernelopt_flags ${deps} ${ARG_LIBS})
  if(KERNELOPT_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE kernelopt_${name} GTest::gmock_main
                          kernelopt_rapidcheck)
    target_compile_definitions(${name}_test PRIVATE
                               KERNELOPT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 120)
  endif()
endfunction()
