# Write OUT, a header with the commit of the source tree: "7ec29751b2c3", "7ec29751b2c3 with
# changes", or "" where SOURCE is no working tree of git. The file is left alone where it would stay
# the same, so that only a new commit compiles anything again.
find_program(GIT git)
set(commit "")
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} describe --always --abbrev=12 --exclude=* --dirty=\ with\ changes
    WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
file(WRITE ${OUT}.new "#define WEFT_COMMIT \"${commit}\"\n")
file(COPY_FILE ${OUT}.new ${OUT} ONLY_IF_DIFFERENT)
file(REMOVE ${OUT}.new)
