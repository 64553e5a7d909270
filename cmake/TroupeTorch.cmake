# Defines the target troupe_torch: LibTorch from the `torch` wheel.
#
# find_package(Torch) is not used, because it requires a CUDA toolkit for a CPU build, enables CUDA as a language, and
# ignores CMAKE_CUDA_ARCHITECTURES. The installed package includes this file too: its targets refer to troupe_torch by
# name, so the wheel may be in a different folder there.
if(TARGET troupe_torch)
  return()
endif()
set(TROUPE_TORCH_ROOT "" CACHE PATH "Folder of the torch package in site-packages. Defaults to the one in .venv.")
if(NOT TROUPE_TORCH_ROOT)
  file(GLOB torch_candidates "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
  if(NOT torch_candidates)
    message(FATAL_ERROR
      "LibTorch was not found. Run scripts/setup, or set -DTROUPE_TORCH_ROOT=<folder of the torch package>.")
  endif()
  list(GET torch_candidates 0 TROUPE_TORCH_ROOT)
endif()
get_filename_component(TROUPE_TORCH_ROOT "${TROUPE_TORCH_ROOT}" REALPATH)
if(NOT EXISTS "${TROUPE_TORCH_ROOT}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "TROUPE_TORCH_ROOT=${TROUPE_TORCH_ROOT} does not contain lib/libtorch_cpu.so; "
    "expected the folder of the torch package.")
endif()

foreach(library torch_cpu c10)
  add_library(troupe_wheel_${library} SHARED IMPORTED GLOBAL)
  set_target_properties(troupe_wheel_${library} PROPERTIES
    IMPORTED_LOCATION ${TROUPE_TORCH_ROOT}/lib/lib${library}.so)
endforeach()

# Imported, so that exported targets can refer to it without exporting it; its headers are system headers.
add_library(troupe_torch INTERFACE IMPORTED GLOBAL)
target_include_directories(troupe_torch INTERFACE ${TROUPE_TORCH_ROOT}/include/torch/csrc/api/include)
# -idirafter, not -isystem: the wheel has headers of other libraries (fmt, nlohmann) that would hide the distribution's.
target_compile_options(troupe_torch INTERFACE "SHELL:-idirafter ${TROUPE_TORCH_ROOT}/include")
target_link_libraries(troupe_torch INTERFACE troupe_wheel_torch_cpu troupe_wheel_c10)

# RPATH rather than RUNPATH, so that it also applies to the libraries that LibTorch itself loads.
set(troupe_nvidia "${TROUPE_TORCH_ROOT}/../nvidia")
set(troupe_rpath ${TROUPE_TORCH_ROOT}/lib)
foreach(part cu13 nccl cudnn cusparselt nvshmem)
  list(APPEND troupe_rpath ${troupe_nvidia}/${part}/lib)
endforeach()
set(TROUPE_MORE_RPATH "" CACHE STRING "Additional folders of shared libraries that the loader does not search by default")
list(APPEND troupe_rpath ${TROUPE_MORE_RPATH})
list(APPEND CMAKE_INSTALL_RPATH ${troupe_rpath})
# Otherwise the path of the build ends in an empty entry, which the loader takes for the current folder.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
list(JOIN troupe_rpath ":" troupe_rpath_link)
target_link_options(troupe_torch INTERFACE LINKER:--disable-new-dtags LINKER:-rpath-link,${troupe_rpath_link})

if(TROUPE_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90-real 100)
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 does not support C++20 for nvcc
  find_package(CUDAToolkit REQUIRED)
  foreach(library torch_cuda c10_cuda)
    if(NOT EXISTS "${TROUPE_TORCH_ROOT}/../nvidia/cudnn/lib")
      message(FATAL_ERROR "The libraries required by a CUDA build were not found. Run scripts/setup --cuda.")
    endif()
    add_library(troupe_wheel_${library} SHARED IMPORTED GLOBAL)
    set_target_properties(troupe_wheel_${library} PROPERTIES
      IMPORTED_LOCATION ${TROUPE_TORCH_ROOT}/lib/lib${library}.so)
  endforeach()
  # --no-as-needed, because torch_cuda registers its kernels in static initialisers and no symbol refers to it.
  # LINK_ONLY, because only the files in algorithms/device that are compiled for CUDA alone need the headers: with the same
  # options, ccache finds all others in a release build.
  target_link_libraries(troupe_torch INTERFACE -Wl,--no-as-needed troupe_wheel_torch_cuda troupe_wheel_c10_cuda
    $<LINK_ONLY:CUDA::cudart>)
  # The NCCL that LibTorch uses: two copies in one process would not share their state.
  find_path(TROUPE_NCCL_INCLUDE nccl.h HINTS ${troupe_nvidia}/nccl/include REQUIRED)
  find_library(TROUPE_NCCL_LIBRARY NAMES libnccl.so.2 HINTS ${troupe_nvidia}/nccl/lib REQUIRED)
  target_link_libraries(troupe_torch INTERFACE ${TROUPE_NCCL_LIBRARY})
endif()
