/* device.c: which ports of which devices carry the traffic.
 *
 * `devices = auto` takes the port with the address that this rank listens on. If that is a loopback
 * address, or on InfiniBand, whose ports have no IP address, it takes the first active port. Named
 * devices are used without this comparison, each with its own best address; connections are spread
 * over all of them. */
#include "verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct search {
    const weft_host *host;
    const verbs_api *api;
    const verbs_options *options;
    const sockets_endpoint *bound; /* NULL: the address is not known */
    struct ibv_device **list;
    int devices;
    char seen[SOCKETS_TEXT / 2]; /* active ports and their addresses, for messages */
    char why[SOCKETS_TEXT];      /* the last refusal; recorded if no port can be used */
} search;

static weft_status __attribute__((format(printf, 3, 4)))
refuse(search *s, weft_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(s->why, sizeof s->why, fmt, args);
    va_end(args);
    return code;
}

weft_status verbs_read_options(const weft_host *host, const weft_conf *conf, verbs_options *out)
{
    const char *gid = conf->text(conf->ctx, "gid"), *mtu = conf->text(conf->ctx, "mtu");
    char *end = NULL;
    *out = (verbs_options){
        .devices = conf->text(conf->ctx, "devices"),
        .port = (int)conf->integer(conf->ctx, "port"),
        .gid = -1,
        .traffic_class = (int)conf->integer(conf->ctx, "traffic_class"),
        .service_level = (int)conf->integer(conf->ctx, "service_level"),
        .timeout = verbs_timeout_code(conf->real(conf->ctx, "timeout")),
        .retry = (int)conf->integer(conf->ctx, "retry"),
        .qps = (int)conf->integer(conf->ctx, "qps"),
        .max_inline = (uint32_t)conf->integer(conf->ctx, "inline"),
        .eager = (uint32_t)conf->integer(conf->ctx, "eager"),
        .slots = (uint32_t)conf->integer(conf->ctx, "slots"),
    };
    for (int code = IBV_MTU_256; code <= IBV_MTU_4096; code++)
        if (strtol(mtu, NULL, 10) == 128L << code)
            out->mtu = code;
    if (strcmp(gid, "auto") == 0)
        return WEFT_OK;
    long index = strtol(gid, &end, 10);
    if (end == gid || *end != '\0' || index < 0 || index > 255)
        return sockets_fail(host, WEFT_USAGE,
                            "[comm.verbs] gid = %.40s: either auto or an index from 0 to 255, as "
                            "ibv_devinfo -v counts a port's GIDs",
                            gid);
    out->gid = (int)index;
    return WEFT_OK;
}

void verbs_close_rail(const verbs_api *api, rail *r)
{
    if (r->channel)
        api->destroy_comp_channel(r->channel);
    if (r->pd)
        api->dealloc_pd(r->pd);
    if (r->context)
        api->close_device(r->context);
    *r = (rail){.completions.fd = -1, .async.fd = -1};
}

static const char *state_name(enum ibv_port_state s)
{
    static const char *const names[] = {"in no state", "down",   "initializing",
                                        "armed",       "active", "waiting (deferred)"};
    return names[(unsigned)s < sizeof names / sizeof names[0] ? s : 0];
}

/* Fill a rail from the attributes and addresses of its port. */
static weft_status fill(search *s, rail *r, const struct ibv_port_attr *port,
                        const struct ibv_gid_entry *table, int n, bool *exact)
{
    char have[160];
    size_t used = strlen(s->seen);
    int pick = verbs_pick_gid(table, n, r->port, s->bound, exact);
    verbs_print_gids(table, n, r->port, have, sizeof have);
    for (int i = 0; s->options->gid >= 0 && i < n; i++)
        if (table[i].port_num == r->port && (int)table[i].gid_index == s->options->gid)
            pick = i;
    bool asked = s->options->gid >= 0;
    if (pick < 0 || (asked && (int)table[pick].gid_index != s->options->gid))
        return asked ? refuse(s, WEFT_USAGE,
                              "[comm.verbs] gid = %d: port %u of %s has no such address; it "
                              "has %s",
                              s->options->gid, r->port, r->name, have[0] ? have : "none")
                     : refuse(s, WEFT_ABSENT,
                              "port %u of RDMA device %s has no address (GID) yet; does its "
                              "network interface have one?",
                              r->port, r->name);
    snprintf(s->seen + used, sizeof s->seen - used, "%s%s port %u (%s)", used > 0 ? ", " : "",
             r->name, r->port, have);
    r->gid = table[pick].gid;
    r->gid_index = (uint8_t)table[pick].gid_index;
    r->ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET;
    r->lid = port->lid;
    r->mtu = (uint8_t)port->active_mtu;
    if (s->options->mtu != 0 && s->options->mtu < r->mtu)
        r->mtu = (uint8_t)s->options->mtu;
    r->longest = port->max_msg_sz < 1u << 30 ? port->max_msg_sz : 1u << 30;
    return WEFT_OK;
}

static weft_status look_at_port(search *s, rail *r, bool *exact)
{
    struct ibv_port_attr port = {0};
    int why = s->api->query_port(r->context, r->port, &port);
    if (why != 0)
        return refuse(s, WEFT_ABSENT, "RDMA device %s has no port %u", r->name, r->port);
    if (port.state != IBV_PORT_ACTIVE)
        return refuse(s, WEFT_ABSENT,
                      "port %u of RDMA device %s is %s; check its cable and its interface", r->port,
                      r->name, state_name(port.state));
    size_t max = 2000; /* of all ports of the device; the kernel accepts 64 KiB at most */
    struct ibv_gid_entry *table = s->host->alloc(s->host->ctx, max * sizeof *table, 0);
    if (!table)
        return refuse(s, WEFT_NO_MEMORY, "no memory for a table of addresses");
    ssize_t n = s->api->query_gid_table(r->context, table, max, 0, sizeof *table);
    weft_status st = n < 0 ? refuse(s, WEFT_IO, "cannot read the addresses of %s: %s", r->name,
                                    strerror((int)-n))
                           : fill(s, r, &port, table, (int)n, exact);
    s->host->free(s->host->ctx, table);
    return st;
}

/* Port `port` of a device, or with 0 the first that can be used. */
static weft_status look_at(search *s, struct ibv_device *d, int port, rail *out, bool *exact)
{
    struct ibv_device_attr device;
    rail r = {.completions.fd = -1, .async.fd = -1};
    snprintf(r.name, sizeof r.name, "%s", s->api->get_device_name(d));
    r.context = s->api->open_device(d);
    if (!r.context)
        return refuse(s, WEFT_ABSENT,
                      "RDMA device %s cannot be opened: %s; does this user have access to "
                      "/dev/infiniband?",
                      r.name, strerror(errno));
    weft_status st = WEFT_OK;
    if (s->api->query_device(r.context, &device) != 0)
        st = refuse(s, WEFT_IO, "RDMA device %s does not answer", r.name);
    int ports = st == WEFT_OK && device.phys_port_cnt > 0 ? device.phys_port_cnt : 1;
    for (int i = port ? port : 1; st == WEFT_OK && i <= (port ? port : ports); i++) {
        rail found = r;
        bool fits = false;
        found.port = (uint8_t)i;
        st = look_at_port(s, &found, &fits);
        if (st == WEFT_OK && (!out->context || (fits && !*exact))) {
            *out = found;
            *exact = fits;
        }
        if (!port && i < ports && st == WEFT_ABSENT)
            st = WEFT_OK; /* another port may be usable */
    }
    if (out->context)
        return WEFT_OK;
    s->api->close_device(r.context);
    return st;
}

static bool is_loopback(const sockets_endpoint *e)
{
    if (e->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&e->v6.sin6_addr);
    return ntohl(e->v4.sin_addr.s_addr) >> 24 == 127;
}

/* `auto`: the port with the address; else the first, if addresses do not decide. */
static weft_status choose(search *s, rail *out, uint32_t *n)
{
    weft_status st = WEFT_ABSENT;
    rail best = {.context = NULL};
    bool best_exact = false;
    for (int i = 0; i < s->devices; i++) {
        rail r = {.context = NULL};
        bool exact = false;
        weft_status look = look_at(s, s->list[i], s->options->port, &r, &exact);
        if (!r.context) {
            st = !best.context ? look : st;
            continue;
        }
        bool any = !s->bound || is_loopback(s->bound) || !r.ethernet || s->options->gid >= 0;
        if ((exact && !best_exact) || (any && !best.context)) {
            verbs_close_rail(s->api, &best);
            best = r;
            best_exact = exact;
        } else {
            verbs_close_rail(s->api, &r);
        }
    }
    if (!best.context && s->seen[0] != '\0') {
        char where[96];
        sockets_print(s->bound, where, sizeof where);
        return refuse(s, WEFT_ABSENT,
                      "no active port of an RDMA device has the address of this rank, %s; "
                      "there is %s; name the device with [comm.verbs] devices",
                      where, s->seen);
    }
    if (!best.context)
        return st;
    out[0] = best;
    *n = 1;
    return WEFT_OK;
}

static struct ibv_device *find(search *s, const char *name, char *have, size_t room)
{
    have[0] = '\0';
    for (int i = 0; i < s->devices; i++) {
        const char *this = s->api->get_device_name(s->list[i]);
        size_t used = strlen(have);
        if (strcmp(this, name) == 0)
            return s->list[i];
        snprintf(have + used, room - used, "%s%s", used > 0 ? ", " : "", this);
    }
    return NULL;
}

/* NAME or NAME:PORT, separated by commas. */
static weft_status take_named(search *s, rail *out, uint32_t *n)
{
    char text[256], have[160], *rest = NULL;
    if (strlen(s->options->devices) >= sizeof text)
        return refuse(s, WEFT_USAGE, "[comm.verbs] devices is longer than 255 bytes");
    memcpy(text, s->options->devices, strlen(s->options->devices) + 1);
    for (char *one = strtok_r(text, ", ", &rest); one; one = strtok_r(NULL, ", ", &rest)) {
        char *colon = strchr(one, ':');
        int port = colon ? (int)strtol(colon + 1, NULL, 10) : s->options->port;
        bool exact = false;
        if (colon)
            *colon = '\0';
        if (*n == RAILS || (colon && (port < 1 || port > 255)))
            return refuse(s, WEFT_USAGE,
                          "[comm.verbs] devices = %.100s: up to %d of NAME or NAME:PORT",
                          s->options->devices, RAILS);
        struct ibv_device *d = find(s, one, have, sizeof have);
        if (!d)
            return refuse(s, WEFT_ABSENT,
                          "[comm.verbs] devices names %.64s, and this machine has no such RDMA "
                          "device; it has %s",
                          one, have[0] ? have : "none");
        out[*n] = (rail){.context = NULL};
        weft_status st = look_at(s, d, port, &out[*n], &exact);
        if (st != WEFT_OK)
            return st;
        (*n)++;
    }
    if (*n == 0)
        return refuse(s, WEFT_USAGE, "[comm.verbs] devices names none: auto, or a list");
    return WEFT_OK;
}

/* The contexts of the rails are open; the rest follows in link.c. */
weft_status verbs_rails(const weft_host *host, const verbs_api *api, const verbs_options *options,
                        const sockets_endpoint *bound, rail *out, uint32_t *n)
{
    search s = {.host = host, .api = api, .options = options, .bound = bound};
    *n = 0;
    s.list = api->get_device_list(&s.devices);
    if (!s.list || s.devices == 0) {
        int why = !s.list ? errno : 0;
        if (s.list)
            api->free_device_list(s.list);
        return sockets_fail(host, WEFT_ABSENT, "this machine has no RDMA device%s%s",
                            why != 0 ? ": " : "", why != 0 ? strerror(why) : "");
    }
    weft_status st =
        strcmp(options->devices, "auto") == 0 ? choose(&s, out, n) : take_named(&s, out, n);
    api->free_device_list(s.list);
    for (uint32_t i = 0; st != WEFT_OK && i < *n; i++)
        verbs_close_rail(api, &out[i]);
    return st == WEFT_OK ? st : host->fail(host->ctx, st, s.why);
}

/* Registration locks memory: may this process lock `bytes`? CAP_IPC_LOCK lifts the limit. */
weft_status verbs_can_lock(const weft_host *host, uint64_t bytes)
{
    struct rlimit limit;
    char line[128];
    uint64_t capabilities = 0;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= bytes)
        return WEFT_OK;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        (void)sscanf(line, "CapEff: %" SCNx64, &capabilities);
    if (f)
        fclose(f);
    if (capabilities >> 14 & 1) /* CAP_IPC_LOCK */
        return WEFT_OK;
    return sockets_fail(
        host, WEFT_ABSENT,
        "RDMA locks memory, and this process may lock %llu KiB only; raise the limit "
        "with `ulimit -l unlimited`, or in /etc/security/limits.conf",
        (unsigned long long)limit.rlim_cur / 1024);
}
