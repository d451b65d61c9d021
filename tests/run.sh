#!/bin/sh
# Every test: in the build that people use, then under the address and undefined-behaviour
# sanitizers, then what has threads under the thread sanitizer. Ends with one line of sums, which is
# also in build/summary.txt; status 1 when a test failed or a build did not come about.
#
#   tests/run.sh [PRESET ...]      these builds alone: release asan-ubsan tsan
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=$(nproc)
passed=0 failed=0 skipped=0
mkdir -p build

# What looks at the tree alone says the same in every build, and what has threads is for the thread
# sanitizer. What a sanitizer sees little in is left to `make nightly`, which sets WEFT_WHOLE=1:
# deaths that are timed; the launcher, which has no threads; and jobs whose numbers are compared
# with those of one rank. parity.matrix has a sample of such jobs, and tests of plans and of
# collectives ask for the rest. That pieces of one arena overlap no sanitizer can see, and bounds of
# the cuda device's kernels are for the interpreter of PTX, which sees them (tests/cuda/ptx/ptx.h).
tree='^(tidy|abi\.headers|abi\.outside|pytorch)'
threads='^(links|fault|comm\.(links|threads)|job|unit\.(comm|job|run|log))'
not_address='^(fault\.(job_(death|launch)|train_frozen)'
not_address="$not_address|parity\.(compress|layouts|machines|recompute|resume|stages)"
not_address="$not_address|parity\.(sums|tensor|zero)|cuda\.ranks|double\.double|openness"
not_address="$not_address|ops\.(joined_test\.cuda_own|ops_test\.cuda))"
not_thread='^fault\.(job_launch|train_frozen)'
[ -z "${WEFT_WHOLE:-}" ] || not_address='^$' not_thread='^$'

number() { # of an attribute of the whole report, which come before those of the tests
  sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -n 1
}

# What tests of threads need: all of the core and of the plugins, and these folders of tests.
parts() {
  for list in core plugins/*/* tests/links tests/fault tests/comm tests/schedule tests/unit; do
    [ ! -f "$list/CMakeLists.txt" ] || echo "$list/all"
  done
}

run() { # PRESET TARGETS [CTEST OPTIONS ...]
  preset=$1 targets=$2
  shift 2
  echo "=== $preset"
  report=$PWD/build/$preset.xml
  rm -f "$report"
  # shellcheck disable=SC2086 # a list of words
  if ! sh cmake/configure.sh "$preset" ||
    ! cmake --build --preset "$preset" --target $targets -- -k 0 >>"build/$preset.log" 2>&1; then
    grep -E 'error|Error|FAILED' "build/$preset.log" | head -n 20
    echo "the build $preset failed; all of it: build/$preset.log"
    failed=$((failed + 1))
    return
  fi
  ctest --preset "$preset" -j "$jobs" --timeout 600 --no-tests=error \
    --output-junit "$report" "$@" || true
  if [ ! -s "$report" ]; then
    echo "ctest left no report"
    failed=$((failed + 1))
    return
  fi
  all=$(number tests "$report") bad=$(number failures "$report")
  left=$(($(number skipped "$report") + $(number disabled "$report")))
  passed=$((passed + all - bad - left)) failed=$((failed + bad)) skipped=$((skipped + left))
}

[ $# -gt 0 ] || set -- release asan-ubsan tsan
for preset in "$@"; do
  case $preset in
    asan-ubsan) run "$preset" all -E "$tree|$not_address" ;;
    tsan) run "$preset" "$(parts)" -R "$threads" -E "$not_thread" ;;
    *) run "$preset" all ;;
  esac
done
echo
echo "$passed passed, $failed failed, $skipped skipped" | tee build/summary.txt
[ "$failed" -eq 0 ]
