# LibTorch, taken from the `torch` wheel, as the target troupe_torch.
#
# find_package(Torch) is not used: it wants a CUDA toolkit for a CPU build, turns CUDA on as a language, and ignores
# CMAKE_CUDA_ARCHITECTURES. Also read by the installed package: its targets refer to troupe_torch by name,
# so the same wheel may lie elsewhere there.
if(TARGET troupe_torch)
  return()
endif()
set(TROUPE_TORCH_ROOT "" CACHE PATH "folder of the torch package inside site-packages (default: that of .venv)")
if(NOT TROUPE_TORCH_ROOT)
  file(GLOB torch_candidates "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
  if(NOT torch_candidates)
    message(FATAL_ERROR "LibTorch was not found. Run scripts/setup, or give -DTROUPE_TORCH_ROOT=<folder of the torch package>.")
  endif()
  list(GET torch_candidates 0 TROUPE_TORCH_ROOT)
endif()
get_filename_component(TROUPE_TORCH_ROOT "${TROUPE_TORCH_ROOT}" REALPATH)
if(NOT EXISTS "${TROUPE_TORCH_ROOT}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "no LibTorch in TROUPE_TORCH_ROOT=${TROUPE_TORCH_ROOT} (lib/libtorch_cpu.so is missing)")
endif()

foreach(library torch_cpu c10)
  add_library(troupe_wheel_${library} SHARED IMPORTED GLOBAL)
  set_target_properties(troupe_wheel_${library} PROPERTIES
    IMPORTED_LOCATION ${TROUPE_TORCH_ROOT}/lib/lib${library}.so)
endforeach()

# Imported, so that an exported target may refer to it without exporting it; its headers are system headers.
add_library(troupe_torch INTERFACE IMPORTED GLOBAL)
target_include_directories(troupe_torch INTERFACE ${TROUPE_TORCH_ROOT}/include/torch/csrc/api/include)
# -idirafter, not -isystem: the wheel brings headers of other libraries (fmt, nlohmann) that would shadow the distribution's.
target_compile_options(troupe_torch INTERFACE "SHELL:-idirafter ${TROUPE_TORCH_ROOT}/include")
target_link_libraries(troupe_torch INTERFACE troupe_wheel_torch_cpu troupe_wheel_c10)

# RPATH rather than RUNPATH, so that it also serves what LibTorch itself loads.
set(troupe_nvidia "${TROUPE_TORCH_ROOT}/../nvidia")
set(troupe_rpath ${TROUPE_TORCH_ROOT}/lib)
foreach(part cu13 nccl cudnn cusparselt nvshmem)
  list(APPEND troupe_rpath ${troupe_nvidia}/${part}/lib)
endforeach()
set(TROUPE_MORE_RPATH "" CACHE STRING "folders of further shared libraries, where the loader does not look")
list(APPEND troupe_rpath ${TROUPE_MORE_RPATH})
list(APPEND CMAKE_BUILD_RPATH ${troupe_rpath})
list(APPEND CMAKE_INSTALL_RPATH ${troupe_rpath})
list(JOIN troupe_rpath ":" troupe_rpath_link)
target_link_options(troupe_torch INTERFACE LINKER:--disable-new-dtags LINKER:-rpath-link,${troupe_rpath_link})

if(TROUPE_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90-real 100)
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 knows no C++20 dialect of nvcc
  find_package(CUDAToolkit REQUIRED)
  foreach(library torch_cuda c10_cuda)
    if(NOT EXISTS "${TROUPE_TORCH_ROOT}/../nvidia/cudnn/lib")
      message(FATAL_ERROR "a CUDA build links libraries that are not there yet: run scripts/setup --cuda")
    endif()
    add_library(troupe_wheel_${library} SHARED IMPORTED GLOBAL)
    set_target_properties(troupe_wheel_${library} PROPERTIES
      IMPORTED_LOCATION ${TROUPE_TORCH_ROOT}/lib/lib${library}.so)
  endforeach()
  # --no-as-needed: torch_cuda registers its kernels from static initialisers, no symbol refers to it.
  target_link_libraries(troupe_torch INTERFACE -Wl,--no-as-needed troupe_wheel_torch_cuda troupe_wheel_c10_cuda
    CUDA::cudart)
  # NCCL as LibTorch brings it: two copies of it in one process would be two worlds.
  find_path(TROUPE_NCCL_INCLUDE nccl.h HINTS ${troupe_nvidia}/nccl/include REQUIRED)
  find_library(TROUPE_NCCL_LIBRARY NAMES libnccl.so.2 HINTS ${troupe_nvidia}/nccl/lib REQUIRED)
  target_link_libraries(troupe_torch INTERFACE ${TROUPE_NCCL_LIBRARY})
endif()
