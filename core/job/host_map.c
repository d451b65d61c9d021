/* job/host_map.c: see host_map.h. Every rank publishes what identifies its machine; all ranks
 * compare in the same way. If there are several machines, every rank then publishes the NUMA
 * distance from its cores to its network interface. */
#define _GNU_SOURCE
#include <ifaddrs.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/number/digest.h"
#include "job/host_map.h"
#include "job/mailbox.h"
#include "job/wire/address.h"
#include "job/wire/endpoint.h"

typedef struct host_identity {
    char boot[48];
    uint64_t networks, processes; /* namespaces */
    char address[80];             /* of the rank, as it knows it by now */
} host_identity;

/* The first line of a system file; empty if the file is missing. */
static void first_line(const char *path, char *out, size_t capacity)
{
    FILE *f = fopen(path, "re");
    out[0] = 0;
    if (f && fgets(out, (int)capacity, f))
        out[strcspn(out, "\n")] = 0;
    else
        out[0] = 0;
    if (f)
        fclose(f);
}

/* The NUMA node of the network interface that has this address; -1: unknown. */
static long node_of_interface(const char *address)
{
    struct ifaddrs *all = NULL;
    char text[128], path[192], node[32] = "";
    if (getifaddrs(&all) != 0)
        return -1;
    for (struct ifaddrs *i = all; i && !node[0]; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if (family != AF_INET && family != AF_INET6)
            continue;
        socklen_t n = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        if (getnameinfo(i->ifa_addr, n, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0 ||
            strcmp(text, address) != 0)
            continue;
        snprintf(path, sizeof path, "/sys/class/net/%.32s/device/numa_node", i->ifa_name);
        first_line(path, node, sizeof node);
    }
    freeifaddrs(all);
    return node[0] ? strtol(node, NULL, 10) : -1;
}

/* The NUMA node of this rank's first core, if ranks divide the cores in order. */
static long node_of_cores(const job_identity *who)
{
    cpu_set_t mine;
    char path[96];
    if (sched_getaffinity(0, sizeof mine, &mine) != 0)
        return -1;
    uint64_t ranks = who->local_ranks ? who->local_ranks : 1;
    uint64_t skip = (uint64_t)CPU_COUNT(&mine) * who->local_rank / ranks;
    for (long cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &mine) || skip-- > 0)
            continue;
        for (long node = 0; node < 256; node++) {
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/node%ld", cpu, node);
            if (access(path, F_OK) == 0)
                return node;
        }
        return -1;
    }
    return -1;
}

static uint64_t distance(const job_identity *who)
{
    char address[256], path[96], line[2048], *at = line, *end;
    if (job_address_local(who, address, sizeof address) != WEFT_OK) {
        err_clear();
        return 0;
    }
    long to = node_of_interface(address), from = to < 0 ? -1 : node_of_cores(who);
    if (from < 0)
        return 0;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%ld/distance", from);
    first_line(path, line, sizeof line);
    for (long node = 0; node <= to; node++, at = end) {
        unsigned long d = strtoul(at, &end, 10);
        if (end == at)
            return 0;
        if (node == to)
            return d;
    }
    return 0;
}

/* Equal for ranks of one machine with the same CPU affinity. Where the machine has more CPUs than
 * cpu_set_t holds, all ranks count as equal. */
static uint64_t digest_of_cpus(void)
{
    cpu_set_t mine;
    uint64_t h = DIGEST_BEGIN;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0)
        digest_mix(&h, &mine, sizeof mine);
    return h;
}

static void describe(const job_identity *who, host_identity *out)
{
    struct stat s;
    *out = (host_identity){0};
    memcpy(out->address, who->address, sizeof out->address);
    first_line("/proc/sys/kernel/random/boot_id", out->boot, sizeof out->boot);
    out->networks = stat("/proc/self/ns/net", &s) == 0 ? s.st_ino : 0;
    out->processes = stat("/proc/self/ns/pid", &s) == 0 ? s.st_ino : 0;
}

static void take_capacity(uint32_t ranks, job_hosts *out)
{
    *out = (job_hosts){.ranks = ranks};
    out->machine = mem_alloc(ranks * sizeof *out->machine);
    out->distance = mem_alloc(ranks * sizeof *out->distance);
}

static int same_host(const host_identity *a, const host_identity *b)
{
    return a->boot[0] && memcmp(a->boot, b->boot, sizeof a->boot) == 0;
}

static int together(const host_identity *a, const host_identity *b)
{
    return same_host(a, b) && a->networks == b->networks && a->processes == b->processes;
}

/* One line per host, or two where the values of its first rank happen to be right. */
static void say_contradiction(const job_identity *said, uint32_t rank, uint32_t ranks)
{
    const bool other_rank = said->local_rank_said && said->local_rank != rank;
    const bool other_ranks = said->local_ranks_said && said->local_ranks != ranks;
    if (rank > 1 || !(other_rank || other_ranks))
        return;
    log_line(WEFT_LOG_WARN,
             "the environment says local %s %u, but this is local rank %u of %u according to the "
             "host names of the ranks, which decide about cores and GPUs",
             other_rank ? "rank" : "size", other_rank ? said->local_rank : said->local_ranks, rank,
             ranks);
}

/* Set this rank's number among the ranks of its host. Without a boot id the environment's values
 * stay. */
static void end_local(job_identity *who, const host_identity *all)
{
    uint32_t rank = 0, ranks = 0;
    for (uint32_t r = 0; r < who->ranks; r++)
        if (same_host(&all[r], &all[who->rank])) {
            rank += r < who->rank;
            ranks++;
        }
    if (!ranks)
        return;
    say_contradiction(who, rank, ranks);
    who->local_rank = rank;
    who->local_ranks = ranks;
}

/* A rank of rank 0's machine may have met it at a loopback address, which no other machine reaches:
 * it takes the address of a rank beside it that was met at another, as rank 0 was. */
static void leave_loopback(job_identity *who, const host_identity *all)
{
    const host_identity *mine = &all[who->rank];
    for (uint32_t r = 0; r < who->ranks; r++) {
        const char *other = all[r].address;
        if (who->address_said || (*who->address && !job_endpoint_says_loopback(who->address)))
            return;
        if (same_host(&all[r], mine) && all[r].networks == mine->networks && *other &&
            !job_endpoint_says_loopback(other))
            memcpy(who->address, other, sizeof who->address);
    }
}

static weft_status find_distances(job *j, const job_identity *who, job_hosts *out)
{
    uint32_t mine = (uint32_t)distance(who);
    return job_exchange(j, "distances", &mine, sizeof mine, out->distance);
}

/* Affinity masks are mostly equal on all machines, so few distinct parts are exchanged. */
static weft_status find_same_host(job *j, const job_identity *who, job_hosts *out)
{
    uint64_t mine = digest_of_cpus(), *all = mem_alloc(who->ranks * sizeof *all);
    weft_status st = job_exchange(j, "cpus", &mine, sizeof mine, all);
    for (uint32_t r = 0; st == WEFT_OK && r < who->ranks; r++) {
        if (out->machine[r] != out->machine[who->rank] || all[r] != mine)
            continue;
        out->cpu_rank += r < who->rank;
        out->cpu_ranks++;
    }
    free(all);
    return st;
}

weft_status job_find_hosts(job *j, job_identity *who, job_hosts *out)
{
    host_identity mine, *all = mem_alloc((uint64_t)who->ranks * sizeof *all);
    if (j)
        job_get_address(j, who);
    describe(who, &mine);
    weft_status st = job_exchange(j, "sites", &mine, sizeof mine, all);
    take_capacity(who->ranks, out);
    for (uint32_t r = 0; st == WEFT_OK && r < who->ranks; r++) {
        uint32_t like = r && together(&all[r - 1], &all[r]) ? r - 1 : 0;
        while (like < r && !together(&all[like], &all[r]))
            like++;
        out->machine[r] = like < r ? out->machine[like] : out->machines++;
    }
    if (j && st == WEFT_OK) {
        end_local(who, all);
        who->one_machine = out->machines == 1;
        if (!who->one_machine)
            leave_loopback(who, all);
        job_set_locality(j, who);
    }
    free(all);
    if (st == WEFT_OK)
        st = find_same_host(j, who, out);
    return st == WEFT_OK && out->machines > 1 ? find_distances(j, who, out) : st;
}

void job_even_hosts(uint32_t ranks, uint32_t machines, job_hosts *out)
{
    take_capacity(ranks, out);
    out->machines = machines < ranks ? machines : ranks;
    for (uint32_t r = 0; r < ranks; r++)
        out->machine[r] = (uint32_t)((uint64_t)r * out->machines / ranks);
}

void job_free_hosts(job_hosts *s)
{
    free(s->machine);
    free(s->distance);
    *s = (job_hosts){0};
}
