# Decides whether the program is built with GPUs. CT_WITH_CUDA is AUTO (if a toolkit and its libraries' headers are
# found), ON (an error if not) or OFF. Sets with_cuda and, if it is ON, enables CUDA and sets cuda_version, cuda_folder
# (the toolkit's) and the target cuda_headers. A message shows the toolkit found, or the missing part.
set(with_cuda OFF)
if(NOT CT_WITH_CUDA)
  return()
endif()

set(cuda_needs cuda_runtime.h cudnn_frontend.h cudnn_version.h nccl.h cublasLt.h nvrtc.h nvtx3/nvToolsExt.h)
set(missing "")
execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/cuda_roots.sh
  OUTPUT_VARIABLE cuda_roots ERROR_VARIABLE too_old OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
string(REPLACE "\n" ";" cuda_roots "${cuda_roots}")  # all folders that may hold a part of a toolkit; the first has nvcc
if(NOT cuda_roots)
  set(missing "nvcc 12.8 or later")
  if(too_old)
    string(REPLACE "\n" ", " too_old "${too_old}")
    string(APPEND missing " (${too_old})")
  endif()
elseif(DEFINED CMAKE_CUDA_COMPILER)  # from an earlier run
  cmake_path(GET CMAKE_CUDA_COMPILER PARENT_PATH cuda_folder)
  cmake_path(GET cuda_folder PARENT_PATH cuda_folder)
else()
  list(GET cuda_roots 0 cuda_folder)
endif()

if(NOT missing)
  set(folders ${cuda_folder}/include ${cuda_folder}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux/include ${cuda_roots}
    ${PROJECT_SOURCE_DIR}/.third_party/cudnn-frontend)
  foreach(header ${cuda_needs})
    find_path(CUDA_HEADER_${header} ${header} PATHS ${folders} PATH_SUFFIXES include)
    if(CUDA_HEADER_${header})
      list(APPEND header_folders ${CUDA_HEADER_${header}})
    else()
      list(APPEND missing ${header})
    endif()
  endforeach()
endif()

if(NOT missing)
  # pip's toolkit has lib, but nvcc and CMake search lib64; of the runtime, only the static one has the expected name.
  if(NOT EXISTS ${cuda_folder}/lib64)
    find_library(CUDA_CUDART NAMES cudart libcudart_static.a PATHS ${cuda_folder}/lib NO_DEFAULT_PATH)
    set(ENV{CUDAFLAGS} "$ENV{CUDAFLAGS} -L${cuda_folder}/lib")
  endif()
  set(CUDAToolkit_ROOT ${cuda_folder})
  # Machine code for present GPUs, PTX for future ones. CMake takes others from the environment's CUDAARCHS.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 100-real 80-virtual 100-virtual)
  endif()
  if(NOT DEFINED CMAKE_CUDA_COMPILER)
    set(ENV{CUDACXX} ${cuda_folder}/bin/nvcc)
    if(CT_WITH_CUDA STREQUAL "AUTO")
      include(CheckLanguage)
      check_language(CUDA)  # checks that nvcc works with the host's compiler
      if(NOT CMAKE_CUDA_COMPILER)
        unset(CMAKE_CUDA_COMPILER CACHE)  # so that the next run searches again
        set(missing "an nvcc that works with this C++ compiler (${cuda_folder}/bin/nvcc does not)")
      endif()
    endif()
  endif()
endif()

if(missing)
  list(JOIN missing ", " missing)
  string(REPLACE "cudnn_frontend.h" "cudnn_frontend.h (tools/install_cudnn_frontend.sh)" missing "${missing}")
  foreach(header ${cuda_needs})  # the toolkit is incomplete: the next run may have another
    unset(CUDA_HEADER_${header} CACHE)
  endforeach()
  if(CT_WITH_CUDA STREQUAL "AUTO")
    message(STATUS "without GPUs: there is no ${missing}")
    return()
  endif()
  message(FATAL_ERROR "CT_WITH_CUDA: there is no ${missing}; see docs/gpu.md")
endif()

enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(cuda_version ${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR})
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake 3.25 would silently ask newer compilers for C++17
list(REMOVE_DUPLICATES header_folders)
add_library(cuda_headers INTERFACE IMPORTED)  # imported, so that its headers are system headers
set_target_properties(cuda_headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${header_folders}")
set(with_cuda ON)
