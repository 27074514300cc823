# Finds nvcc and says for which devices it compiles; sets KVGATE_HAS_CUDA.
set(KVGATE_HAS_CUDA OFF)
# Sanitizers follow host code only, and one instrumented half of a program finds nothing but itself.
if(NOT KVGATE_CUDA STREQUAL "OFF" AND NOT KVGATE_SANITIZE)
  find_program(KVGATE_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(KVGATE_NVCC)
    set(CMAKE_CUDA_COMPILER "${KVGATE_NVCC}")
    # This machine's devices; without one the oldest that is served, and its PTX, which newer ones
    # compile at their first start. For many at once: -DCMAKE_CUDA_ARCHITECTURES="80;86;89;90".
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      if(EXISTS /dev/nvidia0)
        set(CMAKE_CUDA_ARCHITECTURES native)
      else()
        set(CMAKE_CUDA_ARCHITECTURES 80)
      endif()
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know nvcc's
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(KVGATE_HAS_CUDA ON)
    if(KVGATE_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER "${KVGATE_CCACHE}")
    endif()
  elseif(KVGATE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "KVGATE_CUDA is ON and there is no nvcc: install the CUDA toolkit or put "
                        "its nvcc on the PATH")
  endif()
endif()
if(KVGATE_HAS_CUDA)
  message(STATUS "CUDA backend: ${CMAKE_CUDA_COMPILER_VERSION}, "
                 "architectures ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA backend: not built (KVGATE_CUDA=${KVGATE_CUDA})")
endif()
