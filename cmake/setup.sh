#!/bin/sh
# Install packages. On Debian they are installed, with sudo unless you are root, and what is there
# already is left alone; elsewhere one line names what is missing.
#
#   cmake/setup.sh               what building, make test and make demo need
#   cmake/setup.sh integration   what tests with the label `integration` need: the file `packages`
#                                of each folder of tests/ that has one
#   cmake/setup.sh FOLDER ...    the file `packages` of these folders
#
# A file `packages` has a Debian package a line; # begins a comment. A package of another
# architecture, as libc6:arm64, makes that architecture known to apt first.
set -eu
cd "$(dirname "$0")/.."

listed() { # FOLDER ...: the packages of these folders
  for folder in "$@"; do
    [ ! -f "$folder/packages" ] || sed 's/#.*//' "$folder/packages"
  done
}

if [ $# -eq 0 ]; then
  packages="make cmake ninja-build pkg-config gcc g++ clang clang-format python3
    libinih-dev libjansson-dev libhwloc-dev libssl-dev libdnnl-dev libcmocka-dev libpcre2-dev
    libutf8proc-dev libsentencepiece-dev zlib1g-dev libzstd-dev libjs-chart.js
    libmicrohttpd-dev
    fortunes fortunes-min libibverbs-dev librdmacm-dev libucx-dev iproute2 iptables abigail-tools"
elif [ "$1" = integration ]; then
  packages=$(listed tests/*)
else
  packages=$(listed "$@")
fi

if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
  if [ $# -gt 0 ]; then
    echo "this is no Debian, so nothing was installed; wanted:" $packages
    exit 0
  fi
  missing=""
  for program in cmake ninja pkg-config gcc g++ clang clang-format python3; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
  done
  for library in inih jansson hwloc openssl cmocka libpcre2-8 libutf8proc zlib libzstd \
    libmicrohttpd; do
    pkg-config --exists "$library" 2>/dev/null || missing="$missing $library"
  done
  [ -e /usr/include/dnnl.h ] || [ -e /usr/include/oneapi/dnnl/dnnl.h ] || missing="$missing oneDNN"
  [ -e /usr/share/javascript/chart.js/chart.min.js ] || missing="$missing Chart.js"
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
for package in $missing; do
  case $package in
    *:*) $as_root dpkg --add-architecture "${package##*:}" ;;
  esac
done
$as_root apt-get update
# shellcheck disable=SC2086 # a list of words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
