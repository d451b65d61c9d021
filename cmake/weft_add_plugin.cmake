# weft_add_plugin(KIND NAME SOURCES a.c b.cc [LIBRARIES ...] [OUTPUT_DIR dir])
#
# One plugin: a module KIND/NAME.so without a lib prefix, hidden visibility, an export map with the
# one symbol, and no undefined symbol left (-z defs). Sources may lie in sub-folders: includes are
# written from the folder that calls this function. KIND is device, comm, parallel, optim, model,
# data, tokenizer, sink or op (ops and kernels alone).
# The file is written to OUTPUT_DIR/KIND (lib/weft of the build tree unless given). It and the two
# folders are closed to the group where the user's files are open to it (umask 002), because the
# host loads nothing that others can write.
# Works inside the tree and, through find_package(weft), outside it.
set(WEFT_EXPORT_MAP ${CMAKE_CURRENT_LIST_DIR}/plugin.map CACHE INTERNAL "")

function(weft_add_plugin KIND NAME)
  cmake_parse_arguments(ARG "" "OUTPUT_DIR" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT KIND MATCHES "^(device|comm|parallel|optim|model|data|tokenizer|sink|op)$")
    message(FATAL_ERROR
      "weft_add_plugin: kind '${KIND}' is none of device, comm, parallel, optim, model, data, "
      "tokenizer, sink, op")
  endif()
  set(install ${WEFT_SDK_IN_TREE})
  if(ARG_OUTPUT_DIR)
    set(install OFF)
  else()
    set(ARG_OUTPUT_DIR ${CMAKE_BINARY_DIR}/lib/weft)
  endif()
  set(target weft_${KIND}_${NAME})
  add_library(${target} MODULE ${ARG_SOURCES})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  if(TARGET weft_flags)
    target_link_libraries(${target} PRIVATE weft_flags)
  endif()
  if(TARGET weft_sdk)
    target_link_libraries(${target} PRIVATE weft_sdk)
  else()
    target_link_libraries(${target} PRIVATE weft::sdk)
  endif()
  target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES})
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${NAME}
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON
    BUILD_RPATH "\$ORIGIN/../.." INSTALL_RPATH "\$ORIGIN/../.."
    LIBRARY_OUTPUT_DIRECTORY ${ARG_OUTPUT_DIR}/${KIND} LINK_DEPENDS ${WEFT_EXPORT_MAP})
  # CMake ends the run path of a build tree with ':', which means the working folder. Only a plugin
  # that links libraries of its own build tree needs that path.
  if(WEFT_SDK_IN_TREE OR NOT ARG_LIBRARIES)
    set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  endif()
  target_link_options(${target} PRIVATE LINKER:--version-script=${WEFT_EXPORT_MAP}
    LINKER:--exclude-libs,ALL)
  if(NOT WEFT_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND chmod go-w $<TARGET_FILE:${target}> ${ARG_OUTPUT_DIR}/${KIND} ${ARG_OUTPUT_DIR})
  if(install) # where the program looks: ../lib/weft, however this system names such folders
    install(TARGETS ${target} LIBRARY DESTINATION lib/weft/${KIND})
  endif()
endfunction()
