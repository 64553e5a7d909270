# The Debian package and the tarball, which scripts/package makes with CPack. CPack also runs this file, as a script, after
# it has installed everything into a folder of its own: it replaces the paths of the machine that built the command, and puts
# the launcher, which finds LibTorch, in place of the command.
if(NOT CMAKE_SCRIPT_MODE_FILE AND NOT CPACK_TEMPORARY_DIRECTORY)
  set(CPACK_PACKAGE_NAME troupe)
  set(CPACK_PACKAGE_VENDOR "the Troupe authors")
  set(CPACK_PACKAGE_CONTACT "the Troupe authors")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
  set(CPACK_PACKAGE_FILE_NAME troupe-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
  set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
  set(CPACK_PACKAGE_DESCRIPTION "Trains one model with many workers, which communicate as a topology file describes: \
by all-reduce, through parameter servers, by gossip on any graph, and in other ways.\n.\nThe package does not contain \
LibTorch, without which the command does not start: `troupe setup` fetches it from PyPI (550 MB).")
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3, python3-venv, ca-certificates")  # for `troupe setup`
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS "g++, cmake, make, pkg-config, libcaf-dev, libboost-dev, libisal-dev, \
nlohmann-json3-dev, libssl-dev, zlib1g-dev, libpng-dev, libjpeg62-turbo-dev, libjemalloc-dev")  # for find_package()
  set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/deploy/package/postrm)
  set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_FILE})
  set(CPACK_TROUPE_SOURCE ${PROJECT_SOURCE_DIR})
  set(CPACK_TROUPE_TORCH_ROOT ${TROUPE_TORCH_ROOT})
  include(CPack)
  return()
endif()

set(prefix ${CPACK_TEMPORARY_INSTALL_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX})
file(MAKE_DIRECTORY ${prefix}/lib/troupe)
file(RENAME ${prefix}/bin/troupe ${prefix}/lib/troupe/troupe)
foreach(library ${CPACK_TROUPE_LIBRARIES})  # those that a tarball brings along
  file(REAL_PATH ${library} path)
  get_filename_component(name ${library} NAME)
  file(COPY_FILE ${path} ${prefix}/lib/troupe/${name})
  execute_process(COMMAND ${CPACK_TROUPE_PATCHELF} --force-rpath --set-rpath "$ORIGIN" ${prefix}/lib/troupe/${name}
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${CPACK_TROUPE_PATCHELF} --force-rpath --set-rpath "$ORIGIN" ${prefix}/lib/troupe/troupe
  COMMAND_ERROR_IS_FATAL ANY)
file(COPY ${CPACK_TROUPE_SOURCE}/deploy/package/troupe DESTINATION ${prefix}/bin FILE_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
file(COPY ${CPACK_TROUPE_SOURCE}/deploy/package/torch.txt DESTINATION ${prefix}/share/troupe NO_SOURCE_PERMISSIONS)
file(COPY ${CPACK_TROUPE_LICENCES}/ DESTINATION ${prefix}/share/doc/troupe/licenses NO_SOURCE_PERMISSIONS)
file(COPY_FILE ${CPACK_TROUPE_LICENCES}/troupe.txt ${prefix}/share/doc/troupe/copyright)
file(GLOB pages ${prefix}/share/man/man?/troupe*)
execute_process(COMMAND gzip -9 --no-name ${pages} COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE configuration ${prefix}/lib/*/cmake/Troupe/*.cmake ${prefix}/lib/cmake/Troupe/*.cmake)
foreach(path ${configuration})
  file(READ ${path} text)
  string(REPLACE "\"${CPACK_TROUPE_TORCH_ROOT}\" " "" text "${text}")  # `troupe setup` puts it elsewhere
  string(REPLACE "/bin/troupe\"" "/lib/troupe/troupe\"" text "${text}")  # the launcher is in its place
  file(WRITE ${path} "${text}")
endforeach()
