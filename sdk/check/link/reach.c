/* check/link/reach.c: which ranks a transport reaches, and the address that says how. */
#include "check/link/link.h"

#include <string.h>
#include <weft/device.h>

/* --- one machine --- */

static check_host h;

static uint64_t caps_of(const host_component *c, void *module, const weft_conf *conf)
{
    const weft_link_table *t = c->table;
    uint64_t caps = t->caps;
    uint32_t channels = t->channels;
    if (WEFT_HAS(t, features) && PLUGIN_GET(t, features, module, conf, &caps, &channels) != WEFT_OK)
        check_fail("features() of '%s' failed: %s", c->name, h.why);
    return caps;
}

/* Memory that is neither the host's nor reached by a card needs WEFT_LINK_CUDA. */
static void ask_other_memory(const host_component *c, void *module, const weft_conf *conf)
{
    const weft_link_table *t = c->table;
    const weft_link_group other = {
        .struct_size = sizeof other, .same_machine = 1, .bind_addr = "127.0.0.1"};
    int32_t score = 0;
    check_host_clear(&h);
    const weft_status st = PLUGIN_GET(t, probe, module, conf, &other, &score);
    if (st != WEFT_OK || (score && !(caps_of(c, module, conf) & WEFT_LINK_CUDA)))
        check_fail("probe() of '%s' for memory that is not the host's returned %s and score %d; "
                   "without WEFT_LINK_CUDA it is WEFT_OK and score 0",
                   c->name, check_status(st), score);
    if (!score && !h.why[0])
        check_fail("probe() of '%s' gives score 0 for memory that is not the host's and records no "
                   "reason by fail()",
                   c->name);
}

static void ask_apart(const host_component *c, void *module)
{
    const weft_link_table *t = c->table;
    const weft_conf *conf = check_conf(&h, c);
    const weft_link_group apart = {.struct_size = sizeof apart,
                                   .same_machine = 0,
                                   .device_caps = WEFT_DEV_HOST_MEMORY,
                                   .bind_addr = "127.0.0.1"};
    int32_t score = 0;
    ask_other_memory(c, module, conf);
    if (!(caps_of(c, module, conf) & WEFT_LINK_LOCAL)) {
        check_absent("'%s' reaches other machines: it has no WEFT_LINK_LOCAL", c->name);
        return;
    }
    check_host_clear(&h);
    const weft_status st = PLUGIN_GET(t, probe, module, conf, &apart, &score);
    if (st != WEFT_OK)
        check_fail("probe() of '%s' for ranks of several machines returned %s; it is WEFT_OK with "
                   "score 0: %s",
                   c->name, check_status(st), h.why);
    if (score)
        check_fail("'%s' has WEFT_LINK_LOCAL, and its probe() gives score %d for ranks of several "
                   "machines; such a group is score 0",
                   c->name, score);
    if (!h.why[0])
        check_fail("probe() of '%s' gives score 0 for ranks of several machines and records no "
                   "reason by fail()",
                   c->name);
}

void check_link_local(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    void *module = NULL;
    check_host_begin(&h, "the host");
    const weft_status st = check_open(m, &h, &module);
    if (st != WEFT_OK)
        check_fail("open() returned %s: %s", check_status(st), h.why);
    for (uint32_t i = 0; i < r->n; i++)
        if (!strcmp(r->components[i]->iface, "weft.link/1"))
            ask_apart(r->components[i], module);
    check_close(m, module);
}

/* --- damaged addresses --- */

#define TRIES 3u

/* address() with this room, which ends at a page without access. */
static void write_to_capacity(check_end *e, uint64_t capacity, bool fits)
{
    unsigned char *at = check_guard(NULL, capacity);
    uint64_t bytes = capacity;
    const weft_status st = CHECK_LINK(e, address, e->link, at, &bytes);
    if (fits)
        check_end_ok(e, st, "address");
    if (st == WEFT_OK && bytes > capacity)
        check_fail("address() of '%s' got room for %llu bytes, and says that it wrote %llu",
                   e->c->name, (unsigned long long)capacity, (unsigned long long)bytes);
    check_guard_free(at, capacity);
}

/* connect() with these bytes, which end at a page without access. A transport of one machine may
 * also look at them in ready(); another one would dial whatever the bytes say. */
static void try_address(check_end *e, const unsigned char *from, uint64_t bytes, const char *what)
{
    unsigned char *at = check_guard(from, bytes);
    const weft_conn_args args = {sizeof args, 0, e->peer, 0, at, bytes};
    weft_conn *c = NULL;
    check_host_clear(&e->host);
    weft_status st = CHECK_LINK(e, connect, e->link, &args, &c);
    if (st != WEFT_OK && !e->host.why[0])
        check_fail("connect() of '%s' refuses an address that is %s and records no sentence",
                   e->c->name, what);
    if (st == WEFT_OK && !c)
        check_fail("connect() of '%s' with an address that is %s returned WEFT_OK without a "
                   "connection",
                   e->c->name, what);
    for (uint32_t i = 0; st == WEFT_OK && e->t->caps & WEFT_LINK_LOCAL && i < TRIES; i++)
        (void)!CHECK_LINK(e, ready, c);
    if (st == WEFT_OK)
        PLUGIN_DO(e->t, disconnect, c);
    check_guard_free(at, bytes);
}

static void damage(check_end *e)
{
    const uint64_t n = e->address_bytes[e->peer];
    unsigned char bad[4096];
    write_to_capacity(e, e->address_bytes[e->rank], true);
    for (uint64_t capacity = 0; capacity < e->address_bytes[e->rank]; capacity += 1 + capacity / 4)
        write_to_capacity(e, capacity, false);
    for (uint64_t bytes = 0; bytes < n; bytes++)
        try_address(e, e->address[e->peer], bytes, "cut");
    if (n < sizeof bad)
        try_address(e, e->address[e->peer], n + 1, "too long");
    try_address(e, e->address[e->peer], sizeof bad, "too long");
    for (uint64_t bit = 0; bit < 8 * n; bit += 3) {
        memcpy(bad, e->address[e->peer], sizeof bad);
        bad[bit / 8] ^= (unsigned char)(1u << bit % 8);
        try_address(e, bad, n, "damaged");
    }
    check_host_clear(&e->host);
}

static void addresses(check_end *e)
{
    if (e->rank)
        damage(e);
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_address(check_run *r)
{
    const check_link_job job = {.ranks = 2, .seconds = 8, .others_only = true, .run = addresses};
    check_link_run(r, &job);
}
