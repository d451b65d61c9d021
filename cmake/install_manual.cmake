# Manual pages and completion, from what the program says of itself (cmake/manual.py). WEFT: the
# command that starts it, a list; OUT: a folder of the build tree; INTO: the prefix.
find_program(WEFT_PYTHON python3)
if(NOT WEFT_PYTHON)
  message(STATUS "manual pages and completion are left out: there is no Python 3")
  return()
endif()
execute_process(COMMAND ${WEFT_PYTHON} -B ${CMAKE_CURRENT_LIST_DIR}/manual.py ${VERSION} ${OUT}
  ${WEFT} COMMAND_ERROR_IS_FATAL ANY)
file(GLOB pages ${OUT}/man1/*.gz)
file(INSTALL ${pages} DESTINATION ${INTO}/share/man/man1)
file(INSTALL ${OUT}/weft.bash DESTINATION ${INTO}/share/bash-completion/completions RENAME weft)
file(INSTALL ${OUT}/_weft DESTINATION ${INTO}/share/zsh/vendor-completions)
