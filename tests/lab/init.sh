#!/bin/sh
# The first process in the guest, in the initramfs: puts a writable layer in memory over the host's
# files and goes on there with guest.sh.
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do
  insmod "/modules/$module" || echo "lab: insmod $module failed" >/dev/kmsg
done
parameter() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
lab=$(parameter lab) out=$(parameter lab_out)
options=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o $options,ro,cache=loose host0 /lower || echo "lab: no files from the host"
mount -t tmpfs -o size=75% tmpfs /rw
mkdir /rw/up /rw/work
mount -t overlay -o lowerdir=/lower,upperdir=/rw/up,workdir=/rw/work overlay /newroot
mkdir -p "/newroot$out"
mount -t 9p -o $options,rw,cache=mmap out0 "/newroot$out" || echo "lab: no folder to write in"
for folder in dev proc sys; do
  mount --move /$folder /newroot/$folder
done
exec switch_root /newroot /bin/bash "$lab/guest.sh" "$out"
