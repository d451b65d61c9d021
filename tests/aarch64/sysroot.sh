#!/bin/sh
# sysroot.sh FOLDER: unpack Debian's arm64 libraries that weft needs under FOLDER/root.
#
# cmake/aarch64.cmake builds against them. apt runs with an architecture, lists and a cache of its
# own, so the packages and architectures of this machine stay as they are. What is there already is
# not fetched again.
set -eu
folder=$(mkdir -p "$1" && cd "$1" && pwd)
packages="libc6 libc6-dev linux-libc-dev libcrypt1 libgcc-s1 libgcc-12-dev libstdc++6
  libstdc++-12-dev libgomp1 libinih1 libinih-dev libjansson4 libjansson-dev libhwloc15 libhwloc-dev
  libudev1 libcap2 libssl3 libssl-dev libdnnl2 libdnnl-dev libcmocka0 libcmocka-dev libibverbs1
  libibverbs-dev libnl-3-200 libnl-route-3-200 zlib1g zlib1g-dev libzstd1
  libzstd-dev libmicrohttpd12 libmicrohttpd-dev libgnutls30 libp11-kit0 libidn2-0 libunistring2
  libtasn1-6 libnettle8 libhogweed6 libgmp10 libffi8"
stamp=$(echo "$packages" | cksum | cut -d ' ' -f 1)
[ ! -e "$folder/unpacked-$stamp" ] || exit 0

rm -rf "$folder"
mkdir -p "$folder/root" "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
: >"$folder/apt/status"
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
# Where this machine has its own packages from.
# shellcheck disable=SC2016 # fields of apt's
mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' \
  'Created-By: Packages' | awk -v suite="$suite" '$1 == suite && $2 == "main" { print $3; exit }')
if [ -z "$mirror" ]; then
  echo "sysroot.sh: no source of apt on this machine has $suite main" >&2
  exit 1
fi
echo "deb $mirror $suite main" >"$folder/apt/sources.list"
cat >"$folder/apt/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::State "$folder/apt";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
Dir::Etc::sourcelist "$folder/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
CONF
export APT_CONFIG="$folder/apt/apt.conf"
apt-get -qq update
# shellcheck disable=SC2086 # a list of words
(cd "$folder/apt/cache" && apt-get -qq download $packages)
for package in "$folder"/apt/cache/*.deb; do
  dpkg-deb -x "$package" "$folder/root"
done
# Packages have /lib and /usr/lib, which are one on a system.
cp -a "$folder/root/lib/." "$folder/root/usr/lib/"
rm -rf "$folder/root/lib" "$folder/apt"
ln -s usr/lib "$folder/root/lib"
: >"$folder/unpacked-$stamp"
