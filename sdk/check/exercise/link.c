/* check/exercise/link.c: two links of one module in one process, driven by turns. */
#include "base/err.h"
#include "base/time/pressure.h"
#include "check/exercise/exercise.h"

#include <stdlib.h>
#include <string.h>
#include <weft/device.h>
#include <weft/link.h>

#define MESSAGE 5000u
#define TIMEOUT_MS 5000u
#define ALONE_MS 300u

typedef struct end {
    weft_link *link;
    weft_conn *conn;
    unsigned char address[4096];
    uint64_t bytes;
    unsigned char out[MESSAGE], in[MESSAGE];
} end;

typedef struct two {
    check_exercise *d;
    const weft_link_table *t;
    void *module;
    const weft_conf *conf;
    end at[2];
    uint32_t n;    /* ends */
    uint32_t salt; /* of the bytes that are sent */
    char job[33];
} two;

#define CALL(w, member, ...) ((w)->d->where = #member, PLUGIN_GET((w)->t, member, __VA_ARGS__))
#define LENT(w, ...) check_lend_end(&(w)->d->lend, CALL(w, __VA_ARGS__))
#define STEP(w, member, ...) CHECK_STEP(#member, LENT(w, member, __VA_ARGS__))

static weft_status create(two *w, uint32_t rank, uint32_t ranks)
{
    end *e = &w->at[rank];
    check_lend *l = &w->d->lend;
    const weft_link_args args = {.struct_size = sizeof args,
                                 .rank = rank,
                                 .ranks = ranks,
                                 .local_rank = rank,
                                 .local_ranks = ranks,
                                 .conf = w->conf,
                                 .bind_addr = check_lend_text(l, "127.0.0.1"),
                                 .job_id = check_lend_text(l, w->job)};
    weft_status st = LENT(w, create, w->module, CHECK_LEND(l, weft_link_args, &args), &e->link);
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
    const uint64_t until = pressure_ms() + (w->n == 1 ? ALONE_MS : TIMEOUT_MS);
    check_lend *l = &w->d->lend;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < w->n; i++) {
        const uint32_t peer = w->n - 1 - i;
        const end *to = &w->at[peer];
        const weft_conn_args args = {
            sizeof args, 0, peer, 0, check_lend_bytes(l, to->address, to->bytes), to->bytes};
        st = LENT(w, connect, w->at[i].link, CHECK_LEND(l, weft_conn_args, &args), &w->at[i].conn);
    }
    for (bool up = false; st == WEFT_OK && !up;) {
        up = true;
        for (uint32_t i = 0; st == WEFT_OK && i < w->n; i++) {
            st = CALL(w, ready, w->at[i].conn);
            up = up && st == WEFT_OK;
            st = st == WEFT_BUSY ? WEFT_OK : st;
        }
        if (w->n == 1 && pressure_ms() > until)
            return WEFT_ABSENT;
        if (pressure_ms() > until)
            check_fail("ready() of '%s' is WEFT_BUSY after %u ms while both ends are polled",
                       w->d->of, TIMEOUT_MS);
    }
    return st;
}

static weft_status exchange(two *w)
{
    const uint64_t until = pressure_ms() + TIMEOUT_MS;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < w->n; i++) {
        for (uint32_t k = 0; k < MESSAGE; k++)
            w->at[i].out[k] = (unsigned char)(k * 7 + i + w->salt);
        st = STEP(w, recv, w->at[i].conn, w->at[i].in, MESSAGE, NULL, CHECK_FLAGS(w->d, recv));
        if (st == WEFT_OK)
            st = STEP(w, send, w->at[i].conn, w->at[i].out, MESSAGE, NULL, CHECK_FLAGS(w->d, send));
    }
    for (bool done = false; st == WEFT_OK && !done;) {
        done = true;
        for (uint32_t i = 0; st == WEFT_OK && i < w->n; i++) {
            uint64_t sent = 0, received = 0;
            st = STEP(w, progress, w->at[i].conn, CHECK_FLAGS(w->d, progress), &sent, &received);
            if (st == WEFT_OK && !done)
                st = STEP(w, wait, w->at[i].link, 0, 0, CHECK_FLAGS(w->d, wait));
            done = done && sent == 1 && received == 1;
        }
        if (pressure_ms() > until)
            check_fail("progress() of '%s' has not completed one message each way after %u ms",
                       w->d->of, TIMEOUT_MS);
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

/* As the host asks, before probe(). */
static weft_status ask_features(two *w)
{
    uint64_t caps = w->t->caps;
    uint32_t channels = w->t->channels;
    if (!WEFT_HAS(w->t, features) || check_exercise_is_without(w->d, "features"))
        return WEFT_OK;
    const weft_status st = CALL(w, features, w->module, w->conf, &caps, &channels);
    if (st == WEFT_OK && caps & ~w->t->caps)
        check_fail("features() of '%s' adds capabilities (0x%llx) to those of its table; it may "
                   "take some away",
                   w->d->of, (unsigned long long)(caps & ~w->t->caps));
    return st;
}

static weft_status ask_probe(two *w, int32_t *score)
{
    check_lend *l = &w->d->lend;
    const weft_link_group group = {.struct_size = sizeof group,
                                   .same_machine = 1,
                                   .device_caps = WEFT_DEV_HOST_MEMORY,
                                   .bind_addr = check_lend_text(l, "127.0.0.1")};
    return LENT(w, probe, w->module, w->conf, CHECK_LEND(l, weft_link_group, &group), score);
}

weft_status check_exercise_link(check_exercise *d, const host_component *c)
{
    if (d->paper)
        return WEFT_OK;
    two *w = calloc(1, sizeof *w);
    int32_t score = 0;
    static _Atomic uint32_t lives;
    if (!w)
        check_fail("no memory for the check");
    w->d = d;
    w->t = c->table;
    w->module = d->module;
    w->conf = check_conf(d->host, c);
    w->salt = atomic_fetch_add(&lives, 1);
    check_job_id(w->job);
    weft_status st = ask_features(w);
    if (st == WEFT_OK)
        st = ask_probe(w, &score);
    w->n = check_exercise_absent(d, st, score) ? 1 : 2;
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
