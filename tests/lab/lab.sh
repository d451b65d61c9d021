#!/bin/bash
# Does the lab itself hold? Status, output, files, and how it says that it cannot be had. Each call
# of `run` that starts a machine is a boot.
#
#   lab.sh
set -u
lab=$(cd "$(dirname "$0")" && pwd)
run=$lab/run
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-lab-test.XXXXXX")
trap 'rm -rf "$work"' EXIT

expect() { # STATUS WORDS COMMAND...: its status, and words on its standard error; output in $name
  local status=$1 words=$2 out=$work/${name:-out} found
  shift 2
  "$@" >"$out" 2>"$out.err"
  found=$?
  if [ "$found" = "$status" ] && { [ -z "$words" ] || grep -q -- "$words" "$out.err"; }; then
    echo "ok, $status: $*"
    return
  fi
  echo "FAILED: $* ended with $found, not $status, or did not say '$words':"
  cat "$out" "$out.err"
  touch "$work/failed"
}

same() { # WHAT LEFT RIGHT
  [ "$2" = "$3" ] && return
  echo "FAILED: $1: '$2' is not '$3'"
  touch "$work/failed"
}

# Nothing boots for these.
expect 0 '' "$run" --help
expect 2 'no command' "$run"
expect 2 'illegal option' "$run" -z true
expect 2 'tcg or kvm' "$run" -a magic true
mkdir "$work/bin"
ln -s /usr/bin/* "$work/bin"
rm -f "$work"/bin/qemu-*
expect 77 'make integration installs it' env PATH="$work/bin" "$run" true
ln -s /usr/bin/qemu-* "$work/bin"
rm -f "$work"/bin/apt*
expect 77 'cannot be had here' env PATH="$work/bin" WEFT_LAB_CACHE="$work/cache" "$run" true

"$run" -s || exit # 77 when there can be no lab here

# What a command may want, in one boot: its words as they are, its folder, soft-RoCE, two hosts, the
# host's files and none of them changed, $OUT, and every byte of the output.
cat >"$work/inside.sh" <<'TEXT'
set -eu
. "$1/hosts.sh"
[ "$2" = "it's two  words" ] && [ "$PWD" = "$(dirname "$4")" ] && [ "$(id -u)" = 0 ]
[ "$(cat "$4")" = before ]
echo after >"$4"
echo kept >"$OUT/kept"
two_rdma_hosts >&2
before=$(counter 1 sent_pkts)
on 2 ibv_rc_pingpong -d r2 -g 1 -n 20 >"$OUT/server" &
for i in {1..20}; do
  sleep 0.5
  on 1 ibv_rc_pingpong -d r1 -g 1 -n 20 10.0.0.2 >"$OUT/client" && break
done
wait $!
[ "$(counter 1 sent_pkts)" -gt $((before + 20)) ]
[ "$(on 1 hostname) $(on 2 hostname)" = "h1 h2" ]
seq "$3"
exit 7
TEXT
echo before >"$work/file"
cd "$work" || exit
expect 7 '' "$run" -o kept bash inside.sh "$lab" "it's two  words" 50000 "$work/file"
same output "$(cksum <"$work/out")" "$(seq 50000 | cksum)"
same 'the file outside' "$(cat "$work/file")" before
same 'the file in OUT' "$(cat "$work/kept/kept")" kept

# Side by side: each has a machine of its own.
name=killed expect 139 '' "$run" sh -c 'kill -SEGV $$' &
name=late expect 124 'time limit of 9 s' "$run" -t 9 sleep 600 &
name=died expect 125 'virtual machine died' "$run" sh -c 'echo c >/proc/sysrq-trigger' &
wait
[ ! -e "$work/failed" ]
