#!/bin/sh
# signatures.sh HEADERS FROZEN...: does a plugin that was built with the headers FROZEN still fit a
# host that is built with the headers HEADERS?
#
# abi.layout holds sizes and offsets; it cannot see that a parameter of a function pointer has
# changed its type. abidiff can: it compares the types that a library's functions use. The SDK has
# no functions of its own, so each side becomes a library with one function for every struct of the
# headers. A member at the end of a struct is growth, and allowed (weft/base.h); everything else
# that differs is a break.
#
# The script first proves that it would see a break and would let growth pass.
set -eu
headers=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v abidiff >/dev/null || { echo "no abidiff here: install abigail-tools"; exit 1; }

# library FOLDER NAME: the anchor library of the headers FOLDER/weft.
library() {
  {
    for file in "$1"/weft/*.h; do
      case ${file##*/} in
        expr.h | random.h | match.h | shard.h | handshake.h | tokens.h) continue ;;
      esac
      echo "#include <weft/${file##*/}>"
      sed -n 's/^} \(weft_[a-z_]*\);$/\1/p' "$file" >>"$work/$2.structs"
    done
    while read -r name; do
      echo "void anchor_$name(const $name *p);"
      echo "void anchor_$name(const $name *p) { (void)p; }"
    done <"$work/$2.structs"
  } >"$work/$2.c"
  cc -g -O0 -shared -fPIC -I "$1" -o "$work/$2.so" "$work/$2.c"
}

# fits OLD NEW: nothing that OLD has is gone or different in NEW. Of a report of leaf changes the
# lines of growth are allowed: a struct becomes larger, by members behind its old end.
fits() {
  abidiff --leaf-changes-only --no-added-syms "$work/$1.so" "$work/$2.so" \
    >"$work/report" 2>&1 || true
  awk '
    /summary:/ || /^$/ || /^.struct .* changed:$/ { next }
    /^ *[0-9]+ data member insertions?:$/ { next }
    /type size changed from [0-9]+ to [0-9]+/ { end = $5; if ($7 > $5) next }
    /, at offset [0-9]+ \(in bits\)/ {
      match($0, /at offset [0-9]+/)
      if (substr($0, RSTART + 10, RLENGTH - 10) + 0 >= end) next
    }
    { print "break: " $0; broken = 1 }
    END { exit broken }' "$work/report"
}

# changed NAME SED [FROM]: a copy of the headers with one line changed.
changed() {
  from=${3:-$headers}
  mkdir -p "$work/$1"
  cp -r "$from/weft" "$work/$1/weft"
  for file in "$work/$1"/weft/*.h; do
    sed "$2" "$file" >"$work/new" && cat "$work/new" >"$file"
  done
  if diff -r "$from/weft" "$work/$1/weft" >/dev/null; then
    echo "signatures: the change '$1' changes nothing: mend this script"
    exit 1
  fi
  library "$work/$1" "$1"
}

library "$headers" now
changed parameter 's/(\*wake)(weft_link \*l)/(*wake)(weft_link *l, uint32_t why)/'
changed width 's/\(uint32_t spin_us\), uint32_t timeout_us/\1, uint64_t timeout_us/'
changed result 's/void (\*destroy)(weft_link \*l)/weft_status (*destroy)(weft_link *l)/'
changed middle 's/^typedef struct weft_link_group {$/&    uint64_t first;/
  s/^WEFT_FREEZE(weft_link_group.*//'
changed grown 's/^} weft_link_group;$/    uint64_t later;\n} weft_link_group;/
  s/^WEFT_FREEZE(weft_link_group.*//'
for break in parameter width result middle; do
  if fits now "$break" >/dev/null; then
    echo "signatures: abidiff does not see the break '$break'"
    exit 1
  fi
done
fits now grown || { cat "$work/report"; echo "signatures: growth counts as a break"; exit 1; }

# What has gone (docs/VERSIONS.md): write() of 0.9 is a reserved pointer.
gone='/^typedef struct weft_write {$/,/^WEFT_FREEZE(weft_write/d
  s/weft_status (\*write)(weft_conn \*c, const weft_write \*w);/void *reserved;/'

status=0
for frozen in "$@"; do # .../frozen/0.9/include
  version=$(basename "$(dirname "$frozen")")
  case $version in
    0.9) changed "frozen$version" "$gone" "$frozen" ;;
    *) library "$frozen" "frozen$version" ;;
  esac
  if ! fits "frozen$version" now; then
    cat "$work/report"
    echo "a plugin built with the headers $frozen does not fit this host any more: undo the" \
      "change, or add a new interface beside the old one (docs/VERSIONS.md)"
    status=1
  fi
done
exit $status
