/* job/beats/beats.c: see beats.h. */
#include "job/beats/beats.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "job/wire/address.h"

#define EVENTS 64
#define LEAST_MS 5 /* shortest sleep, where a socket takes nothing now */

static bool is_child_of_rank0(const job_beats *b)
{
    return job_tree_parent(&b->tree, b->j->who.rank) == 0;
}

/* --- what ranks below have done --- */

static void prepare_known(job_beats *b)
{
    b->known = mem_alloc((uint64_t)b->tree.ranks * sizeof *b->known);
    b->fresh = mem_alloc((uint64_t)b->tree.ranks * sizeof *b->fresh);
    b->news = mem_alloc((uint64_t)b->tree.ranks * sizeof *b->news);
}

void job_beats_mark(const job_beats *b, uint8_t out[BEAT_UP_BYTES])
{
    const job_beat_mark m = {atomic_load_explicit(&b->j->step, memory_order_relaxed),
                             atomic_load_explicit(&b->j->place, memory_order_relaxed)};
    job_beat_pack_mark(&m, out);
}

static void send_up(job_beats *b, job_wire *w)
{
    uint8_t body[BEAT_MAX], *to = body + BEAT_UP_BYTES;
    uint32_t n = b->news_n < BEAT_ENTRIES_MAX ? b->news_n : BEAT_ENTRIES_MAX;
    job_beats_mark(b, body);
    for (uint32_t i = 0; i < n; i++, to += BEAT_ENTRY_BYTES) {
        const uint32_t rank = b->news[--b->news_n];
        b->fresh[rank] = false;
        job_beat_pack_entry(rank, &b->known[rank], to);
    }
    job_wire_send(w, WIRE_BEAT, 0, 0, body, (uint32_t)(to - body));
}

/* --- rank 0 --- */

void job_beats_root_seen(job_beats *b)
{
    b->last_seen = b->j->clock.sum;
}

static void send_store(job_beats *b, uint32_t arg)
{
    uint8_t body[BEAT_UP_BYTES];
    job_beats_mark(b, body);
    job_wire_send(b->store, WIRE_BEAT, arg, 0, body, sizeof body);
    b->asked = awake_ms();
}

bool job_beats_take(job_beats *b, const job_wire_frame *f)
{
    job_beat_root root;
    if (!job_beat_unpack_down(f, &root))
        return false;
    if (root.number > b->root.number)
        b->root = root;
    if ((f->arg & BEAT_ASKS) && !is_child_of_rank0(b) && !job_wire_unsent(b->store))
        send_store(b, 0);
    return true;
}

static uint32_t interval(const job_beats *b)
{
    const bool later = !is_child_of_rank0(b) && !b->parent.was_up;
    return job_tree_interval(later, b->j->beat_ms, b->j->silence_ms);
}

/* The beats to rank 0 over the connection of the store. True: it is frozen. */
static bool check_root(job_beats *b, uint64_t now, uint64_t *silent)
{
    const bool child = is_child_of_rank0(b), attached = child || b->parent.phase == BEATS_UP;
    *silent = b->j->clock.sum - b->last_seen;
    const job_root_event e = job_tree_check_root(attached, *silent, b->j->silence_ms);
    const bool due = now - b->asked >= interval(b) && !job_wire_unsent(b->store);
    if (due && child) {
        send_up(b, b->store);
        b->asked = now;
    } else if (due && e == JOB_ROOT_ASK) {
        send_store(b, BEAT_ASKS);
    }
    return e == JOB_ROOT_FROZEN;
}

/* --- the turn --- */

static void handle_events(job_beats *b)
{
    struct epoll_event events[EVENTS];
    const int n = b->epoll_fd >= 0 ? epoll_wait(b->epoll_fd, events, EVENTS, 0) : 0;
    for (int i = 0; i < n; i++)
        if (events[i].data.ptr == &b->parent)
            b->parent.ready = true;
        else
            job_children_event(b, events[i].data.ptr);
}

bool job_beats_turn(job_beats *b, uint64_t *silent)
{
    const uint64_t now = awake_ms();
    handle_events(b);
    job_parent_turn(b);
    job_children_turn(b);
    if (b->parent.phase == BEATS_UP && now - b->parent.sent >= b->j->beat_ms &&
        !job_wire_unsent(&b->parent.w)) {
        send_up(b, &b->parent.w);
        b->parent.sent = now;
        job_parent_turn(b);
    }
    return check_root(b, now, silent);
}

static uint64_t sooner(uint64_t a, uint64_t due, uint64_t now)
{
    const uint64_t left = due > now ? due - now : 0;
    return left < a ? left : a;
}

/* No fixed ticks: thousands of ranks that share few cores would have no time for anything else. */
int job_beats_sleep(const job_beats *b)
{
    const job_beats_parent *p = &b->parent;
    const job_door *d = &b->children.door;
    const uint64_t now = awake_ms(), silent = b->j->clock.sum - b->last_seen;
    uint64_t ms =
        sooner(interval(b), (p->phase == BEATS_UP ? p->sent : b->asked) + interval(b), now);
    ms = sooner(ms, b->j->silence_ms, silent); /* until rank 0 is frozen */
    if (p->phase != BEATS_OFF && p->phase != BEATS_UP)
        ms = sooner(ms, p->until, now);
    if (d->sockets && b->children.close_at && !d->listening && ms > STRANGER_AGE)
        ms = STRANGER_AGE;
    return ms > LEAST_MS ? (int)ms : LEAST_MS;
}

/* --- creation --- */

weft_status job_beats_open(job *j, job_wire *rank0, job_beats **out)
{
    job_beats *b = *out = mem_alloc(sizeof *b);
    b->j = j;
    b->tree = (job_tree){j->who.ranks, job_tree_fanout};
    b->store = rank0;
    b->epoll_fd = -1;
    b->parent.w.fd = -1;
    b->children.n = job_tree_children(&b->tree, j->who.rank, &b->children.first);
    const weft_status st = job_key_random((uint8_t *)&b->process, sizeof b->process);
    if (st != WEFT_OK || (is_child_of_rank0(b) && !b->children.n))
        return st;
    b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (b->epoll_fd < 0)
        return err_fail_errno(WEFT_IO, "no descriptor to watch heartbeats with");
    if (b->children.n) {
        prepare_known(b);
        job_children_prepare(b);
    }
    return WEFT_OK;
}

void job_beats_close(job_beats *b)
{
    if (!b)
        return;
    job_parent_close(b);
    job_children_close(b);
    if (b->epoll_fd >= 0)
        close(b->epoll_fd);
    free(b->known);
    free(b->fresh);
    free(b->news);
    free(b);
}

void job_beats_listen(job_beats *b, job_place *out)
{
    char address[PLACE_BYTES];
    *out = (job_place){0};
    if (!b->children.n)
        return;
    if (*b->j->who.address && strlen(b->j->who.address) < sizeof address)
        memcpy(address, b->j->who.address, strlen(b->j->who.address) + 1);
    else if (!job_address_of_socket(b->store->fd, address, sizeof address))
        return;
    job_children_listen(b, address, out);
}

void job_beats_begin(job_beats *b, const job_place *parent)
{
    b->last_seen = b->j->clock.sum;
    if (b->children.n)
        job_children_begin(b);
    if (!is_child_of_rank0(b))
        job_parent_begin(b, parent);
}
