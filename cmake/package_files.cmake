# Run by cpack when the files of each package are in a folder of their own. Programs and plugins of
# a package find their libraries where the system has them or in the package, so paths of the build
# tree go; permissions become those that packages have, whatever the umask.
file(GLOB pkgconfig ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/lib/pkgconfig)
foreach(folder ${pkgconfig}) # weft.pc names nothing of one architecture
  file(RENAME ${folder} ${folder}/../../share/pkgconfig)
endforeach()
file(GLOB_RECURSE files LIST_DIRECTORIES true ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
set(program OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(data OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
foreach(file ${files})
  if(IS_SYMLINK ${file})
    continue()
  elseif(IS_DIRECTORY ${file} OR file MATCHES "/usr/bin/")
    file(CHMOD ${file} PERMISSIONS ${program})
  else()
    file(CHMOD ${file} PERMISSIONS ${data})
  endif()
  if(file MATCHES "/usr/bin/|\\.so$" AND NOT IS_DIRECTORY ${file})
    file(READ_ELF ${file} RPATH path RUNPATH newer CAPTURE_ERROR error)
    # A plugin has the path of a library of weft's own.
    if(NOT "${path}${newer}" STREQUAL "$ORIGIN/../lib" OR file MATCHES "/usr/bin/")
      file(RPATH_REMOVE FILE ${file})
    endif()
  endif()
endforeach()
