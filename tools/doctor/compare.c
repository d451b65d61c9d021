/* doctor/compare.c: differences between the machines of a job. The slowest rank limits the speed of
 * a step, and the slower end that of a connection, so a difference is a finding even where each
 * value is fine by itself. The table below lists the facts that are compared; numbers may differ by
 * a fraction.
 *
 * Measurements between ranks (checks/path.c) are compared with bounds. */
#include "doctor/compare.h"

#include "doctor/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_HOSTS 3u
#define SKEW_MS 100
#define SLOW_WAY_US 1000

typedef struct rule {
    const char *check, *fact; /* ".mtu": of every device that two ranks have under the same name */
    enum doctor_level level;
    double part; /* numbers are equal if they differ by less than this fraction of the larger */
    const char *what, *why, *type; /* @ stands for the device */
} rule;

static const rule rules[] = {
    {"system", "kernel", DOCTOR_NOTE, 0, "the kernel",
     "Transports use what the kernel offers, and one machine may lack a bug fix.",
     "uname -r  # on each machine"},
    {"system", "weft", DOCTOR_WARNING, 0, "the program",
     "Every rank computes the plan itself. Different programs may compute different plans, and the "
     "job is then refused at start.",
     "weft --version; sha256sum $(which weft)  # on each machine, and install one build on all"},
    {"processor", "model", DOCTOR_NOTE, 0, "the processor",
     "The work is divided evenly, so the slowest rank sets the pace of all.",
     "lscpu | grep 'Model name'  # on each machine"},
    {"processor", "isa", DOCTOR_WARNING, 0, "the instruction set",
     "All ranks compute with the kernels of the widest instruction set that every machine has.",
     "lscpu | grep Flags  # on each machine, and leave out those that lack what the others have"},
    {"processor", "allowed", DOCTOR_WARNING, 0, "the number of CPUs that a rank may use",
     "The work is divided evenly, so the slowest rank sets the pace of all.",
     "taskset -cp $$  # in each place; device.threads sets one number for all"},
    {"topology", "cores", DOCTOR_NOTE, 0, "the number of cores",
     "The work is divided evenly, so the slowest rank sets the pace of all.",
     "lscpu  # on each machine"},
    {"frequency", "governor", DOCTOR_WARNING, 0, "the CPU governor",
     "The slowest rank sets the pace of all.",
     "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"},
    {"clock", "source", DOCTOR_NOTE, 0, "the clock source",
     "Waits for messages read the clock, which costs more on one machine.",
     "cat /sys/devices/system/clocksource/clocksource0/*_clocksource"},
    {"memory", "total", DOCTOR_NOTE, 0.05, "the size of memory",
     "An arena that fits on one machine may not fit on another; a memory module may have failed.",
     "free -h; sudo dmidecode -t memory | grep Size  # on each machine"},
    {"hugepages", "transparent", DOCTOR_NOTE, 0, "the use of huge pages",
     "Ranks access their arenas at different speeds.",
     "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"},
    {"container", "thousandths", DOCTOR_WARNING, 0.01,
     "the CPU quota of control groups (1/1000 of a CPU)", "The slowest rank sets the pace of all.",
     "cat /sys/fs/cgroup/cpu.max  # in each container"},
    {"limits", "locked", DOCTOR_NOTE, 0, "the locked-memory limit",
     "Registering the arena fails on one machine and works on another.",
     "ulimit -l  # on each machine, in the shell or service that starts ranks"},
    {"sockets", "congestion", DOCTOR_NOTE, 0, "TCP's congestion control",
     "The two directions of a connection use different algorithms.",
     "sysctl net.ipv4.tcp_congestion_control  # on each machine"},
    {"network", ".mtu", DOCTOR_WARNING, 0, "the MTU of @",
     "The end with the smaller MTU cannot receive full packets of the other end: they are "
     "fragmented or sent again, or the connection stalls at its first long message.",
     "sudo ip link set @ mtu 9000  # the same on every machine, and on the switches between"},
    {"network", ".speed", DOCTOR_WARNING, 0, "the link speed of @ (Mbit/s)",
     "A collective is as fast as its slowest link.",
     "sudo ethtool @ | grep -i speed  # on each machine: cable, switch port, negotiation"},
    {"path", "mtu", DOCTOR_WARNING, 0, "the MTU of the interface towards rank 0",
     "The end with the smaller MTU cannot receive full packets of the other end: they are "
     "fragmented or sent again, or the connection stalls at its first long message.",
     "ip route get $MASTER_ADDR  # on each machine, then: sudo ip link set INTERFACE mtu 9000"},
    {"rdma", "active", DOCTOR_WARNING, 0, "the number of active RDMA ports",
     "A transport is used only if every rank has a port, and is striped over the number of ports "
     "that all have.",
     "rdma link  # on each machine"},
    {"rdma", ".rate", DOCTOR_WARNING, 0, "the rate of @",
     "A collective is as fast as its slowest link.",
     "rdma link; ibstatus  # on each machine: cable, switch port"},
    {"rdma", ".link", DOCTOR_WARNING, 0, "the link layer of @",
     "InfiniBand and Ethernet ports cannot connect to each other.", "ibstatus  # on each machine"},
    {"gpus", "gpus", DOCTOR_WARNING, 0, "the number of GPUs",
     "A rank without a GPU cannot take part in a job on GPUs.", "nvidia-smi -L  # on each machine"},
    {"gpus", "driver", DOCTOR_WARNING, 0, "the GPU driver",
     "The oldest driver decides which libraries can be loaded.",
     "cat /proc/driver/nvidia/version  # on each machine"},
    {"libcuda", "version", DOCTOR_NOTE, 0, "the CUDA version of the driver",
     "The oldest version decides what can be loaded.", "nvidia-smi  # on each machine"},
    {"libnccl", "version", DOCTOR_WARNING, 0, "the version of NCCL",
     "Different versions cannot communicate.",
     "ldconfig -p | grep nccl  # on each machine, and install one version on all"},
    {"libucp", "version", DOCTOR_WARNING, 0, "the version of UCX",
     "Ranks with different minor versions refuse each other.",
     "ucx_info -v  # on each machine, and install one version on all"},
    {"libucp", "tls", DOCTOR_WARNING, 0, "UCX_TLS",
     "Two ranks connect only by a transport that both may use.",
     "echo $UCX_TLS  # on each machine, in the shell or service that starts ranks"},
};

/* --- text --- */

const char *doctor_rank_list(pool *p, const bool *is, uint32_t ranks)
{
    char *text = NULL;
    uint32_t n = 0;
    for (uint32_t a = 0, b; a < ranks; a = b) {
        b = a + 1;
        if (!is[a])
            continue;
        while (b < ranks && is[b])
            b++;
        n += b - a;
        const char *before = text ? text : "", *comma = text ? ", " : "";
        text = b - a > 1 ? pool_printf(p, "%s%s%u-%u", before, comma, a, b - 1)
                         : pool_printf(p, "%s%s%u", before, comma, a);
    }
    return pool_printf(p, "rank%s %s", n == 1 ? "" : "s", text ? text : "none");
}

static const char *hosts_of(pool *p, json_t *const *reports, const bool *is, uint32_t ranks)
{
    const char *seen[SHOWN_HOSTS], *text = "";
    uint32_t n = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        const char *host = doctor_report_text(reports[r], "host");
        bool known = !is[r];
        for (uint32_t i = 0; i < n && !known; i++)
            known = !strcmp(seen[i], host);
        if (known)
            continue;
        if (n == SHOWN_HOSTS)
            return pool_printf(p, "%s, ...", text);
        seen[n] = host;
        text = pool_printf(p, "%s%s%s", text, n++ ? ", " : "", host);
    }
    return text;
}

static const char *with_device(pool *p, const char *text, const char *device)
{
    const char *out = "";
    for (const char *at; (at = strchr(text, '@')); text = at + 1)
        out = pool_printf(p, "%s%.*s%s", out, (int)(at - text), text, device);
    return pool_printf(p, "%s%s", out, text);
}

static void add(json_t *list, enum doctor_level level, const char *what, const char *why,
                const char *type)
{
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "level", doctor_levels[level],
                                          "what", what, "why", why, "type", type));
}

/* --- facts --- */

static bool alike(const json_t *a, const json_t *b, double part)
{
    if (!json_is_integer(a) || !json_is_integer(b))
        return json_equal(a, b) || (!a && !b);
    double x = json_number_value(a), y = json_number_value(b), max = x > y ? x : y;
    return (x > y ? x - y : y - x) <= part * max;
}

static const char *value_text(pool *p, const json_t *v)
{
    if (json_is_string(v))
        return json_string_value(v);
    return json_is_integer(v) ? pool_printf(p, "%" PRId64, (int64_t)json_integer_value(v)) : "none";
}

typedef struct comparison {
    pool *pool;
    json_t *const *reports;
    uint32_t ranks;
    const rule *rule;
    const json_t **value; /* [ranks] NULL: the rank has no such fact */
    bool *group, *told;   /* [ranks] */
    json_t *out;
} comparison;

/* Values in order of the first rank that has each. With `device`, ranks without the fact are left
 * out. */
static void compare_values(comparison *c, const char *device)
{
    const char *text = "";
    uint32_t groups = 0;
    memset(c->told, 0, c->ranks * sizeof *c->told);
    for (uint32_t a = 0; a < c->ranks; a++) {
        if (c->told[a] || (device && !c->value[a]))
            continue;
        for (uint32_t b = 0; b < c->ranks; b++) {
            c->group[b] = !c->told[b] && (!device || c->value[b]) && (b == a || b > a) &&
                          alike(c->value[a], c->value[b], c->rule->part);
            c->told[b] |= c->group[b];
        }
        text = pool_printf(c->pool, "%s%s %s on %s (%s)", text, groups++ ? "," : "",
                           value_text(c->pool, c->value[a]),
                           doctor_rank_list(c->pool, c->group, c->ranks),
                           hosts_of(c->pool, c->reports, c->group, c->ranks));
    }
    if (groups < 2)
        return;
    const char *name = device ? device : "";
    add(c->out, c->rule->level,
        pool_printf(c->pool, "%s differs:%s", with_device(c->pool, c->rule->what, name), text),
        c->rule->why, with_device(c->pool, c->rule->type, name));
}

static void take_values(comparison *c, const char *fact)
{
    for (uint32_t r = 0; r < c->ranks; r++)
        c->value[r] = json_object_get(doctor_report_facts(c->reports[r], c->rule->check), fact);
}

/* Every device of this kind of which rank `r` is the first owner. */
static void compare_devices(comparison *c, uint32_t r)
{
    json_t *facts = doctor_report_facts(c->reports[r], c->rule->check);
    size_t tail = strlen(c->rule->fact), n;
    const char *name;
    json_t *value;
    json_object_foreach (facts, name, value) {
        n = strlen(name);
        if (n <= tail || strcmp(name + n - tail, c->rule->fact) != 0)
            continue;
        take_values(c, name);
        bool first = true;
        for (uint32_t before = 0; before < r; before++)
            first = first && !c->value[before];
        if (first)
            compare_values(c, pool_printf(c->pool, "%.*s", (int)(n - tail), name));
    }
}

/* --- measurements --- */

static void assess_clock_skew(const comparison *c, uint32_t r)
{
    int64_t skew = doctor_report_number(c->reports[r], "path", "skew_ms", 0);
    if (skew > -SKEW_MS && skew < SKEW_MS)
        return;
    add(c->out, DOCTOR_NOTE,
        pool_printf(c->pool, "the clock of rank %u (%s) is %.1f s %s of rank 0's", r,
                    doctor_report_text(c->reports[r], "host"),
                    (double)(skew < 0 ? -skew : skew) / 1000, skew < 0 ? "behind" : "ahead"),
        "Training is not affected, but times in log lines, traces and files of the two machines "
        "cannot be compared.",
        "sudo timedatectl set-ntp true; timedatectl timesync-status");
}

static void assess_path_mtu(const comparison *c, uint32_t r)
{
    int64_t sent = doctor_report_number(c->reports[r], "path", "probed", 0),
            got =
                doctor_report_number(c->reports[0], "path", pool_printf(c->pool, "from.%u", r), -1);
    if (sent <= 0 || got < 0 || got >= sent)
        return;
    add(c->out, DOCTOR_WARNING,
        pool_printf(c->pool,
                    "packets of %" PRId64 " bytes from rank %u (%s) do not reach rank 0, and short "
                    "ones do",
                    sent, r, doctor_report_text(c->reports[r], "host")),
        "The MTU of the interface allows them, so a device on the path has a smaller MTU. A "
        "connection then stalls at its first long message.",
        pool_printf(c->pool,
                    "ping -M do -s %" PRId64
                    " $MASTER_ADDR  # on that machine; then set the MTU of switch ports to 9216, "
                    "or lower that of the interfaces",
                    sent > 28 ? sent - 28 : sent));
}

static void assess_bandwidth_delay(const comparison *c, uint32_t r)
{
    int64_t us = doctor_report_number(c->reports[r], "path", "round_trip_us", 0),
            speed = doctor_report_number(c->reports[r], "path", "speed", 0),
            in = doctor_report_number(c->reports[r], "sockets", "in", INT64_MAX),
            out = doctor_report_number(c->reports[r], "sockets", "out", INT64_MAX),
            least = in < out ? in : out;
    double in_flight = (double)speed / 8 * (double)us;
    if (us <= SLOW_WAY_US || speed <= 0 || in_flight <= (double)least)
        return;
    add(c->out, DOCTOR_WARNING,
        pool_printf(c->pool,
                    "rank %u has a round trip of %.1f ms to rank 0; at %g Gbit/s that needs a "
                    "larger buffer than the %s that a connection may have",
                    r, (double)us / 1000, (double)speed / 1000, mem_size(least).text),
        "The bytes in flight on one connection are limited by its buffer.",
        "sudo sysctl net.ipv4.tcp_rmem='4096 131072 67108864' net.ipv4.tcp_wmem='4096 65536 "
        "67108864' net.core.rmem_max=67108864 net.core.wmem_max=67108864");
}

json_t *doctor_compare_reports(json_t *const *reports, uint32_t ranks)
{
    pool p = {0};
    comparison c = {&p, reports, ranks, NULL, NULL, NULL, NULL, json_array()};
    c.value = pool_array(&p, ranks, sizeof *c.value);
    c.group = pool_array(&p, ranks, sizeof *c.group);
    c.told = pool_array(&p, ranks, sizeof *c.told);
    for (uint32_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        c.rule = &rules[i];
        if (*c.rule->fact == '.') {
            for (uint32_t r = 0; r < ranks; r++)
                compare_devices(&c, r);
        } else {
            take_values(&c, c.rule->fact);
            compare_values(&c, NULL);
        }
    }
    for (uint32_t r = 1; r < ranks; r++) {
        assess_clock_skew(&c, r);
        assess_path_mtu(&c, r);
        assess_bandwidth_delay(&c, r);
    }
    pool_free(&p);
    return c.out;
}
