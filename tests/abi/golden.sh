#!/bin/sh
# golden.sh NOW FROZEN GOLDEN: is the layout that NOW prints that of the frozen headers, which
# FROZEN prints, but for the lines of GOLDEN? There a line of the frozen headers that has gone, or
# says something else now, begins at the margin, and one that has come since with a tab.
set -eu
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" | sort >"$work/now"
"$2" | sort >"$work/frozen"
comm -3 "$work/frozen" "$work/now" >"$work/golden"
diff -u "$3" "$work/golden" && exit 0
echo "a public layout or number has changed; if that is meant, raise WEFT_ABI_MINOR and make" \
  "layout.golden of what now differs from 0.9, which stands above"
exit 1
