#!/bin/sh
# golden.sh PROGRAM GOLDEN: what the program prints is what was committed.
"$1" | diff -u "$2" - && exit 0
echo "a public layout or number has changed; if that is meant, raise WEFT_ABI_MINOR and run:"
echo "  $1 > $2"
exit 1
