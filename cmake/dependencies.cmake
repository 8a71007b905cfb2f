# Third-party libraries, all from Debian packages but tree-sitter and its Python
# grammar (PyPI sdists, pinned by hash). Static archives are preferred, so that
# the released program starts on a machine with nothing installed.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
if(KERNELOPT_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# kernelopt_static(NAME archive fallback): an imported library NAME.
function(kernelopt_static name archive shared)
  add_library(${name} INTERFACE)
  if(KERNELOPT_STATIC)
    find_library(${name}_ARCHIVE NAMES ${archive} REQUIRED)
    target_link_libraries(${name} INTERFACE ${${name}_ARCHIVE})
  else()
    target_link_libraries(${name} INTERFACE ${shared})
  endif()
endfunction()

kernelopt_static(kernelopt_crypto libcrypto.a crypto)
target_link_libraries(kernelopt_crypto INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
if(KERNELOPT_STATIC)
  # What else the archive asks for differs: nothing on Debian 12, z and zstd on
  # Debian 13. OpenSSL's own .pc file says it.
  pkg_check_modules(LIBCRYPTO REQUIRED libcrypto)
  set(others ${LIBCRYPTO_STATIC_LIBRARIES})
  list(REMOVE_ITEM others crypto dl pthread c)
  foreach(other ${others})
    find_library(LIBCRYPTO_${other}_ARCHIVE NAMES lib${other}.a REQUIRED)
    target_link_libraries(kernelopt_crypto INTERFACE ${LIBCRYPTO_${other}_ARCHIVE})
  endforeach()
endif()
kernelopt_static(kernelopt_sqlite libsqlite3.a sqlite3)
target_link_libraries(kernelopt_sqlite INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
kernelopt_static(kernelopt_sqlitecpp libSQLiteCpp.a SQLiteCpp)
target_link_libraries(kernelopt_sqlitecpp INTERFACE kernelopt_sqlite)

add_library(kernelopt_rapidcheck INTERFACE)
if(KERNELOPT_TESTS)
  find_library(RAPIDCHECK_ARCHIVE NAMES librapidcheck.a REQUIRED)
  target_link_libraries(kernelopt_rapidcheck INTERFACE ${RAPIDCHECK_ARCHIVE})
endif()

# fmt and spdlog are used header-only: Debian has no static fmt.
add_library(kernelopt_fmt INTERFACE)
target_compile_definitions(kernelopt_fmt INTERFACE FMT_HEADER_ONLY SPDLOG_FMT_EXTERNAL_HO)

# tree-sitter's runtime and Python grammar (ABI 14) from PyPI sdists, pinned by
# hash; shared by all presets of one checkout.
set(TREE_SITTER_DIR ${PROJECT_SOURCE_DIR}/build/third_party)
if(NOT EXISTS ${TREE_SITTER_DIR}/complete)
  # A Python that has pip: Debian's own comes without it, the scripts' venv has it.
  find_program(KERNELOPT_PIP_PYTHON python3 HINTS ${PROJECT_SOURCE_DIR}/.venv/bin REQUIRED)
  execute_process(
    COMMAND ${KERNELOPT_PIP_PYTHON} ${PROJECT_SOURCE_DIR}/cmake/fetch_tree_sitter.py
            ${TREE_SITTER_DIR}
    COMMAND_ERROR_IS_FATAL ANY)
endif()
set(grammar ${TREE_SITTER_DIR}/tree-sitter-python/src)
set(runtime ${TREE_SITTER_DIR}/tree-sitter/tree_sitter/core/lib)
# The grammar includes tree_sitter/parser.h; the runtime keeps it in src/.
file(MAKE_DIRECTORY ${TREE_SITTER_DIR}/headers/tree_sitter)
foreach(header parser.h array.h alloc.h)
  configure_file(${runtime}/src/${header} ${TREE_SITTER_DIR}/headers/tree_sitter/${header} COPYONLY)
endforeach()
add_library(kernelopt_tree_sitter STATIC ${runtime}/src/lib.c ${grammar}/parser.c
                                         ${grammar}/scanner.c)
target_include_directories(kernelopt_tree_sitter SYSTEM PUBLIC ${runtime}/include
                           PRIVATE ${runtime}/src ${TREE_SITTER_DIR}/headers)
target_compile_options(kernelopt_tree_sitter PRIVATE -w -O2)

if(KERNELOPT_STATIC)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
