/* doctor/checks/net.c: network interfaces, and the kernel's TCP. */
#include "doctor/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NET "/sys/class/net"
#define FAST 10000 /* Mbit/s from which small packets cost */
#define SMALL_MTU 1500
#define IS_UP 1           /* IFF_UP of <net/if.h> */
#define ROUND_TRIP_MS 0.5 /* in a data centre, where none was measured */

typedef struct nic {
    const char *name;
    bool there, up, carrier, half; /* a card or a bond; switched on; sees the other end */
    int64_t speed, mtu;            /* Mbit/s, 0: unknown */
    double slot;                   /* Mbit/s of the PCIe slot as it is, 0: unknown */
    int64_t lanes, lanes_most;
    char node[32];
} nic;

/* "16.0 GT/s PCIe" and a number of lanes: Mbit/s after the line code. */
static double slot_speed(const char *transfers, int64_t lanes)
{
    double giga = strtod(transfers, NULL);
    double code = giga > 5.5 ? 128.0 / 130 : 0.8; /* 8b/10b up to the second generation */
    return giga > 0 && giga < 1000 ? giga * 1000 * code * (double)lanes : 0;
}

static bool lawful(int64_t lanes)
{
    return lanes > 0 && lanes <= 32; /* 255 and 0: unknown */
}

static nic look(const doctor *d, const char *name)
{
    nic x = {.name = name};
    int64_t carrier = 0, node = -1;
    char text[128];
    x.there = see_path(d, NET "/%s/device", name) || see_path(d, NET "/%s/bonding", name);
    if (see_text(d, text, sizeof text, NET "/%s/flags", name))
        x.up = strtoul(text, NULL, 16) & IS_UP;
    x.carrier = see_number(d, &carrier, NET "/%s/carrier", name) && carrier == 1;
    if (!see_number(d, &x.speed, NET "/%s/speed", name) || x.speed < 0 || x.speed > 100000000)
        x.speed = 0;
    if (!see_number(d, &x.mtu, NET "/%s/mtu", name) || x.mtu < 0)
        x.mtu = 0;
    x.half = see_text(d, text, sizeof text, NET "/%s/duplex", name) && !strcmp(text, "half");
    see_number(d, &x.lanes, NET "/%s/device/current_link_width", name);
    see_number(d, &x.lanes_most, NET "/%s/device/max_link_width", name);
    if (see_text(d, text, sizeof text, NET "/%s/device/current_link_speed", name) &&
        lawful(x.lanes))
        x.slot = slot_speed(text, x.lanes);
    if (see_number(d, &node, NET "/%s/device/numa_node", name) && node >= 0)
        snprintf(x.node, sizeof x.node, ", NUMA node %" PRId64, node);
    return x;
}

static void tell_nic(doctor *d, const nic *x)
{
    char speed[32] = "speed unknown", name[96];
    if (x->speed)
        snprintf(speed, sizeof speed, "%g Gbit/s", (double)x->speed / 1000);
    tell_line(d, "%s: %s, %s, MTU %" PRId64 "%s%s", x->name,
              !x->up       ? "switched off"
              : x->carrier ? "up"
                           : "no link",
              speed, x->mtu, x->node, x->there ? "" : ", virtual and not judged");
    if (!x->there || !x->up || !x->carrier)
        return;
    snprintf(name, sizeof name, "%.64s.mtu", x->name);
    tell_number(d, name, x->mtu);
    snprintf(name, sizeof name, "%.64s.speed", x->name);
    tell_number(d, name, x->speed);
}

static void judge_nic(doctor *d, const nic *x)
{
    if (x->speed >= FAST && x->mtu <= SMALL_MTU) {
        tell(d, DOCTOR_WARNING, "%s has an MTU of %" PRId64 " on a link of %g Gbit/s", x->name,
             x->mtu, (double)x->speed / 1000);
        tell_why(d, "A core handles each packet: at this size they are six times as many, and one "
                    "connection does not fill the link. RoCE is held to an MTU of 1024 by it.");
        tell_type(d,
                  "sudo ip link set %s mtu 9000  # on every machine, and on the switches "
                  "between them first",
                  x->name);
    }
    if (x->half) {
        tell(d, DOCTOR_WARNING, "%s runs half duplex", x->name);
        tell_why(d, "It cannot send while it receives, and every collective does both: the two "
                    "ends disagree about negotiation, or the cable is bad.");
        tell_type(d, "sudo ethtool -s %s autoneg on", x->name);
    }
    if (x->slot > 0 && x->speed > 0 && x->slot < (double)x->speed) {
        tell(d, DOCTOR_WARNING, "the slot of %s carries %.0f Gbit/s, its link %g Gbit/s", x->name,
             x->slot / 1000, (double)x->speed / 1000);
        tell_why(d,
                 "PCIe is the narrow place (%" PRId64 " lanes%s): the card sits in a small or "
                 "an old slot, or has lost lanes.",
                 x->lanes, lawful(x->lanes_most) && x->lanes < x->lanes_most ? " of more" : "");
        tell_type(d, "sudo lspci -vv -s $(basename $(readlink " NET "/%s/device)) | grep Lnk",
                  x->name);
    }
}

/* A port without a cable is common; a machine without any link is not. */
static void judge_link(doctor *d, const nic *x, uint32_t linked)
{
    tell(d, linked ? DOCTOR_NOTE : DOCTOR_WARNING, "%s is switched on and has no link", x->name);
    tell_why(d, "%s",
             linked ? "Nothing is lost if nothing is plugged in; else its bandwidth is."
                    : "No interface has one: there is no other machine to reach.");
    tell_type(d,
              "sudo ip link set %s down && sudo ip link set %s up && sudo ethtool %s | grep "
              "detected",
              x->name, x->name, x->name);
}

void check_network(doctor *d)
{
    const char *const *names = see_names(d, NET);
    uint32_t n = 0, linked = 0;
    int64_t fastest = 0;
    while (names[n])
        n++;
    nic *all = pool_array(&d->pool, (uint64_t)n + 1, sizeof *all);
    for (uint32_t i = 0; i < n; i++) {
        all[i] = look(d, names[i]);
        bool works = all[i].there && all[i].up && all[i].carrier;
        linked += works;
        if (works && all[i].speed > fastest)
            fastest = all[i].speed;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].there || strcmp(all[i].name, "lo") != 0)
            tell_nic(d, &all[i]);
        if (!all[i].there)
            continue;
        if (all[i].up && all[i].carrier)
            judge_nic(d, &all[i]);
        else if (all[i].up)
            judge_link(d, &all[i], linked);
    }
    if (!n)
        tell_line(d, "no network interface");
    tell_number(d, "fastest", fastest);
}

/* --- TCP --- */

/* "4096 131072 6291456": the third. */
static bool most_of(const doctor *d, const char *path, int64_t *out)
{
    char text[128];
    int64_t least, usual;
    return see_text(d, text, sizeof text, "%s", path) &&
           sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNd64, &least, &usual, out) == 3 && *out > 0;
}

static void judge_buffers(doctor *d, int64_t in, int64_t out, int64_t speed)
{
    double flying = (double)speed * 1e6 / 8 * ROUND_TRIP_MS * 1e-3;
    const int64_t least = in < out ? in : out;
    if (!speed || flying <= (double)least)
        return;
    tell(d, DOCTOR_NOTE, "a TCP connection may buffer %s, and %g Gbit/s for %g ms are %s",
         tell_size((uint64_t)least), (double)speed / 1000, ROUND_TRIP_MS,
         tell_size((uint64_t)flying));
    tell_why(d, "One connection cannot have more bytes under way than it may buffer, which bounds "
                "its speed over a long way. Within a rack the way is shorter than that.");
    tell_type(d, "sudo sysctl net.ipv4.tcp_rmem='4096 131072 67108864' "
                 "net.ipv4.tcp_wmem='4096 65536 67108864' net.core.rmem_max=67108864 "
                 "net.core.wmem_max=67108864");
}

void check_sockets(doctor *d)
{
    int64_t in = 0, out = 0, queue = 0, ranks = see_fact(d, "job", "ranks", 0);
    char how[64] = "unknown";
    bool known = most_of(d, "/proc/sys/net/ipv4/tcp_rmem", &in) &&
                 most_of(d, "/proc/sys/net/ipv4/tcp_wmem", &out);
    see_text(d, how, sizeof how, "/proc/sys/net/ipv4/tcp_congestion_control");
    see_number(d, &queue, "/proc/sys/net/core/somaxconn");
    if (!known) {
        tell_line(d, "the kernel does not say");
        return;
    }
    tell_line(d, "buffers up to %s in, %s out; congestion control %s", tell_size((uint64_t)in),
              tell_size((uint64_t)out), how);
    tell_number(d, "in", in);
    tell_number(d, "out", out);
    tell_fact(d, "congestion", "%s", how);
    judge_buffers(d, in, out, see_fact(d, "network", "fastest", 0));
    if (queue > 0 && queue < ranks) {
        tell(d, DOCTOR_NOTE,
             "%" PRId64 " connections may wait to be accepted, and the job has "
             "%" PRId64 " ranks",
             queue, ranks);
        tell_why(d,
                 "All ranks call rank 0 at once; a call that finds the queue full is tried again "
                 "after a second.");
        tell_type(d, "sudo sysctl net.core.somaxconn=%d", ranks > 4096 ? 65535 : 4096);
    }
}
