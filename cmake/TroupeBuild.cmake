# Settings of all targets of the project: language standard, warnings, ccache, sanitizers and the include root.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g0")  # no NDEBUG: asserts are cheap compared to a training step

set(CMAKE_OPTIMIZE_DEPENDENCIES ON)  # a storey is compiled while the one below still is
option(TROUPE_UNITY "Compile many files together, in less than half of the time; OFF compiles each alone" ON)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths are relative to the checkout, so that a second clone uses what the first one compiled. Without this
  # sloppiness, ccache ignores code that includes a precompiled header. With CCACHE_DEPEND, it takes the headers of a
  # file from the compiler, and does not preprocess the file first.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
find_program(LLD ld.lld)
if(LLD)
  add_link_options(-fuse-ld=lld)
endif()

add_library(troupe_options INTERFACE)
# No contraction, so that sums have the same bits on machines with and without fused multiply-add.
target_compile_options(troupe_options INTERFACE -ffp-contract=off)
target_compile_options(troupe_options INTERFACE $<BUILD_INTERFACE:-Wall> $<BUILD_INTERFACE:-Wextra>
  $<BUILD_INTERFACE:-Wpedantic> $<BUILD_INTERFACE:-Werror>)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # the warnings that are disabled elsewhere are GCC's
  target_compile_options(troupe_options INTERFACE $<BUILD_INTERFACE:-Wno-unknown-warning-option>)
else()
  # GCC warns falsely of functions that take a temporary and return a reference to something else.
  target_compile_options(troupe_options INTERFACE
    $<BUILD_INTERFACE:$<$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>:-Wno-dangling-reference>>)
  # Let the compiler collect its garbage from 1 GiB on, not from 128 MiB: a tenth less time for large files.
  target_compile_options(troupe_options INTERFACE $<BUILD_INTERFACE:--param=ggc-min-heapsize=1048576>)
endif()
if(TROUPE_SANITIZE)
  # -O1, because -O2 takes a third longer to compile, and with -O0 the simulations take several times longer. The checks
  # null and alignment would double the time to compile, and the address sanitizer reports null pointers anyway. GCC 12
  # warns falsely of uninitialised reads in instrumented standard headers.
  target_compile_options(troupe_options INTERFACE -fsanitize=${TROUPE_SANITIZE} -fno-sanitize=null,alignment
    -fno-omit-frame-pointer -O1 -g1 -Wno-maybe-uninitialized)
  target_link_options(troupe_options INTERFACE -fsanitize=${TROUPE_SANITIZE})
endif()

# include/ has the headers for programs that use Troupe. For the others, cmake/include/troupe has a symbolic link to each
# storey, so that "troupe/actors/port/port.hpp" is spelled as in an installation. All build folders share them, so that a
# file compiled with the same options in two of them, such as a release and a CUDA build, is compiled once by ccache.
set(TROUPE_INCLUDE_ROOTS ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/cmake/include)

# troupe_library(<storey> SOURCES … LINK … PRIVATE … TOGETHER <n> PRECOMPILED BRIEFLY) adds the static library of a
# storey. Its files are compiled n at a time, so many that a changed line costs at most half a minute: names in anonymous
# namespaces must differ within a storey. BRIEFLY compiles a release with -O1, since -O2 takes a third longer;
# it is for code that runs once, or once for each message or operator.
function(troupe_library storey)
  cmake_parse_arguments(arg "PRECOMPILED;BRIEFLY" "TOGETHER" "SOURCES;LINK;PRIVATE" ${ARGN})
  add_library(troupe_${storey} STATIC ${arg_SOURCES})
  add_library(troupe::${storey} ALIAS troupe_${storey})
  target_include_directories(troupe_${storey} PUBLIC "$<BUILD_INTERFACE:${TROUPE_INCLUDE_ROOTS}>"
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(troupe_${storey} PUBLIC ${arg_LINK} troupe_options)
  foreach(library ${arg_PRIVATE})
    target_link_libraries(troupe_${storey} PRIVATE ${library})
  endforeach()
  if(arg_BRIEFLY)
    target_compile_options(troupe_${storey} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(arg_BRIEFLY OR TROUPE_UNITY)  # GCC 12 warns falsely of copies when it inlines less
    target_compile_options(troupe_${storey} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  endif()
  if(TROUPE_UNITY AND arg_TOGETHER)
    set_target_properties(troupe_${storey} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${arg_TOGETHER})
    # GCC takes an included .cpp file for a header, which should have no anonymous namespace.
    target_compile_options(troupe_${storey} PRIVATE -Wno-subobject-linkage)
    if(arg_PRECOMPILED)
      target_precompile_headers(troupe_${storey} REUSE_FROM troupe_precompiled)
    endif()
  endif()
endfunction()
