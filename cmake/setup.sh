#!/bin/sh
# What building, testing and the demonstration need. On Debian it is installed, with sudo unless you
# are root, and what is there already is left alone; elsewhere one line says what is missing.
set -eu

packages="make cmake ninja-build pkg-config gcc g++ clang clang-format python3
  libinih-dev libjansson-dev libhwloc-dev libssl-dev libdnnl-dev libcmocka-dev
  openmpi-bin fortunes fortunes-min libibverbs-dev librdmacm-dev"
# tests/lab: a virtual machine, and what runs inside from this machine's files
packages="$packages qemu-system-x86 busybox-static cpio kmod xz-utils zstd iproute2
  ibverbs-utils ibverbs-providers rdmacm-utils perftest"

if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
  missing=""
  for program in cmake ninja pkg-config gcc g++ clang clang-format python3; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
  done
  for library in inih jansson hwloc openssl cmocka; do
    pkg-config --exists "$library" 2>/dev/null || missing="$missing $library"
  done
  [ -e /usr/include/dnnl.h ] || [ -e /usr/include/oneapi/dnnl/dnnl.h ] || missing="$missing oneDNN"
  echo "this is no Debian, so nothing was installed; missing:${missing:- nothing}"
  exit 0
fi

missing=""
for package in $packages; do
  case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) in
    installed) ;;
    *) missing="$missing $package" ;;
  esac
done
if [ -z "$missing" ]; then
  echo "everything is installed"
  exit 0
fi
as_root=""
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "you are not root and there is no sudo; missing:$missing"
    exit 1
  fi
  as_root="sudo"
fi
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update
# shellcheck disable=SC2086 # a list of words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
