/* doctor/checks/path.c: see path.h. The round-trip time is the minimum over some requests to the
 * store of rank 0. It includes waking two threads, so it is an upper bound. The clock skew is taken
 * from clocks read at the end of a barrier, and is about as exact as the round-trip time.
 *
 * Path MTU: each rank sends UDP packets that may not be fragmented to rank 0 for a second, long
 * ones (the MTU of the interface) and short ones. If only short ones arrive, a device on the path
 * has a smaller MTU. If none arrive, a firewall drops them, and there is no result. Rank 0 accepts
 * a packet only if it carries the random number that rank 0 published in the store. */
#define _GNU_SOURCE
#include "doctor/checks/path.h"

#include "base/clock.h"
#include "base/mem.h"
#include "doctor/report.h"
#include "doctor/sysfs.h"

#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRIES 20
#define ROUNDS 3
#define PASSAGE_MS 1000
#define PAUSE_MS 40
#define SHORT_BYTES 64
#define LONG_BYTES 65507
#define DEADLINE 30.0

typedef union endpoint {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} endpoint;

/* What rank 0 publishes: its address, and the random number that packets begin with. */
typedef struct listener {
    endpoint at;
    uint8_t mark[16];
} listener;

typedef struct packet {
    uint8_t mark[16];
    uint32_t rank, bytes; /* of the whole packet, the headers of IP and UDP included */
} packet;

typedef struct route {
    endpoint local;
    socklen_t length;
    char name[IFNAMSIZ];
    int mtu, headers; /* bytes; of IP and UDP */
    bool loop;
} route;

/* --- the interface --- */

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    if (!a || a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 && !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                                               &((const struct sockaddr_in6 *)b)->sin6_addr, 16);
}

/* The address of this rank as it knows it since it has joined. */
static bool own_address(const job_identity *who, route *w)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    if (!*who->address || getaddrinfo(who->address, NULL, &hints, &found))
        return false;
    w->length = found->ai_addrlen <= sizeof w->local ? found->ai_addrlen : 0;
    memcpy(&w->local, found->ai_addr, w->length);
    freeaddrinfo(found);
    return w->length > 0;
}

/* ... and where it does not: MASTER_ADDR for rank 0, for others the source address of packets to
 * it. */
static bool local_address(const job_identity *who, route *w)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[8];
    bool known = own_address(who, w);
    if (known)
        return true;
    snprintf(port, sizeof port, "%u", who->port);
    if (getaddrinfo(who->addr, port, &hints, &found))
        return false;
    for (struct addrinfo *a = found; a && !known; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        w->length = sizeof w->local;
        if (fd < 0)
            continue;
        if (who->rank == 0 && a->ai_addrlen <= sizeof w->local) {
            memcpy(&w->local, a->ai_addr, a->ai_addrlen);
            known = true;
        } else if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
            known = getsockname(fd, &w->local.any, &w->length) == 0;
        }
        close(fd);
    }
    freeaddrinfo(found);
    return known;
}

static bool find_route(const job_identity *who, route *w)
{
    struct ifaddrs *all = NULL;
    struct ifreq r = {0};
    if (!local_address(who, w) || getifaddrs(&all))
        return false;
    for (struct ifaddrs *a = all; a && !*w->name; a = a->ifa_next)
        if (same_address(a->ifa_addr, &w->local.any)) {
            snprintf(w->name, sizeof w->name, "%s", a->ifa_name);
            w->loop = a->ifa_flags & IFF_LOOPBACK;
        }
    freeifaddrs(all);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", w->name);
    if (*w->name && fd >= 0 && ioctl(fd, SIOCGIFMTU, &r) == 0)
        w->mtu = r.ifr_mtu;
    if (fd >= 0)
        close(fd);
    w->headers = w->local.any.sa_family == AF_INET ? 28 : 48;
    return w->mtu > 0;
}

/* --- time --- */

static weft_status round_trip(job *j, uint32_t rank, int64_t *us)
{
    char key[64];
    uint64_t best = UINT64_MAX;
    weft_status st = WEFT_OK;
    snprintf(key, sizeof key, "doctor.time.%u", rank);
    for (uint32_t i = 0; st == WEFT_OK && i < TRIES; i++) {
        uint64_t began = clock_ns();
        st = job_put(j, key, &began, sizeof began);
        uint64_t took = clock_ns() - began;
        best = took < best ? took : best;
    }
    *us = st != WEFT_OK ? 0 : (int64_t)(best / 1000);
    return st;
}

static int64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* How far this clock is ahead of that of rank 0: the minimum difference over some barriers. */
static weft_status clock_skew(job *j, const job_identity *who, int64_t *ms)
{
    int64_t mine[ROUNDS], *all = mem_alloc(who->ranks * sizeof mine);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < ROUNDS; i++) {
        st = job_exchange(j, "doctor.barrier", NULL, 0, NULL);
        mine[i] = wall_ms();
    }
    if (st == WEFT_OK)
        st = job_exchange(j, "doctor.clocks", mine, sizeof mine, all);
    *ms = st != WEFT_OK ? 0 : mine[0] - all[0];
    for (uint32_t i = 1; st == WEFT_OK && i < ROUNDS; i++)
        if (llabs(mine[i] - all[i]) < llabs(*ms))
            *ms = mine[i] - all[i];
    free(all);
    return st;
}

/* --- path MTU --- */

static void send_packets(int fd, const route *w, const listener *to, uint32_t rank)
{
    static uint8_t capacity[LONG_BYTES];
    uint32_t longest = (uint32_t)(w->mtu - w->headers), size[] = {SHORT_BYTES, longest};
    for (uint64_t end = clock_ms() + PASSAGE_MS; clock_ms() < end; poll(NULL, 0, PAUSE_MS))
        for (uint32_t i = 0; i < 2; i++) {
            packet p = {.rank = rank, .bytes = size[i] + (uint32_t)w->headers};
            memcpy(p.mark, to->mark, sizeof p.mark);
            memcpy(capacity, &p, sizeof p);
            if (size[i] <= LONG_BYTES)
                (void)!sendto(fd, capacity, size[i], MSG_DONTWAIT, &to->at.any, w->length);
        }
}

static void receive_packets(int fd, const route *w, const uint8_t mark[16], uint32_t ranks,
                            uint32_t *heard)
{
    static uint8_t capacity[LONG_BYTES + 1];
    uint64_t end = clock_ms() + PASSAGE_MS + PASSAGE_MS / 4, now;
    while ((now = clock_ms()) < end) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, (int)(end - now)) <= 0)
            continue;
        ssize_t n = recv(fd, capacity, sizeof capacity, MSG_DONTWAIT);
        packet x;
        if (n < (ssize_t)sizeof x)
            continue;
        memcpy(&x, capacity, sizeof x);
        if (memcmp(x.mark, mark, sizeof x.mark) || x.rank >= ranks ||
            x.bytes != (uint32_t)n + (uint32_t)w->headers)
            continue;
        heard[x.rank] = x.bytes > heard[x.rank] ? x.bytes : heard[x.rank];
    }
}

static int open_socket(const route *w, bool bound)
{
    int fd = socket(w->local.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = IP_PMTUDISC_PROBE;
    endpoint any_port = w->local;
    if (w->local.any.sa_family == AF_INET)
        any_port.v4.sin_port = 0;
    else
        any_port.v6.sin6_port = 0;
    if (fd < 0)
        return -1;
    if (w->local.any.sa_family == AF_INET)
        (void)setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &on, sizeof on);
    else
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &on, sizeof on);
    if (bound && bind(fd, &any_port.any, w->length)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Rank 0 publishes its address; an address of family 0 says that it cannot listen. */
static weft_status publish_listener(job *j, const route *w, int *fd, listener *mine)
{
    socklen_t n = sizeof mine->at;
    *fd = w->mtu > 0 ? open_socket(w, true) : -1;
    if (*fd >= 0 && (getrandom(mine->mark, sizeof mine->mark, 0) != sizeof mine->mark ||
                     getsockname(*fd, &mine->at.any, &n)))
        memset(mine, 0, sizeof *mine);
    return job_put(j, "doctor.post", mine, sizeof *mine);
}

static weft_status fetch_listener(job *j, listener *out)
{
    void *value = NULL;
    uint64_t bytes = 0;
    weft_status st = job_get(j, "doctor.post", DEADLINE, &value, &bytes);
    if (st == WEFT_OK && bytes == sizeof *out)
        memcpy(out, value, sizeof *out);
    free(value);
    return st;
}

static weft_status measure_path_mtu(job *j, const job_identity *who, const route *w, doctor *d)
{
    listener p = {0};
    int fd = -1;
    weft_status st = who->rank ? fetch_listener(j, &p) : publish_listener(j, w, &fd, &p);
    if (st == WEFT_OK && who->rank && w->mtu > w->headers && !w->loop &&
        p.at.any.sa_family == w->local.any.sa_family && (fd = open_socket(w, false)) >= 0) {
        send_packets(fd, w, &p, who->rank);
        doctor_add_number(d, "probed", w->mtu);
    } else if (st == WEFT_OK && !who->rank && fd >= 0 && !w->loop) {
        uint32_t *heard = mem_alloc(who->ranks * sizeof *heard);
        receive_packets(fd, w, p.mark, who->ranks, heard);
        for (uint32_t r = 1; r < who->ranks; r++) {
            char name[32];
            snprintf(name, sizeof name, "from.%u", r);
            if (heard[r])
                doctor_add_number(d, name, heard[r]);
        }
        free(heard);
    }
    if (fd >= 0)
        close(fd);
    return st;
}

weft_status doctor_measure_path(job *j, const job_identity *who, json_t *report)
{
    route w = {0};
    int64_t us = 0, ms = 0, speed = 0;
    doctor d = {.root = "", .done = json_object_get(report, "checks")};
    doctor_begin_check(&d, "path", "the network path to rank 0");
    bool known = find_route(who, &w);
    weft_status st = round_trip(j, who->rank, &us);
    if (st == WEFT_OK)
        st = clock_skew(j, who, &ms);
    if (st == WEFT_OK)
        st = measure_path_mtu(j, who, &w, &d);
    if (known && !w.loop) {
        doctor_add_text(&d, "interface", "%s", w.name);
        doctor_add_number(&d, "mtu", w.mtu);
        if (doctor_read_number(&d, &speed, "/sys/class/net/%s/speed", w.name) && speed > 0)
            doctor_add_number(&d, "speed", speed);
    }
    doctor_add_number(&d, "round_trip_us", us);
    doctor_add_number(&d, "skew_ms", ms);
    if (who->rank)
        doctor_add_line(&d, "through %s, round trip %" PRId64 " us", known ? w.name : "?", us);
    else
        doctor_add_line(&d, "the others connect through %s",
                        known ? w.name : "an unknown interface");
    doctor_end_check(&d);
    return st;
}
