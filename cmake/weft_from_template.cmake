# weft_from_template(KIND NAME SOURCES)
#
# For tests in the tree: the sources that `weft plugins new KIND NAME` writes in C, in a folder of
# the build called by the last word of NAME. SOURCES: the variable that gets their paths.
function(weft_from_template KIND NAME SOURCES)
  string(REGEX REPLACE ".*\\." "" WORD ${NAME})
  set(from ${CMAKE_SOURCE_DIR}/sdk/templates/${KIND})
  file(GLOB templates CONFIGURE_DEPENDS ${from}/*.c.in ${from}/*.h.in)
  set(found)
  foreach(template ${templates})
    get_filename_component(file ${template} NAME_WLE)
    string(REGEX REPLACE "^plugin\\.c$" ${WORD}.c file ${file})
    configure_file(${template} ${CMAKE_CURRENT_BINARY_DIR}/${WORD}/${file} @ONLY)
    if(file MATCHES "\\.c$")
      list(APPEND found ${CMAKE_CURRENT_BINARY_DIR}/${WORD}/${file})
    endif()
  endforeach()
  set(${SOURCES} ${found} PARENT_SCOPE)
endfunction()
