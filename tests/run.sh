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

# What looks at the tree alone says the same in every build; deaths are timed, one after the other,
# and two builds of three are enough for that.
tree='^(tidy|abi\.headers|abi\.outside|pytorch|fault\.(job_(death|launch)|train_frozen))'
threads='^(links|fault|comm\.(links|threads)|job|unit\.(comm|job|run|log))'

number() { # of an attribute of the whole report, which come before those of the tests
  sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -n 1
}

run() { # PRESET [CTEST OPTIONS ...]
  preset=$1
  shift
  echo "=== $preset"
  report=$PWD/build/$preset.xml
  rm -f "$report"
  if ! cmake --preset "$preset" >"build/$preset.log" 2>&1 ||
    ! cmake --build --preset "$preset" -- -k 0 >>"build/$preset.log" 2>&1; then
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
    asan-ubsan) run "$preset" -E "$tree" ;;
    tsan) run "$preset" -R "$threads" ;;
    *) run "$preset" ;;
  esac
done
echo
echo "$passed passed, $failed failed, $skipped skipped" | tee build/summary.txt
[ "$failed" -eq 0 ]
