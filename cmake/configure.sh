#!/bin/sh
# Configure one build: cmake/configure.sh PRESET. What cmake says goes to build/PRESET.log and is
# printed on failure.
#
# A build folder that came along with a copied or moved tree names the folder that it was made in,
# and cmake refuses it. Nothing in it can be used here, so it is removed, with a sentence.
set -u
cd "$(dirname "$0")/.." || exit 1
preset=$1
cache=build/$preset/CMakeCache.txt
mkdir -p build
if [ -f "$cache" ]; then
  made=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache")
  if [ "$made" != "$(pwd -P)" ] && [ "$made" != "$PWD" ]; then
    echo "build/$preset was made in ${made:-an unnamed folder}, not here:" \
      "it is removed and built again"
    rm -rf "build/$preset"
  fi
fi
cmake --preset "$preset" >"build/$preset.log" 2>&1 && exit
status=$?
cat "build/$preset.log"
exit $status
