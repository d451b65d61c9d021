#!/bin/sh
# take.sh VERSION: freeze the headers of an ABI version: copy sdk/include/weft to VERSION/include
# and write their digests to VERSION/digests. Taken once, when the version is released; a copy never
# changes afterwards, and the tests here build plugins with it for as long as 0.x exists.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$here/${1:?usage: take.sh VERSION}
[ ! -e "$folder/include" ] || { echo "take.sh: $folder/include exists; it never changes"; exit 1; }
mkdir -p "$folder/include"
cp -r "$here/../../../sdk/include/weft" "$folder/include/weft"
cd "$folder/include"
sha256sum weft/*.h >../digests
echo "$(wc -l <../digests) headers of ABI $1 are in $folder/include"
