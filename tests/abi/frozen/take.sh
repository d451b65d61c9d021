#!/bin/sh
# take.sh VERSION: freeze the headers of an ABI version: copy sdk/include/weft, without comments, to
# VERSION/include and write the digests of the copies to VERSION/digests. Taken once, when the
# version is released; a copy never changes afterwards, and the tests here build plugins with it for
# as long as 0.x exists.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$here/${1:?usage: take.sh VERSION}
[ ! -e "$folder/include" ] || { echo "take.sh: $folder/include exists; it never changes"; exit 1; }
mkdir -p "$folder/include/weft"
for header in "$here"/../../../sdk/include/weft/*.h; do
  cc -w -fpreprocessed -dD -E -P -x c "$header" >"$folder/include/weft/${header##*/}"
done
clang-format -i "$folder"/include/weft/*.h
cd "$folder/include"
sha256sum weft/*.h >../digests
echo "$(wc -l <../digests) headers of ABI $1 are in $folder/include"
