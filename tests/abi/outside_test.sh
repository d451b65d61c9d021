#!/bin/sh
# outside_test.sh SOURCE BUILD: install BUILD to a fresh prefix; build the plugins of outside/ there
# with find_package(weft), and one of them again by hand with pkg-config; train a tiny job with them
# on two ranks; the losses are those of the same job on one rank. All of it with files and folders
# open to the user's group, as some systems have it.
set -eu
umask 002
source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
  echo "outside_test: $1"
  for log in install configure build two one; do
    [ -f "$work/$log.log" ] && { echo "--- $log"; tail -n 20 "$work/$log.log"; }
  done
  exit 1
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log" 2>&1 || fail "cannot install"
cmake -S "$source/tests/abi/outside" -B "$work/outside" -DCMAKE_PREFIX_PATH="$prefix" \
  >"$work/configure.log" 2>&1 || fail "find_package(weft) failed"
cmake --build "$work/outside" >"$work/build.log" 2>&1 || fail "the plugins do not build"

# The same rule without CMake.
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig:$prefix/lib/$(uname -m)-linux-gnu/pkgconfig"
mkdir -p "$work/hand/optim"
cc -std=c11 -O2 -fPIC -shared -fvisibility=hidden $(pkg-config --cflags weft) \
  "-Wl,--version-script=$(pkg-config --variable=exportmap weft)" -Wl,-z,defs \
  -o "$work/hand/optim/acme.lion.so" "$work/outside/lion/lion.c" \
  >"$work/build.log" 2>&1 || fail "pkg-config weft does not lead to a plugin"
chmod -R go-w "$work/hand"
sh "$source/tests/abi/symbols.sh" "$work/hand" "$work/outside" >"$work/build.log" 2>&1 ||
  fail "the plugins export too much"

i=0
while [ $i -lt 400 ]; do
  echo "the weft is the thread that is carried across the warps, number $i"
  i=$((i + 1))
done >"$work/text"
"$prefix/bin/weft" data "$work/text" -o "$work/train.bin" >"$work/one.log" 2>&1 || fail "weft data"

# Losses of a run, one a line.
losses() {
  sed -n 's/.*"loss": *\([0-9.eE+-]*\).*/\1/p' "$work/$1/metrics.jsonl"
}
"$prefix/bin/weft" train -n 2 "$source/tests/abi/outside/job.ini" "run.out=$work/two" \
  "data.train=$work/train.bin" "run.plugins=$work/outside/lib/weft" >"$work/two.log" 2>&1 ||
  fail "the job with outside plugins failed"
"$prefix/bin/weft" train -n 1 "$source/tests/abi/outside/job.ini" "run.out=$work/one" \
  "data.train=$work/train.bin" "run.plugins=$work/hand:$work/outside/lib/weft" parallel.crew=1 \
  >"$work/one.log" 2>&1 || fail "the same job on one rank failed"
losses two >"$work/two.losses"
losses one >"$work/one.losses"
[ "$(wc -l <"$work/two.losses")" -eq 6 ] || fail "six steps, and another number of losses"
paste "$work/two.losses" "$work/one.losses" | awk '
  { gap = $1 - $2; if (gap < 0) gap = -gap }
  gap > 1e-4 * $2 { print "step", NR, $0; wrong = 1 }
  NR == 1 { first = $1 }
  END { if (!($1 < first)) { print "the loss does not fall:", first, $1; wrong = 1 } exit wrong }
' >"$work/build.log" || fail "two ranks and one do not train the same: $(cat "$work/build.log")"
echo "two ranks with outside plugins train as one: $(tr '\n' ' ' <"$work/two.losses")"
