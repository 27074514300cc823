# Every third-party library, once. Folders name what they use through these targets; which folder
# may use which library is checked by tests/tidy.py.
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.81 REQUIRED)
# With it, close and cancel return nothing. All sources must agree, because the linker takes one of
# their copies of such a function.
set_property(TARGET Boost::headers APPEND PROPERTY
             INTERFACE_COMPILE_DEFINITIONS BOOST_ASIO_NO_DEPRECATED)
find_package(RocksDB REQUIRED)
if(NOT TARGET RocksDB::rocksdb-shared)  # a build of it that has no shared library
  add_library(RocksDB::rocksdb-shared ALIAS RocksDB::rocksdb)
endif()
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(simdjson REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
# Some builds of the library choose among the processor's registers as they run: two to four times
# as fast for long texts.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES PkgConfig::xxhash)
check_cxx_source_compiles("#include <xxh_x86dispatch.h>
int main() { return XXH3_64bits_dispatch(nullptr, 0) == 0; }" KVGATE_XXHASH_DISPATCH)
unset(CMAKE_REQUIRED_LIBRARIES)
if(KVGATE_XXHASH_DISPATCH)
  set_property(TARGET PkgConfig::xxhash APPEND PROPERTY
               INTERFACE_COMPILE_DEFINITIONS KVGATE_XXHASH_DISPATCH)
endif()
# Content codings, for reading only: gateway/upstream/wire/content_decoder.cc; zlib also for the
# dashboard's files where a client takes no gzip.
pkg_check_modules(libz REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(libzstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(libbrotlidec REQUIRED IMPORTED_TARGET libbrotlidec)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
find_package(nlohmann_json REQUIRED)
find_path(KVGATE_CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
find_path(KVGATE_TOML_INCLUDE toml++/toml.h REQUIRED)
if(KVGATE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  pkg_check_modules(libbrotlienc REQUIRED IMPORTED_TARGET libbrotlienc)
  include(GoogleTest)
endif()
