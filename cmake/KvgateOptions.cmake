# Language level, warnings, sanitizers and where outputs go: the same for every target.
option(KVGATE_BUILD_TESTS "Build the tests" ON)
option(KVGATE_STATIC "Build and install the static library, too" OFF)
set(KVGATE_SANITIZE "" CACHE STRING "Sanitizers passed to -fsanitize=, e.g. address,undefined")

# Headers are most of what a compiler reads: a few sources at a time take half as long to build as
# each alone. Who changes code may want each alone, so that less is compiled after a change. Fuzzers
# are always built so, which shows that files include what they use.
option(KVGATE_UNITY "Compile sources of one folder together" ON)
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# One contraction rule everywhere: a*b+c is fused only where the code says MulAdd. Without it the
# compiler may fuse in one loop and not in its twin, and equal inputs would give unequal bits.
# nvcc takes these flags for its own: what it hands on is in kernels/cuda.
add_compile_options("$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:\
-Wall;-Wextra;-Wshadow;-Werror;-ffp-contract=off;-fno-math-errno>")
# Tables of std::array would need a pair of braces more in every row.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wno-missing-braces)
endif()
# g++ 12 takes `string = "x"` at -O3 for a copy onto itself: https://gcc.gnu.org/PR105329
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options("$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Wno-restrict>")
endif()
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -DKVGATE_DEBUG=1")
# Nobody replaces our functions at load time, so they may be inlined although the code is PIC.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG -fno-semantic-interposition")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG -DKVGATE_DEBUG=1")
set(CMAKE_CUDA_FLAGS_DEBUG "-O1 -g -DKVGATE_DEBUG=1")
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O2 -g -DNDEBUG -DKVGATE_DEBUG=1")

if(KVGATE_SANITIZE)
  # What optimises more compiles half as long again and hides what was to be found.
  add_compile_options(-fsanitize=${KVGATE_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -O1)
  add_link_options(-fsanitize=${KVGATE_SANITIZE})
  # The macros of the compilers themselves differ.
  add_compile_definitions(KVGATE_SANITIZED=1)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # What this check puts in front of functions cannot be assembled for coroutines:
    # https://github.com/llvm/llvm-project/issues/49689
    add_compile_options(-fno-sanitize=function)
  endif()
  if(KVGATE_SANITIZE MATCHES "thread")
    # GCC's thread sanitizer does not model fences; Asio has a mode without them.
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
    add_compile_options(-Wno-tsan)
  endif()
endif()

find_program(KVGATE_CCACHE ccache)
if(KVGATE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=time_macros;${KVGATE_CCACHE}")
endif()

# The CUDA backend. auto: where nvcc is found. Its sources are compiled in any case, for the
# emulator that the tests run them on.
set(KVGATE_CUDA "auto" CACHE STRING "Build the CUDA backend: ON, OFF or auto")
set_property(CACHE KVGATE_CUDA PROPERTY STRINGS auto ON OFF)
if(NOT KVGATE_CUDA MATCHES "^(auto|ON|OFF)$")
  message(FATAL_ERROR "KVGATE_CUDA is ${KVGATE_CUDA}: it can be ON, OFF or auto")
endif()
set(KVGATE_CUDA_DEVICES "here" CACHE STRING "Devices to build kernels for: here or all")
set_property(CACHE KVGATE_CUDA_DEVICES PROPERTY STRINGS here all)
if(NOT KVGATE_CUDA_DEVICES MATCHES "^(here|all)$")
  message(FATAL_ERROR "KVGATE_CUDA_DEVICES is ${KVGATE_CUDA_DEVICES}: it can be here or all")
endif()
