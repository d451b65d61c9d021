#!/bin/sh
# make demo: a text becomes token files, two ranks train on them, and the model writes. The text is
# the fortune cookies of the distribution, or TEXT. WEFT is the program.
set -eu

fortunes=/usr/share/games/fortunes
if [ -n "${TEXT:-}" ]; then
  set -- "$TEXT"
else
  # the cookies themselves: neither their indexes nor the links to them
  set -- $(find "$fortunes" -maxdepth 1 -type f ! -name '*.dat' ! -name '*.u8' 2>/dev/null | sort)
  [ $# -gt 0 ] || { echo "no text in $fortunes: make setup installs it, or say TEXT=FILE"; exit 1; }
fi
mkdir -p runs
"$WEFT" data --force "$@" -o runs/demo-train.bin --valid runs/demo-valid.bin
"$WEFT" train -n 2 configs/demo.ini
newest=$(ls -d runs/demo/checkpoints/step-* | tail -n 1)
echo
"$WEFT" sample "$newest" --prompt "The " --tokens 400
echo
echo "What next: $WEFT report runs/demo draws the run, and README.md has a tour of the commands and"
echo "trains on a text of yours."
