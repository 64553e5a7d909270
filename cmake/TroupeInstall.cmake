# Installs the command, the libraries, the headers and a package for find_package(Troupe).
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Troupe)

# Programs link troupe::troupe, which is all that a run needs, troupe::command, which adds the command, or troupe::client,
# with which they attach to a run, without LibTorch. Plug-ins link troupe::plugin, which has the headers but none of the
# libraries: they use those of the command that loads them.
add_library(troupe_plugin INTERFACE)
target_include_directories(troupe_plugin INTERFACE "$<BUILD_INTERFACE:${TROUPE_INCLUDE_ROOTS}>"
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(troupe_plugin INTERFACE troupe_torch troupe_options)
target_compile_features(troupe_plugin INTERFACE cxx_std_20)
set_target_properties(troupe_plugin PROPERTIES EXPORT_NAME plugin)
add_library(troupe_client INTERFACE)
target_link_libraries(troupe_client INTERFACE troupe_net)
target_compile_features(troupe_client INTERFACE cxx_std_20)
set_target_properties(troupe_client PROPERTIES EXPORT_NAME client)
add_library(troupe_package INTERFACE)
target_link_libraries(troupe_package INTERFACE troupe_runtime)
target_compile_features(troupe_package INTERFACE cxx_std_20)
target_compile_features(troupe_apps INTERFACE cxx_std_20)
set_target_properties(troupe_package PROPERTIES EXPORT_NAME troupe)
foreach(storey files net models data algorithms actors runtime tools)
  set_target_properties(troupe_${storey} PROPERTIES EXPORT_NAME ${storey})
endforeach()
set_target_properties(troupe_apps PROPERTIES EXPORT_NAME command)
install(TARGETS troupe_client troupe_net troupe_files troupe_options EXPORT TroupeClientTargets)
install(TARGETS troupe_package troupe_plugin troupe_apps troupe_tools troupe_runtime troupe_actors troupe_algorithms
  troupe_data troupe_models EXPORT TroupeTargets)
install(TARGETS troupe)

# The public headers, which are those of include/troupe, and the headers that they include; no others.
file(GLOB to_read RELATIVE ${PROJECT_SOURCE_DIR}/include/troupe CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/include/troupe/*.hpp)
set(installed_headers ${to_read})
while(to_read)
  list(POP_FRONT to_read header)
  set(header_path ${PROJECT_SOURCE_DIR}/include/troupe/${header})
  if(NOT EXISTS ${header_path})
    set(header_path ${PROJECT_SOURCE_DIR}/cmake/include/troupe/${header})
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header_path})
  file(STRINGS ${header_path} lines REGEX "^#include \"troupe/")
  foreach(line ${lines})
    string(REGEX REPLACE "^#include \"troupe/(.*)\"$" "\\1" included ${line})
    if(NOT included IN_LIST installed_headers)
      list(APPEND installed_headers ${included})
      list(APPEND to_read ${included})
    endif()
  endforeach()
  get_filename_component(folder troupe/${header} DIRECTORY)
  install(FILES ${header_path} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT headers)
endwhile()

install(DIRECTORY topologies DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe)

# The command prints its manual and the completion scripts of shells.
install(CODE "
  function(print_to path)
    get_filename_component(folder \${path} DIRECTORY)
    file(MAKE_DIRECTORY \${folder})
    execute_process(COMMAND $<TARGET_FILE:troupe> \${ARGN} OUTPUT_FILE \${path} COMMAND_ERROR_IS_FATAL ANY)
    message(STATUS \"Installing: \${path}\")
  endfunction()
  get_filename_component(prefix \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX} ABSOLUTE)
  print_to(\${prefix}/${CMAKE_INSTALL_DATADIR}/bash-completion/completions/troupe completions bash)
  print_to(\${prefix}/${CMAKE_INSTALL_DATADIR}/zsh/site-functions/_troupe completions zsh)
  print_to(\${prefix}/${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d/troupe.fish completions fish)
  execute_process(COMMAND $<TARGET_FILE:troupe> man --dir \${prefix}/${CMAKE_INSTALL_MANDIR} COMMAND_ERROR_IS_FATAL ANY)
  message(STATUS \"Installing: \${prefix}/${CMAKE_INSTALL_MANDIR}\")
  file(GLOB printed \${prefix}/${CMAKE_INSTALL_MANDIR}/man?/troupe*)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \${printed}
    \${prefix}/${CMAKE_INSTALL_DATADIR}/bash-completion/completions/troupe
    \${prefix}/${CMAKE_INSTALL_DATADIR}/zsh/site-functions/_troupe
    \${prefix}/${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d/troupe.fish)")

# What the last `cmake --install` of this build folder has installed can be removed again.
if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -D MANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
    -P ${CMAKE_CURRENT_LIST_DIR}/TroupeUninstall.cmake)
endif()

configure_file(cmake/TroupeConfig.cmake.in TroupeConfig.cmake @ONLY)
write_basic_package_version_file(TroupeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT TroupeClientTargets NAMESPACE troupe:: DESTINATION ${package_folder})
install(EXPORT TroupeTargets NAMESPACE troupe:: DESTINATION ${package_folder})
install(FILES ${PROJECT_BINARY_DIR}/TroupeConfig.cmake ${PROJECT_BINARY_DIR}/TroupeConfigVersion.cmake
  cmake/TroupeTorch.cmake cmake/FindCAF.cmake DESTINATION ${package_folder})

# The reference of the public headers, as HTML in <build folder>/api.
find_program(DOXYGEN doxygen)
if(DOXYGEN AND PROJECT_IS_TOP_LEVEL)
  add_custom_target(api
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${PROJECT_BINARY_DIR}/api
    COMMAND ${CMAKE_COMMAND} -E env --unset=DESTDIR ${CMAKE_COMMAND} -D CMAKE_INSTALL_COMPONENT=headers
      -D CMAKE_INSTALL_PREFIX=${PROJECT_BINARY_DIR}/api/headers -P ${PROJECT_BINARY_DIR}/cmake_install.cmake
    COMMAND ${CMAKE_COMMAND} -E chdir ${PROJECT_BINARY_DIR}/api ${DOXYGEN} ${PROJECT_SOURCE_DIR}/docs/Doxyfile
    VERBATIM)
endif()
