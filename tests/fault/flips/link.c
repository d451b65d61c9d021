/* A transport that changes what it carries: tcp, but rank FLIP_RANK receives bit FLIP_BIT of byte
 * FLIP_AT inverted, of all bytes that it receives, counted from 0. Without FLIP_RANK it is tcp. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <weft/link.h>

#include "../../wrapped.h"

#define QUEUE 1024u /* receives of a connection under way; more than tcp takes */
#define CONNS 64u

/* What a connection has been told to receive. */
typedef struct wire {
    weft_conn *conn;
    uint64_t posted, done;
    struct {
        char *at;
        uint64_t bytes;
    } ring[QUEUE];
} wire;

static const weft_link_table *below;
static weft_link_table table;
static wire wires[CONNS];
static uint64_t seen; /* bytes received by this process */
static int flips;

static uint64_t number(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static weft_status create(void *module, const weft_link_args *args, weft_link **out)
{
    flips |= getenv("FLIP_RANK") && args->rank == number("FLIP_RANK");
    return below->create(module, args, out);
}

static wire *wire_of(const weft_conn *c)
{
    for (uint32_t i = 0; i < CONNS; i++)
        if (wires[i].conn == c)
            return &wires[i];
    abort();
}

static weft_status connect_to(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    weft_status st = below->connect(l, args, out);
    if (st == WEFT_OK)
        wire_of(NULL)->conn = *out;
    return st;
}

static weft_status receive(weft_conn *c, void *to, uint64_t bytes, weft_region *region,
                           uint32_t flags)
{
    weft_status st = below->recv(c, to, bytes, region, flags);
    wire *w = wire_of(c);
    if (st == WEFT_OK) {
        w->ring[w->posted % QUEUE].at = to;
        w->ring[w->posted++ % QUEUE].bytes = bytes;
    }
    return st;
}

static weft_status progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    weft_status st = below->progress(c, flags, sent, received);
    wire *w = wire_of(c);
    for (; st == WEFT_OK && w->done < *received; w->done++) {
        const uint64_t at = number("FLIP_AT"), n = w->ring[w->done % QUEUE].bytes;
        if (flips && seen <= at && at < seen + n)
            w->ring[w->done % QUEUE].at[at - seen] ^= (char)(1u << number("FLIP_BIT"));
        seen += n;
    }
    return st;
}

const weft_manifest *weft_plugin_entry(void)
{
    const weft_manifest *tcp =
        wrapped_load(FLIP_TCP, "weft.test.flip.link", "flip", &table, sizeof table);
    if (!tcp)
        return NULL;
    below = tcp->components[0]->table;
    table.create = create;
    table.connect = connect_to;
    table.recv = receive;
    table.progress = progress;
    return &wrapped_manifest;
}
