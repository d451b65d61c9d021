# Debian packages: `cpack --preset release` in the source tree, or `make package`, writes
#
#   weft        the program, its plugins, manual pages, completion, documents
#   weft-cuda   the plugins cuda and nccl, where they were built
#   weft-dev    the SDK: headers, templates, samples, files for CMake and pkg-config
#
# into build/release/package. An install() names its package as its COMPONENT; without one it is
# `weft`. The date of the change log is that of the commit, so that the same commit gives the same
# packages.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "weft maintainers <maintainers@users.noreply.weft.example>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL weft dev)
if(TARGET weft_device_cuda OR TARGET weft_comm_nccl)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_WEFT_PACKAGE_NAME weft)
set(CPACK_DEBIAN_WEFT_PACKAGE_RECOMMENDS
  "bash-completion, libmicrohttpd12 | libmicrohttpd12t64")
set(CPACK_DEBIAN_WEFT_PACKAGE_SUGGESTS "weft-dev, libucx0, librdmacm1, openmpi-bin")
set(CPACK_COMPONENT_WEFT_DESCRIPTION "distributed training of language models
weft trains GPT-2 and Llama models on many processes and machines.
A small core plans each step before it runs. Transports, parallel
strategies, optimizers and devices are plugins of one INI file.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME weft-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "weft (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEV_DESCRIPTION "distributed training of language models - SDK for plugins
Headers, templates, samples and build files for plugins of weft:
transports, strategies, optimizers, devices, model families, data,
tokenizers and sinks.")
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME weft-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "weft (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_CUDA_DESCRIPTION "distributed training of language models - NVIDIA GPUs
The device cuda and the transport nccl of weft. NVIDIA's driver,
cuBLASLt, cuDNN and NCCL are opened when a job uses them, and are not
part of this package.")
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/package_files.cmake)

# What policy wants beside the files of each package.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
find_program(WEFT_GIT git)
if(WEFT_GIT AND EXISTS ${CMAKE_SOURCE_DIR}/.git AND NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND ${WEFT_GIT} log -1 --format=%cD WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    OUTPUT_VARIABLE commit_date ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(commit_date)
    set(date "${commit_date}")
  endif()
endif()
file(WRITE ${CMAKE_BINARY_DIR}/changelog
  "weft (${PROJECT_VERSION}) unstable; urgency=medium\n\n"
  "  * The changes are in CHANGELOG.md of the source.\n\n"
  " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
execute_process(COMMAND gzip -9nkf ${CMAKE_BINARY_DIR}/changelog RESULT_VARIABLE no_gzip)
if(no_gzip)
  message(STATUS "Debian packages are left out: there is no gzip")
  return()
endif()
foreach(component weft dev cuda)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  install(FILES ${CMAKE_SOURCE_DIR}/cmake/copyright ${CMAKE_BINARY_DIR}/changelog.gz
    DESTINATION share/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
# A plugin without a call into libc links no library; it is no library that others link.
file(WRITE ${CMAKE_BINARY_DIR}/overrides
  "weft: shared-library-lacks-prerequisites [usr/lib/weft/*]\n")
install(FILES ${CMAKE_BINARY_DIR}/overrides DESTINATION share/lintian/overrides RENAME weft
  COMPONENT weft EXCLUDE_FROM_ALL)

include(CPack)
