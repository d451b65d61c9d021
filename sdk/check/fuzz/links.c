/* check/fuzz/links.c: two links of one module in this process, or one that is its own peer, with
 * several channels that send, receive, wait and connect again in a random order.
 *
 * Sizes and bytes of a message follow from the seed, the channel, the direction and its number, so
 * both ends agree without a word. Memory that was posted is kept until it is counted. */
#include "base/time/pressure.h"
#include "check/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <weft/device.h>
#include <weft/link.h>

#define CALLS 400u
#define CHANNELS 3u
#define POSTED 16u /* fewer than a queue holds */
#define LIMIT 20000u
#define TIMEOUT_MS 8000u

typedef struct line { /* one direction at one end: sends or receives */
    uint64_t posted, done;
    unsigned char *at[POSTED];
    uint64_t bytes[POSTED];
} line;

typedef struct end {
    weft_conn *conn;
    line out, in;
} end;

typedef struct channel {
    end at[2];
    uint32_t times; /* that it was connected */
} channel;

typedef struct net {
    check_sequence *s;
    const weft_link_table *t;
    weft_link *link[2];
    unsigned char address[2][4096];
    uint64_t bytes[2];
    uint32_t n; /* links: 1 is its own peer */
    uint32_t nchannels;
    channel channels[CHANNELS];
    uint64_t until;
} net;

#define CALL(w, member, ...) ((w)->s->calls++, PLUGIN_GET((w)->t, member, __VA_ARGS__))

static uint64_t mark_of(const net *w, uint32_t ch, uint32_t from, uint64_t k)
{
    uint64_t state = w->s->seed + ch * 1000003ull + from * 7919ull + k * 31ull +
                     w->channels[ch].times * 104729ull;
    return check_random(&state);
}

static uint64_t size_of(uint64_t mark)
{
    static const uint64_t sizes[] = {0, 0, 1, 5, 64, 1000, 4096, LIMIT};
    const uint64_t size = sizes[mark % (sizeof sizes / sizeof *sizes)];
    return size == LIMIT ? mark / 8 % LIMIT : size;
}

static unsigned char byte_of(uint64_t mark, uint64_t i)
{
    return (unsigned char)(mark + i * 167 + (i >> 8));
}

/* --- up and down --- */

static void ready_both(net *w, channel *c)
{
    for (bool up = false; !up;) {
        up = true;
        for (uint32_t e = 0; e < w->n; e++) {
            const weft_status st = CALL(w, ready, c->at[e].conn);
            if (st != WEFT_BUSY)
                check_sequence_ok(w->s, st, "ready");
            up = up && st == WEFT_OK;
        }
        if (pressure_ms() > w->until)
            check_sequence_fail(w->s, "ready() of '%s' is WEFT_BUSY at the deadline",
                                w->s->c->name);
    }
}

static void connect_channel(net *w, uint32_t ch)
{
    channel *c = &w->channels[ch];
    c->times++;
    for (uint32_t e = 0; e < w->n; e++) {
        const uint32_t peer = w->n - 1 - e;
        const weft_conn_args args = {sizeof args, 0, peer, ch, w->address[peer], w->bytes[peer]};
        c->at[e] = (end){0};
        check_sequence_ok(w->s, CALL(w, connect, w->link[e], &args, &c->at[e].conn), "connect");
    }
    ready_both(w, c);
}

static void disconnect_channel(net *w, channel *c)
{
    for (uint32_t e = 0; e < w->n; e++) {
        PLUGIN_DO(w->t, disconnect, c->at[e].conn);
        c->at[e].conn = NULL;
    }
    w->s->calls += w->n;
}

/* --- messages --- */

/* The end that the messages of `e` go to. */
static uint32_t other(const net *w, uint32_t e)
{
    return w->n - 1 - e;
}

static void post(net *w, uint32_t ch, uint32_t e, bool out)
{
    end *at = &w->channels[ch].at[e];
    line *q = out ? &at->out : &at->in;
    const uint64_t mark = mark_of(w, ch, out ? e : other(w, e), q->posted);
    const uint64_t bytes = size_of(mark);
    const uint32_t slot = (uint32_t)(q->posted % POSTED);
    if (q->posted - q->done == POSTED)
        return;
    unsigned char *p = malloc(bytes + 1);
    if (!p)
        check_fail("no memory for the check");
    for (uint64_t i = 0; i < bytes; i++)
        p[i] = out ? byte_of(mark, i) : 0xee;
    q->at[slot] = p;
    q->bytes[slot] = bytes;
    const weft_status st = out ? CALL(w, send, at->conn, p, bytes, NULL, 0)
                               : CALL(w, recv, at->conn, p, bytes, NULL, 0);
    check_sequence_ok(w->s, st, out ? "send" : "recv");
    q->posted++;
}

static void count(net *w, uint32_t ch, uint32_t e, bool out, uint64_t done)
{
    line *q = out ? &w->channels[ch].at[e].out : &w->channels[ch].at[e].in;
    if (done < q->done || done > q->posted)
        check_sequence_fail(w->s,
                            "progress() of '%s' counts %llu %s; before it were %llu, and %llu "
                            "are posted",
                            w->s->c->name, (unsigned long long)done, out ? "sends" : "receives",
                            (unsigned long long)q->done, (unsigned long long)q->posted);
    for (; q->done < done; q->done++) {
        const uint32_t slot = (uint32_t)(q->done % POSTED);
        const uint64_t mark = mark_of(w, ch, out ? e : other(w, e), q->done);
        for (uint64_t i = 0; i < q->bytes[slot]; i++)
            if (q->at[slot][i] != byte_of(mark, i))
                check_sequence_fail(w->s,
                                    "%s %llu of channel %u of '%s' (%llu bytes) has another "
                                    "byte %llu than was sent",
                                    out ? "the memory of send" : "receive",
                                    (unsigned long long)q->done + 1, ch, w->s->c->name,
                                    (unsigned long long)q->bytes[slot], (unsigned long long)i);
        free(q->at[slot]);
    }
}

static void progress(net *w, uint32_t ch, uint32_t e)
{
    uint64_t sent = 0, received = 0;
    check_sequence_ok(w->s, CALL(w, progress, w->channels[ch].at[e].conn, 0, &sent, &received),
                      "progress");
    count(w, ch, e, true, sent);
    count(w, ch, e, false, received);
}

/* Post what the peers' messages lack, and wait until all is done. */
static void settle(net *w, uint32_t ch)
{
    channel *c = &w->channels[ch];
    for (bool done = false; !done;) {
        done = true;
        for (uint32_t e = 0; e < w->n; e++) {
            end *from = &c->at[e], *to = &c->at[other(w, e)];
            if (to->in.posted < from->out.posted)
                post(w, ch, other(w, e), false);
            if (from->out.posted < to->in.posted)
                post(w, ch, e, true);
            progress(w, ch, e);
            done = done && from->out.posted == to->in.posted &&
                   from->out.done == from->out.posted && from->in.done == from->in.posted;
        }
        if (pressure_ms() > w->until)
            check_sequence_fail(w->s,
                                "messages of channel %u of '%s' are not complete at the "
                                "deadline",
                                ch, w->s->c->name);
    }
}

static void one_call(net *w)
{
    const uint32_t ch = check_sequence_below(w->s, w->nchannels);
    const uint32_t e = check_sequence_below(w->s, w->n), what = check_sequence_below(w->s, 100);
    if (what < 30) {
        post(w, ch, e, true);
    } else if (what < 60) {
        post(w, ch, e, false);
    } else if (what < 90) {
        progress(w, ch, e);
    } else if (what < 94) {
        PLUGIN_DO(w->t, wake, w->link[e]);
    } else if (what < 98) {
        check_sequence_ok(w->s, CALL(w, wait, w->link[e], 0, 100, 0), "wait");
    } else {
        settle(w, ch);
        disconnect_channel(w, &w->channels[ch]);
        connect_channel(w, ch);
    }
}

/* --- the sequence --- */

static bool probe(const net *w)
{
    const weft_link_group group = {.struct_size = sizeof group,
                                   .same_machine = 1,
                                   .device_caps = WEFT_DEV_HOST_MEMORY,
                                   .bind_addr = "127.0.0.1"};
    int32_t score = 0;
    check_sequence_ok(w->s, CALL(w, probe, w->s->module, w->s->conf, &group, &score), "probe");
    return score > 0 && !(w->t->caps & WEFT_LINK_REGISTER);
}

static void create(net *w, uint32_t rank, const char *job)
{
    const weft_link_args args = {.struct_size = sizeof args,
                                 .rank = rank,
                                 .ranks = w->n,
                                 .local_rank = rank,
                                 .local_ranks = w->n,
                                 .conf = w->s->conf,
                                 .bind_addr = "127.0.0.1",
                                 .job_id = job};
    check_sequence_ok(w->s, CALL(w, create, w->s->module, &args, &w->link[rank]), "create");
    w->bytes[rank] = sizeof w->address[rank];
    check_sequence_ok(w->s, CALL(w, address, w->link[rank], w->address[rank], &w->bytes[rank]),
                      "address");
}

bool check_sequence_links(check_sequence *s)
{
    static net w; /* one at a time */
    char job[33];
    w = (net){.s = s, .t = s->c->table, .n = 2, .until = pressure_ms() + TIMEOUT_MS};
    w.nchannels = w.t->channels && w.t->channels < CHANNELS ? w.t->channels : CHANNELS;
    if (!probe(&w))
        return false;
    check_job_id(job);
    for (uint32_t i = 0; i < w.n; i++)
        create(&w, i, job);
    for (uint32_t ch = 0; ch < w.nchannels; ch++)
        connect_channel(&w, ch);
    for (uint32_t i = 0; i < CALLS; i++)
        one_call(&w);
    for (uint32_t ch = 0; ch < w.nchannels; ch++)
        settle(&w, ch);
    for (uint32_t ch = 0; ch < w.nchannels; ch++)
        disconnect_channel(&w, &w.channels[ch]);
    for (uint32_t i = 0; i < w.n; i++)
        PLUGIN_DO(w.t, destroy, w.link[i]);
    return true;
}
