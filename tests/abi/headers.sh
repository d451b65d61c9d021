#!/bin/sh
# headers.sh INCLUDE: each public header compiles alone, and all of them together and twice, as C11,
# C17, C23, C++11 and C++17, with gcc and clang, without a warning. A compiler that is missing is a
# failure: a check that may be skipped is one day always skipped.
include=$1
status=0
all=""
try() {
  if ! printf '%b' "$2" | $1 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$include" -; then
    echo "$1 refuses: $2"
    status=1
  fi
}
for header in "$include"/weft/*.h; do
  all="$all#include <weft/$(basename "$header")>\n"
done
for compiler in "gcc -x c -std=c11" "gcc -x c -std=c17" "gcc -x c -std=gnu2x" \
  "clang -x c -std=c11" "clang -x c -std=c17" "clang -x c -std=gnu2x" \
  "g++ -x c++ -std=c++11" "g++ -x c++ -std=c++17" \
  "clang++ -x c++ -std=c++11" "clang++ -x c++ -std=c++17"; do
  command -v "${compiler%% *}" >/dev/null || { echo "no ${compiler%% *} here"; status=1; continue; }
  for header in "$include"/weft/*.h; do
    try "$compiler" "#include <weft/$(basename "$header")>\n"
  done
  try "$compiler" "$all$all"
done
exit $status
