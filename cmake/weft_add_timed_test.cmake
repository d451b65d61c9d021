# weft_add_timed_test(TEST COMMAND...): cases of a program or script, or all of it, that ask how
# long something takes. In the test TEST_timed, of the release build alone, WEFT_TIMED=1 has
# patience() of tests/patience.h and of tests/parity/weft_jobs.py ask that; `make integration` runs
# it beside no other.
function(weft_add_timed_test name)
  if(WEFT_SANITIZE)
    return()
  endif()
  add_test(NAME ${name}_timed COMMAND ${ARGN})
  set_tests_properties(${name}_timed PROPERTIES LABELS timed RUN_SERIAL ON TIMEOUT 600
    SKIP_RETURN_CODE 77 ENVIRONMENT WEFT_TIMED=1)
endfunction()
