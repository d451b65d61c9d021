/* doctor/checks/net.c: network interfaces, and the TCP settings of the kernel. */
#include "doctor/checks/checks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NET "/sys/class/net"
#define FAST 10000 /* Mbit/s from which small packets limit throughput */
#define SMALL_MTU 1500
#define IS_UP 1           /* IFF_UP of <net/if.h> */
#define ROUND_TRIP_MS 0.5 /* assumed for a data centre */

typedef struct nic {
    const char *name;
    bool there, up, carrier, half; /* hardware or a bond; up; has a link */
    int64_t speed, mtu;            /* Mbit/s, 0: unknown */
    double slot;                   /* Mbit/s of the PCIe slot as it is, 0: unknown */
    int64_t lanes, lanes_max;
    char node[32];
} nic;

/* "16.0 GT/s PCIe" and a number of lanes: Mbit/s after the line code. */
static double slot_speed(const char *transfers, int64_t lanes)
{
    double giga = strtod(transfers, NULL);
    double code = giga > 5.5 ? 128.0 / 130 : 0.8; /* 8b/10b up to the second generation */
    return giga > 0 && giga < 1000 ? giga * 1000 * code * (double)lanes : 0;
}

static bool is_lane_count(int64_t lanes)
{
    return lanes > 0 && lanes <= 32; /* 255 and 0: unknown */
}

static nic read_nic(const doctor *d, const char *name)
{
    nic x = {.name = name};
    int64_t carrier = 0, node = -1;
    char text[128];
    x.there = doctor_path_exists(d, NET "/%s/device", name) ||
              doctor_path_exists(d, NET "/%s/bonding", name);
    if (doctor_read_text(d, text, sizeof text, NET "/%s/flags", name))
        x.up = strtoul(text, NULL, 16) & IS_UP;
    x.carrier = doctor_read_number(d, &carrier, NET "/%s/carrier", name) && carrier == 1;
    if (!doctor_read_number(d, &x.speed, NET "/%s/speed", name) || x.speed < 0 ||
        x.speed > 100000000)
        x.speed = 0;
    if (!doctor_read_number(d, &x.mtu, NET "/%s/mtu", name) || x.mtu < 0)
        x.mtu = 0;
    x.half =
        doctor_read_text(d, text, sizeof text, NET "/%s/duplex", name) && !strcmp(text, "half");
    doctor_read_number(d, &x.lanes, NET "/%s/device/current_link_width", name);
    doctor_read_number(d, &x.lanes_max, NET "/%s/device/max_link_width", name);
    if (doctor_read_text(d, text, sizeof text, NET "/%s/device/current_link_speed", name) &&
        is_lane_count(x.lanes))
        x.slot = slot_speed(text, x.lanes);
    if (doctor_read_number(d, &node, NET "/%s/device/numa_node", name) && node >= 0)
        snprintf(x.node, sizeof x.node, ", NUMA node %" PRId64, node);
    return x;
}

static void report_nic(doctor *d, const nic *x)
{
    char speed[32] = "speed unknown", name[96];
    if (x->speed)
        snprintf(speed, sizeof speed, "%g Gbit/s", (double)x->speed / 1000);
    doctor_add_line(d, "%s: %s, %s, MTU %" PRId64 "%s%s", x->name,
                    !x->up       ? "down"
                    : x->carrier ? "up"
                                 : "no link",
                    speed, x->mtu, x->node, x->there ? "" : ", virtual, not assessed");
    if (!x->there || !x->up || !x->carrier)
        return;
    snprintf(name, sizeof name, "%.64s.mtu", x->name);
    doctor_add_number(d, name, x->mtu);
    snprintf(name, sizeof name, "%.64s.speed", x->name);
    doctor_add_number(d, name, x->speed);
}

static void assess_nic(doctor *d, const nic *x)
{
    if (x->speed >= FAST && x->mtu <= SMALL_MTU) {
        doctor_add_finding(d, DOCTOR_WARNING, "%s has an MTU of %" PRId64 " on a link of %g Gbit/s",
                           x->name, x->mtu, (double)x->speed / 1000);
        doctor_add_reason(
            d,
            "The CPU handles each packet: with this MTU there are six times as many as with 9000, "
            "and one connection cannot fill the link. It also limits RoCE to an MTU of 1024.");
        doctor_add_command(
            d, "sudo ip link set %s mtu 9000  # first on the switches, then on every machine",
            x->name);
    }
    if (x->half) {
        doctor_add_finding(d, DOCTOR_WARNING, "%s runs half duplex", x->name);
        doctor_add_reason(d,
                          "It cannot send and receive at the same time, and every collective does "
                          "both. The two ends disagree about negotiation, or the cable is bad.");
        doctor_add_command(d, "sudo ethtool -s %s autoneg on", x->name);
    }
    if (x->slot > 0 && x->speed > 0 && x->slot < (double)x->speed) {
        doctor_add_finding(d, DOCTOR_WARNING,
                           "the PCIe slot of %s has %.0f Gbit/s, and its link %g Gbit/s", x->name,
                           x->slot / 1000, (double)x->speed / 1000);
        doctor_add_reason(d,
                          "PCIe is the bottleneck (%" PRId64
                          " lanes%s): the slot is small or old, or lanes have failed.",
                          x->lanes,
                          is_lane_count(x->lanes_max) && x->lanes < x->lanes_max ? " of more" : "");
        doctor_add_command(
            d, "sudo lspci -vv -s $(basename $(readlink " NET "/%s/device)) | grep Lnk", x->name);
    }
}

/* An unused port is common; a machine without any link is a warning. */
static void assess_link(doctor *d, const nic *x, uint32_t linked)
{
    doctor_add_finding(d, linked ? DOCTOR_NOTE : DOCTOR_WARNING, "%s is up and has no link",
                       x->name);
    doctor_add_reason(d, "%s",
                      linked ? "If a cable is plugged in, its bandwidth is lost."
                             : "No interface has a link, so no other machine can be reached.");
    doctor_add_command(
        d,
        "sudo ip link set %s down && sudo ip link set %s up && sudo ethtool %s | grep "
        "detected",
        x->name, x->name, x->name);
}

void doctor_check_network(doctor *d)
{
    const char *const *names = doctor_list_folder(d, NET);
    uint32_t n = 0, linked = 0;
    int64_t fastest = 0;
    while (names[n])
        n++;
    nic *all = pool_array(&d->pool, (uint64_t)n + 1, sizeof *all);
    for (uint32_t i = 0; i < n; i++) {
        all[i] = read_nic(d, names[i]);
        bool works = all[i].there && all[i].up && all[i].carrier;
        linked += works;
        if (works && all[i].speed > fastest)
            fastest = all[i].speed;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].there || strcmp(all[i].name, "lo") != 0)
            report_nic(d, &all[i]);
        if (!all[i].there)
            continue;
        if (all[i].up && all[i].carrier)
            assess_nic(d, &all[i]);
        else if (all[i].up)
            assess_link(d, &all[i], linked);
    }
    if (!n)
        doctor_add_line(d, "no network interface");
    if (!n && !doctor_path_exists(d, "/sys/class/net"))
        doctor_set_unknown(d);
    doctor_add_number(d, "fastest", fastest);
}

/* --- TCP --- */

/* The maximum in a setting such as "4096 131072 6291456". */
static bool most_of(const doctor *d, const char *path, int64_t *out)
{
    char text[128];
    int64_t least, usual;
    return doctor_read_text(d, text, sizeof text, "%s", path) &&
           sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNd64, &least, &usual, out) == 3 && *out > 0;
}

static void assess_buffers(doctor *d, int64_t in, int64_t out, int64_t speed)
{
    double in_flight = (double)speed * 1e6 / 8 * ROUND_TRIP_MS * 1e-3;
    const int64_t least = in < out ? in : out;
    if (!speed || in_flight <= (double)least)
        return;
    doctor_add_finding(
        d, DOCTOR_NOTE,
        "a TCP connection may buffer %s; %g Gbit/s with a round trip of %g ms needs %s",
        mem_size(least).text, (double)speed / 1000, ROUND_TRIP_MS, mem_size(in_flight).text);
    doctor_add_reason(
        d, "The bytes in flight on one connection are limited by its buffer, which limits its "
           "speed over long distances. Within a rack the round trip is shorter.");
    doctor_add_command(d, "sudo sysctl net.ipv4.tcp_rmem='4096 131072 67108864' "
                          "net.ipv4.tcp_wmem='4096 65536 67108864' net.core.rmem_max=67108864 "
                          "net.core.wmem_max=67108864");
}

void doctor_check_sockets(doctor *d)
{
    int64_t in = 0, out = 0, queue = 0, ranks = doctor_fact_number(d, "job", "ranks", 0);
    char how[64] = "unknown";
    bool known = most_of(d, "/proc/sys/net/ipv4/tcp_rmem", &in) &&
                 most_of(d, "/proc/sys/net/ipv4/tcp_wmem", &out);
    doctor_read_text(d, how, sizeof how, "/proc/sys/net/ipv4/tcp_congestion_control");
    doctor_read_number(d, &queue, "/proc/sys/net/core/somaxconn");
    if (!known) {
        doctor_add_unknown(d, "not reported by the kernel");
        return;
    }
    doctor_add_line(d, "buffers up to %s in, %s out; congestion control %s", mem_size(in).text,
                    mem_size(out).text, how);
    doctor_add_number(d, "in", in);
    doctor_add_number(d, "out", out);
    doctor_add_text(d, "congestion", "%s", how);
    assess_buffers(d, in, out, doctor_fact_number(d, "network", "fastest", 0));
    if (queue > 0 && queue < ranks) {
        doctor_add_finding(d, DOCTOR_NOTE,
                           "the listen queue has %" PRId64 " places, and the job has "
                           "%" PRId64 " ranks",
                           queue, ranks);
        doctor_add_reason(d, "All ranks connect to rank 0 at once; a connection that finds the "
                             "queue full is tried again after a second.");
        doctor_add_command(d, "sudo sysctl net.core.somaxconn=%d", ranks > 4096 ? 65535 : 4096);
    }
}
