# Finds nvcc before CUDA is enabled, wherever a toolkit may lie. cuda_roots: all folders that may hold a part of one.
execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/cuda_roots.sh
  OUTPUT_VARIABLE cuda_roots OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REPLACE "\n" ";" cuda_roots "${cuda_roots}")
if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS ${cuda_roots} PATH_SUFFIXES bin)
endif()
# pip's toolkit has lib where nvcc and CMake look for lib64, and only the static runtime under the name they know.
foreach(root ${cuda_roots})
  if(CMAKE_CUDA_COMPILER STREQUAL ${root}/bin/nvcc AND NOT EXISTS ${root}/lib64)
    find_library(CUDA_CUDART NAMES cudart libcudart_static.a PATHS ${root}/lib NO_DEFAULT_PATH)
    set(ENV{CUDAFLAGS} "$ENV{CUDAFLAGS} -L${root}/lib")
    set(CUDAToolkit_ROOT ${root})
  endif()
endforeach()
