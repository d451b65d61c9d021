# hosts.sh, sourced by bash as root: two hosts on one machine, 10.0.0.1 and 10.0.0.2, joined by a
# veth pair v1-v2.
#
#   two_hosts            two network namespaces: right for everything but soft-RoCE of 6.1
#   two_rdma_hosts       the same with an RDMA device each, r1 and r2; see there what $MODE is
#   on HOST COMMAND...   runs it on host 1 or 2
#   shape HOST WORDS     what HOST sends goes through this queue of tc: netem delay 10ms, ...
#   unshape HOST         ... and no longer
#   sent HOST            packets that the RDMA device of HOST has sent; `counter HOST NAME` others

MODE=namespaces

on() {
  local host=$1
  shift
  if [ "$MODE" = namespaces ]; then ip netns exec "h$host" "$@"; else "$@"; fi
}

two_hosts() {
  local i
  MODE=namespaces
  ip netns add h1 && ip netns add h2 || return
  ip link add v1 type veth peer name v2 || return # here, and moved: two devices, two numbers
  for i in 1 2; do
    ip link set v$i netns h$i
    ip -n h$i link set lo up
    ip -n h$i addr add 10.0.0.$i/24 dev v$i
    ip -n h$i link set v$i mtu 4500 up # the largest MTU of RDMA below it is 4096
  done
}

no_hosts() {
  ip netns del h1
  ip netns del h2
}

# A kernel whose soft-RoCE knows namespaces (7.2) listens in ours; MODE is then namespaces. Else
# (6.1) there is one namespace, MODE is routing, and rules send what goes from one of the two local
# addresses to the other over the veth pair, so that tc acts on it all the same.
two_rdma_hosts() {
  local i
  two_hosts || return
  for i in 1 2; do
    on $i rdma link add r$i type rxe netdev v$i || return
  done
  if ! on 1 ss -Huln | grep -q :4791; then
    for i in 1 2; do
      rdma link del r$i
      ip -n h$i link set v$i netns 1
    done
    no_hosts
    routed_hosts
    for i in 1 2; do
      rdma link add r$i type rxe netdev v$i || return
    done
  fi
  for i in {1..100}; do # the GID of an address comes a little later
    gid 1 && gid 2 && return
    sleep 0.1
  done
  return 1
}

gid() { on "$1" ibv_devinfo -v -d "r$1" 2>/dev/null | grep -q "ffff:10.0.0.$1, RoCE v2"; }

# "iif lo" is what this machine itself sends. The source of the routes is what a socket without an
# address gets: one to 10.0.0.2 comes from 10.0.0.1.
routed_hosts() {
  local i settings=/proc/sys/net/ipv4/conf
  MODE=routing
  for i in 1 2; do
    ip addr add 10.0.0.$i/24 dev v$i
    ip link set v$i mtu 4500 up
  done
  for i in all v1 v2; do
    echo 1 >$settings/$i/accept_local
    echo 0 >$settings/$i/rp_filter
  done
  echo 1 >$settings/all/arp_ignore
  echo 2 >$settings/all/arp_announce
  ip rule add pref 10 iif v1 lookup local
  ip rule add pref 11 iif v2 lookup local
  ip rule add pref 20 iif lo to 10.0.0.2 lookup 101
  ip rule add pref 21 iif lo to 10.0.0.1 lookup 102
  ip route add 10.0.0.2 dev v1 src 10.0.0.1 table 101
  ip route add 10.0.0.1 dev v2 src 10.0.0.2 table 102
  ip rule add pref 100 lookup local
  ip rule del pref 0
}

shape() {
  local host=$1
  shift
  on "$host" tc qdisc replace dev "v$host" root "$@"
}

unshape() { on "$1" tc qdisc del dev "v$1" root; }

counter() {
  on "$1" rdma statistic show link "r$1" | sed -n "s/.*\b$2 \([0-9]*\).*/\1/p"
}

sent() { counter "$1" sent_pkts; }
