# kernel.sh KERNEL CACHE: a kernel of Debian as CACHE/vmlinux, CACHE/kernel/lib/modules and
# CACHE/initrd.gz; what fetching says is in CACHE/log. Nothing is installed: packages are fetched
# and unpacked. apt's state is private, so no root is needed, and the machine's own lists stay as
# they are. The caller holds a lock.
set -euo pipefail
kernel=$1 cache=$2
lab=$(cd "$(dirname "$0")" && pwd)

# --- packages ---

apt_state() {
  mkdir -p "$cache"/apt/{lists/partial,cache/archives/partial}
  apt=(-o Dir::State::lists="$cache/apt/lists" -o Dir::Cache="$cache/apt/cache"
    -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o Acquire::http::Timeout=20)
  [ "$kernel" != stable ] || return 0
  local mirror # the one that this machine uses
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $kernel main" \
    >"$cache/apt/sources.list"
  apt+=(-o Dir::Etc::sourcelist="$cache/apt/sources.list" -o Dir::Etc::sourceparts=-)
}

fetch() { # sets `version`, and leaves the unpacked files in CACHE/kernel
  if ! command -v apt-get >/dev/null; then
    echo "there is no apt here to fetch a kernel"
    return 1
  fi
  apt_state
  apt-get "${apt[@]}" update -qq
  version=$(apt-cache "${apt[@]}" depends linux-image-amd64 |
    sed -n 's/^ *Depends: *linux-image-\([0-9]\)/\1/p' | head -n 1)
  [ -n "$version" ]
  local packages="linux-image-$version" # up to 6.12 one package; 7.x is split
  if apt-cache "${apt[@]}" show "linux-modules-$version" >/dev/null 2>&1; then
    packages="linux-base-$version linux-binary-$version linux-modules-$version"
  fi
  rm -rf "$cache/kernel" "$cache"/*.deb
  mkdir -p "$cache/kernel"
  # shellcheck disable=SC2086 # a list of words
  (cd "$cache" && apt-get "${apt[@]}" download -qq $packages)
  local package
  for package in "$cache"/*.deb; do
    unpack "$package"
  done
  rm -rf "$cache"/*.deb "$cache/apt"
  [ -d "$cache/kernel/lib/modules" ] || ln -s usr/lib "$cache/kernel/lib"
  depmod -b "$cache/kernel" "$version"
}

# What this machine can use, a tenth of the whole. Not every pattern is in every package, which
# tar reports as an error.
unpack() {
  local net
  net=$(printf '*/drivers/net/%s.ko* ' veth dummy ifb tun vrf macvlan virtio_net net_failover)
  # shellcheck disable=SC2086 # a list of words
  set -f
  dpkg-deb --fsys-tarfile "$1" | tar -x -C "$cache/kernel" --wildcards \
    --exclude='*/infiniband/hw/*' --exclude='*/infiniband/ulp/*' './boot/vmlinuz*' '*/vmlinuz' \
    '*/modules.order' '*/modules.builtin*' '*/kernel/crypto/*' '*/kernel/lib/*' '*/kernel/fs/*' \
    '*/kernel/net/*' '*/kernel/arch/x86/crypto/*' '*/drivers/infiniband/*' '*/drivers/virtio/*' \
    '*/drivers/char/virtio_console.ko*' '*/drivers/char/hw_random/*' $net 2>"$cache/tar.log" ||
    ! grep -v 'Not found in archive\|Exiting with failure' "$cache/tar.log" >&2
  set +f
}

# QEMU boots an uncompressed kernel by its PVH note, without a boot loader and in half the time.
# It lies in vmlinuz behind a loader, at one of the places that look like the head of an archive.
uncompress() {
  local image method at
  image=$(find "$cache/kernel" -name 'vmlinuz*' | head -n 1)
  for method in 'xz:\xfd7zXZ\x00' 'zstd:\x28\xb5\x2f\xfd'; do
    for at in $(LC_ALL=C grep -aobP "${method#*:}" "$image" | cut -d: -f1); do
      # What follows the archive makes it end in an error.
      tail -c "+$((at + 1))" "$image" | "${method%%:*}" -dcq >"$cache/vmlinux" 2>/dev/null || true
      [ "$(head -c 4 "$cache/vmlinux" | tr -d '\177')" = ELF ] && return 0
    done
  done
  echo "there is no kernel in $image"
  return 1
}

# --- the first file system: busybox, modules and init.sh ---

modules="virtio_pci 9pnet_virtio 9p overlay virtio_console virtio_net veth dummy sch_netem sch_tbf
  crc32_generic ib_uverbs rdma_cm rdma_ucm rdma_rxe" # rxe asks for crc32 by a name, not a symbol

initrd() {
  local work=$cache/initrd.work file
  rm -rf "$work"
  mkdir -p "$work"/{bin,modules,dev,proc,sys,lower,rw,newroot}
  cp -L "$(command -v busybox)" "$work/bin/busybox"
  for file in sh mount insmod mkdir switch_root cat echo sed; do
    ln -s busybox "$work/bin/$file"
  done
  # A module that is not there is built in (virtio_pci in 7.2) or gone (crc32_generic since 6.16).
  for file in $modules; do
    modprobe -d "$cache/kernel" -S "$version" --show-depends "$file" 2>/dev/null || true
  done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' >"$work/list"
  while read -r file; do
    case $file in
      *.xz) xz -dc "$file" >"$work/modules/$(basename "$file" .xz)" ;;
      *) cp "$file" "$work/modules/" ;;
    esac
    basename "$file" .xz >>"$work/modules/order"
  done <"$work/list"
  cp "$lab/init.sh" "$work/init"
  chmod +x "$work/init"
  (cd "$work" && find . | cpio -o -H newc --quiet | gzip -1) >"$cache/initrd.new"
  mv "$cache/initrd.new" "$cache/initrd.gz"
  rm -rf "$work"
}

if [ ! -s "$cache/version" ]; then
  exec >"$cache/log" 2>&1
  fetch
  uncompress
  echo "$version" >"$cache/version"
fi
version=$(cat "$cache/version")
# Made anew when these scripts are not those that made it.
sum=$(cat "$lab/init.sh" "$lab/kernel.sh" | cksum)
if [ ! -s "$cache/initrd.gz" ] || [ "$sum" != "$(cat "$cache/initrd.sum" 2>/dev/null)" ]; then
  initrd
  echo "$sum" >"$cache/initrd.sum"
fi
