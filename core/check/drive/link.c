/* check/drive/link.c: two links of one module in one process, driven by turns. */
#include "base/clock.h"
#include "base/err.h"
#include "check/drive/drive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/device.h>
#include <weft/link.h>

#define MESSAGE 5000u
#define PATIENCE_MS 5000u
#define ALONE_MS 300u

typedef struct end {
    weft_link *link;
    weft_conn *conn;
    unsigned char address[4096];
    uint64_t bytes;
    unsigned char out[MESSAGE], in[MESSAGE];
} end;

typedef struct two {
    check_drive *d;
    const weft_link_table *t;
    void *module;
    const weft_conf *conf;
    end at[2];
    uint32_t n; /* ends */
    char job[33];
} two;

#define CALL(w, member, ...) ((w)->d->where = #member, PLUGIN_GET((w)->t, member, __VA_ARGS__))

static weft_status create(two *w, uint32_t rank, uint32_t ranks)
{
    end *e = &w->at[rank];
    const weft_link_args args = {.struct_size = sizeof args,
                                 .rank = rank,
                                 .ranks = ranks,
                                 .local_rank = rank,
                                 .local_ranks = ranks,
                                 .conf = w->conf,
                                 .bind_addr = "127.0.0.1",
                                 .job_id = w->job};
    weft_status st = CALL(w, create, w->module, &args, &e->link);
    e->bytes = sizeof e->address;
    return st == WEFT_OK ? CALL(w, address, e->link, e->address, &e->bytes) : st;
}

static weft_status create_all(two *w)
{
    weft_status st = create(w, 0, w->n);
    return st == WEFT_OK && w->n == 2 ? create(w, 1, 2) : st;
}

static weft_status connect_all(two *w)
{
    const uint64_t until = clock_ms() + (w->n == 1 ? ALONE_MS : PATIENCE_MS);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < w->n; i++) {
        const uint32_t peer = w->n - 1 - i;
        const weft_conn_args args = {sizeof args,      0, peer, 0, w->at[peer].address,
                                     w->at[peer].bytes};
        st = CALL(w, connect, w->at[i].link, &args, &w->at[i].conn);
    }
    for (bool up = false; st == WEFT_OK && !up;) {
        up = true;
        for (uint32_t i = 0; st == WEFT_OK && i < w->n; i++) {
            st = CALL(w, ready, w->at[i].conn);
            up = up && st == WEFT_OK;
            st = st == WEFT_BUSY ? WEFT_OK : st;
        }
        if (w->n == 1 && clock_ms() > until)
            return WEFT_ABSENT;
        if (clock_ms() > until)
            check_fail("ready() of '%s' is WEFT_BUSY after %u ms while both ends are polled",
                       w->d->of, PATIENCE_MS);
    }
    return st;
}

static weft_status exchange(two *w)
{
    const uint64_t until = clock_ms() + PATIENCE_MS;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < w->n; i++) {
        for (uint32_t k = 0; k < MESSAGE; k++)
            w->at[i].out[k] = (unsigned char)(k * 7 + i);
        st = CALL(w, recv, w->at[i].conn, w->at[i].in, MESSAGE, NULL, 0);
        if (st == WEFT_OK)
            st = CALL(w, send, w->at[i].conn, w->at[i].out, MESSAGE, NULL, 0);
    }
    for (bool done = false; st == WEFT_OK && !done;) {
        done = true;
        for (uint32_t i = 0; st == WEFT_OK && i < w->n; i++) {
            uint64_t sent = 0, received = 0;
            st = CALL(w, progress, w->at[i].conn, 0, &sent, &received);
            done = done && sent == 1 && received == 1;
        }
        if (clock_ms() > until)
            check_fail("progress() of '%s' has not completed one message each way after %u ms",
                       w->d->of, PATIENCE_MS);
    }
    for (uint32_t i = 0; st == WEFT_OK && i < w->n; i++)
        if (memcmp(w->at[i].in, w->at[w->n - 1 - i].out, MESSAGE) != 0)
            check_fail("'%s' delivered other bytes than were sent", w->d->of);
    return st;
}

static weft_status live(two *w)
{
    weft_status st = create_all(w);
    if (st == WEFT_OK)
        st = connect_all(w);
    if (st == WEFT_OK && !(w->t->caps & WEFT_LINK_REGISTER))
        st = exchange(w);
    const char *where = w->d->where;
    for (uint32_t i = 0; i < 2; i++)
        if (w->at[i].conn)
            PLUGIN_DO(w->t, disconnect, w->at[i].conn);
    for (uint32_t i = 0; i < 2; i++)
        if (w->at[i].link)
            PLUGIN_DO(w->t, destroy, w->at[i].link);
    w->d->where = where;
    return st;
}

weft_status check_drive_link(check_drive *d, const component *c)
{
    two *w = calloc(1, sizeof *w);
    int32_t score = 0;
    static uint32_t jobs; /* other checks run at the same time: an id is unlike any other's */
    if (!w)
        check_fail("no memory for the check");
    w->d = d;
    w->t = c->table;
    w->module = d->module;
    w->conf = check_conf(d->host, c);
    snprintf(w->job, sizeof w->job, "%08x%08x%016llx", (unsigned)getpid(), jobs++,
             (unsigned long long)clock_ns());
    const weft_link_group group = {.struct_size = sizeof group,
                                   .same_machine = 1,
                                   .device_caps = WEFT_DEV_HOST_MEMORY,
                                   .bind_addr = "127.0.0.1"};
    weft_status st = CALL(w, probe, w->module, w->conf, &group, &score);
    w->n = check_drive_absent(d, st, score) ? 1 : 2;
    if (w->n == 1 || st == WEFT_OK) /* absent here, or a transport of one rank: reaches itself */
        st = live(w);
    if (w->n == 1 && st != WEFT_OK && st != WEFT_NO_MEMORY) {
        check_host_clear(d->host);
        st = WEFT_OK;
    } else if (w->n == 1 && st == WEFT_OK) {
        d->absent[0] = 0;
    }
    free(w);
    return st;
}
