# guest.sh OUT: the first process of the guest on the host's files. Does what udev and init do
# elsewhere, runs the command that tests/lab/run left in OUT/.command, and ends QEMU.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LANG=C.UTF-8 TERM=dumb WEFT_LAB=1 OUT=$1
. "$OUT/.command" # modules, folder, command
mkdir -p /dev/shm /dev/pts /dev/mqueue /run /lib/modules
ln -s /proc/self/fd /dev/fd
for i in 0 1 2; do
  ln -s "fd/$i" "/dev/std$(echo in out err | cut -d ' ' -f $((i + 1)))"
done
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /run
mount -t mqueue mqueue /dev/mqueue
mount --bind "$modules" /lib/modules # for modprobe and for what the kernel loads by itself
hostname guest
ip link set lo up
ulimit -l unlimited
ulimit -n 65536
cd "$folder" || exit

("${command[@]}" </dev/null; echo $? >"$OUT/.status") 2>&1 | cat >/dev/vport*p1
sync
printf '\1' | dd of=/dev/port bs=1 seek=$((0xf4)) count=1 status=none # QEMU's debug exit
sleep 5
echo o >/proc/sysrq-trigger
sleep 60
