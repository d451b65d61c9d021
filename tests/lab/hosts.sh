#!/bin/bash
# Two hosts on one machine, 10.0.0.1 and 10.0.0.2, joined by a cable, the veth pair v1-v2. For root,
# in the lab or wherever veth is: sourced by bash for its functions, or called with a function and
# its words.
#
#   two_hosts            two network namespaces; right for everything but soft-RoCE of 6.1
#   two_rdma_hosts       the same with an RDMA device each, r1 and r2; see there
#   no_hosts             removes them
#   apart COMMAND...     runs it in namespaces of its own: hosts that it makes meet no others of the
#                        same names and end with it. 77: not allowed here. Not for soft-RoCE of 6.1
#   on HOST COMMAND...   runs it on host 1 or 2. A host has its own host name, boot id, /dev/shm,
#                        and the network devices that are its own
#   shape HOST WORDS     what HOST sends goes through this queue of tc, such as
#                        `netem delay 10ms loss 1%` or `tbf rate 200mbit burst 64kb latency 50ms`
#   unshape HOST         ... and no longer
#   cable HOST down|up   what an administrator's hand or a failed port does; what is sent is lost
#   counter HOST NAME    of the RDMA device, such as sent_pkts (rdma statistic show has the names)

state=/run/weft-hosts

# Every command of host $1 begins with these words.
enter() {
  words=(nsenter "--uts=$state/$1.uts" "--mount=$state/$1.mnt" "--wdns=$PWD")
  [ ! -e "$state/namespaces" ] || words+=("--net=/run/netns/h$1")
}

on() {
  local words
  enter "$1"
  shift
  "${words[@]}" -- "$@"
}

two_hosts() {
  local i
  hosts_of_their_own namespaces || return
  ip link add v1 type veth peer name v2 || return # here, and moved: two devices, two numbers
  for i in 1 2; do
    ip link set v$i netns h$i && ip -n h$i link set lo up && attach "ip -n h$i" $i || return
  done
}

# The address of host $2. The MTU is the least that gives RDMA its largest, 4096.
attach() {
  $1 addr add "10.0.0.$2/24" dev "v$2" && $1 link set "v$2" mtu 4500 up
}

# A file can keep only a mount namespace that is younger than the one it lies in, and newer kernels
# number them for each processor. So all are made on the same.
processors() { taskset -cp $$ | sed 's/.*: //'; }
first() { processors | sed 's/[-,].*//'; }

# Names by which programs tell machines apart. Each is a namespace or a mount kept by a file.
hosts_of_their_own() {
  local i within=() sys=:
  mkdir -p $state || return
  mountpoint -q $state || mount --bind $state $state || return
  mount --make-private $state
  rm -f $state/namespaces
  for i in 1 2; do
    if [ "$1" = namespaces ]; then
      ip netns add h$i || return
      within=(nsenter --net=/run/netns/h$i) sys='mount -t sysfs sysfs /sys'
      touch $state/namespaces
    fi
    touch $state/$i.uts $state/$i.mnt
    cat /proc/sys/kernel/random/uuid >$state/$i.boot
    "${within[@]}" taskset -c "$(first)" \
      unshare --uts=$state/$i.uts --mount=$state/$i.mnt sh -e -c "
      hostname h$i
      mount --bind $state/$i.boot /proc/sys/kernel/random/boot_id
      mount -t tmpfs tmpfs /dev/shm
      $sys" || return
  done
}

no_hosts() {
  local i
  if [ -e $state/namespaces ]; then
    ip -n h1 link del v1 || true # with one end goes the other
    ip netns del h1
    ip netns del h2
  elif [ -e $state ]; then
    ip link del v1 || true
    ip rule add pref 0 lookup local
    for i in 11 12 21 22 100; do
      ip rule del pref $i || true
    done
  fi
  umount $state/1.uts $state/1.mnt $state/2.uts $state/2.mnt $state
  rm -rf $state
}

# A kernel whose soft-RoCE knows namespaces (7.2) listens in ours. Else (6.1) both hosts share one,
# and rules send what goes from one of the two addresses to the other over the cable, so that tc
# acts on it all the same. There a socket without an address of its own that turns to 10.0.0.1 comes
# from 10.0.0.2 whoever opens it, so of several ranks on a host each has to be told its device.
two_rdma_hosts() {
  local i
  if rdma_knows_namespaces; then
    two_hosts || return
  else
    hosts_of_their_own addresses && routed || return
    for i in 1 2; do # one processor receives, so that packets keep their order, as in a real cable
      echo $i >"/sys/class/net/v$i/queues/rx-0/rps_cpus"
    done 2>/dev/null
  fi
  for i in 1 2; do
    on $i rdma link add r$i type rxe netdev v$i || return
  done
  for i in {1..100}; do # the GID of an address comes a little later
    has_gid 1 && has_gid 2 && return
    sleep 0.1
  done
  return 1
}

rdma_knows_namespaces() { # does it listen in one?
  unshare --net sh -ec '
    ip link add v0 mtu 4500 up type dummy
    rdma link add r0 type rxe netdev v0
    heard=$(ss -Huln | grep -c :4791 || true)
    rdma link del r0
    [ "$heard" != 0 ]' 2>/dev/null
}

has_gid() { on "$1" ibv_devinfo -v -d "r$1" 2>/dev/null | grep -q "ffff:10.0.0.$1, RoCE v2"; }

# "iif lo" is what this machine itself sends; the source of the routes is what a socket without an
# address of its own gets.
routed() {
  local i settings=/proc/sys/net/ipv4/conf
  ip link add v1 type veth peer name v2 && attach ip 1 && attach ip 2 || return
  for i in all v1 v2; do
    echo 1 >$settings/$i/accept_local
    echo 0 >$settings/$i/rp_filter
  done
  echo 1 >$settings/all/arp_ignore
  echo 2 >$settings/all/arp_announce
  for i in 1 2; do
    ip rule add pref 1$i iif v$i lookup local
    ip rule add pref 2$i iif lo to 10.0.0.$((3 - i)) lookup 10$i
    route $i
  done
  ip rule add pref 100 lookup local
  ip rule del pref 0
}

route() { ip route replace "10.0.0.$((3 - $1))" dev "v$1" src "10.0.0.$1" table "10$1"; }

cable() {
  on "$1" ip link set "v$1" "$2" || return
  [ "$2" = down ] || [ -e $state/namespaces ] || route "$1" # a device that goes down loses its own
}

# Packets as they are on a wire, each lost or late by itself: without segments put together.
shape() {
  local host=$1
  shift
  on "$host" ip link set "v$host" gso_max_segs 1 &&
    on "$host" tc qdisc replace dev "v$host" root "$@"
}

unshape() { on "$1" tc qdisc del dev "v$1" root; }

counter() {
  on "$1" rdma statistic show link "r$1" | sed -n "s/.*\b$2 \([0-9]*\).*/\1/p"
}

apart() {
  if ! unshare --net --mount true; then
    echo "hosts: no namespaces can be made here" >&2
    exit 77
  fi
  WEFT_HOSTS=apart exec taskset -c "$(first)" unshare --net --mount sh -ec '
    mount -t tmpfs tmpfs /run
    ip link set lo up
    exec taskset -c "$@"' - "$(processors)" "$@"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  PATH=$PATH:/usr/sbin:/sbin
  if [ "$1" = on ]; then # in the place of this shell, so that a signal reaches it
    enter "$2"
    shift 2
    exec "${words[@]}" -- "$@"
  fi
  "$@"
fi
