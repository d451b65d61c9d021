/* pairs.c: messages of MPI as a transport.
 *
 * A connection is a pair of ranks and a tag. The tag is made of the number of the receiver's link,
 * which is its address, and the channel; MPI keeps the order of messages with equal tags. Messages
 * are cut into pieces, since MPI counts in int. The first message of a connection is empty: when it
 * has gone and arrived, both ends are up. A rank whose link was aborted says so with an empty
 * message in a communicator of its own, for which every connection has a receive. MPI trusts the
 * ranks that its launcher has started, and so does this link. */
#include "lane.h"
#include "parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUEUE = 256, CHANNELS = 4096, LINKS = 8 }; /* the largest tag is 32767: all MPIs have it */
enum { SCORE = 5, SCORE_FOREIGN = 60, DISCONNECT_SECONDS = 2, NAP_US = 20, CALLS = 64 };
#define PIECE ((uint64_t)1 << 30)

struct weft_conn {
    weft_link *link;
    int peer, tag_out, tag_in;
    mpi_lane out, in, farewell;
    uint64_t sent, received; /* messages, the greeting included */
    uint32_t calls;          /* one in CALLS asks MPI for the peer's farewell */
    bool greeted, told;      /* told: the peer, that this link was aborted */
    atomic_int released;     /* MPI has let go of all memory */
    mpi_job job, leave;
};

struct weft_link {
    const weft_host *host;
    uint32_t number; /* among the links of this process */
    uint32_t rank, ranks;
    atomic_int aborted, woken;
    uint64_t idle_ns; /* since when wait() has been called with nothing moving; 0: not so */
};

static atomic_uint links;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- the link --- */

static weft_status probe(void *module, const weft_conf *conf, const weft_link_group *group,
                         int32_t *score)
{
    const mpi_module *m = module;
    *score = 0;
    const weft_status st = weft_check_args(m->host, group, sizeof *group, 0);
    if (st == WEFT_OK && mpi_usable(m->host, conf, group->device_caps) == WEFT_OK)
        *score = !group->same_machine && mpi_network("") ? SCORE_FOREIGN : SCORE;
    return st;
}

static weft_status create(void *module, const weft_link_args *args, weft_link **out)
{
    const mpi_module *m = module;
    weft_status st = weft_check_args(m->host, args, sizeof *args, 0);
    if (st == WEFT_OK)
        st = mpi_world_begin(m->host, args->conf);
    weft_link *l = weft_new(m->host, sizeof *l, &st);
    if (!l)
        return st;
    l->host = m->host;
    l->rank = args->rank;
    l->ranks = args->ranks;
    l->number = atomic_fetch_add(&links, 1) % LINKS;
    *out = l;
    return WEFT_OK;
}

static void destroy(weft_link *l)
{
    if (l)
        l->host->free(l->host->ctx, l);
}

static weft_status address(weft_link *l, void *out, uint64_t *bytes)
{
    memcpy(out, &l->number, sizeof l->number);
    *bytes = sizeof l->number;
    return WEFT_OK;
}

static void wake(weft_link *l)
{
    atomic_store(&l->woken, 1);
}

static void abort_link(weft_link *l)
{
    atomic_store(&l->aborted, 1);
    mpi_give_up();
    wake(l);
}

/* --- messages --- */

static void post_farewell(weft_conn *c, bool out)
{
    mpi_piece *p = mpi_lane_next(&c->farewell, 0);
    p->kind = out ? WEFT_SEND : WEFT_RECV;
    p->dtype = WEFT_U8;
    p->root = c->peer;
    p->tag = out ? c->tag_out : c->tag_in;
    mpi_lane_post(&c->farewell, 1);
}

static void tell_peer(weft_conn *c)
{
    if (c->greeted && !c->told)
        post_farewell(c, true);
    c->told = true;
}

static weft_status check_up(weft_conn *c)
{
    if (atomic_load(&c->link->aborted)) {
        tell_peer(c);
        return mpi_fail(c->link->host, WEFT_PEER, "the connection with rank %d was aborted",
                        c->peer);
    }
    if (c->calls++ % CALLS == 0)
        mpi_lane_advance(&c->farewell);
    return atomic_load(&c->farewell.finished)
               ? mpi_fail(c->link->host, WEFT_PEER, "rank %d has aborted the connection", c->peer)
               : WEFT_OK;
}

static weft_status post(weft_conn *c, bool out, char *at, uint64_t bytes, uint32_t flags)
{
    mpi_lane *lane = out ? &c->out : &c->in;
    const uint64_t pieces = bytes ? (bytes + PIECE - 1) / PIECE : 1;
    if (flags)
        return weft_refuse_unknown(c->link->host);
    const weft_status st = check_up(c);
    if (st != WEFT_OK)
        return st;
    if (pieces > QUEUE)
        return mpi_fail(c->link->host, WEFT_UNSUPPORTED,
                        "a message of %llu bytes is longer than the %d GiB that mpi_pairs cuts",
                        (unsigned long long)bytes, QUEUE);
    for (uint32_t i = 0; i < pieces; i++) {
        mpi_piece *p = mpi_lane_next(lane, i);
        if (!p)
            return WEFT_BUSY;
        const uint64_t left = bytes - i * PIECE;
        p->kind = out ? WEFT_SEND : WEFT_RECV;
        p->dtype = WEFT_U8;
        p->count = (int)(left < PIECE ? left : PIECE);
        p->root = c->peer;
        p->tag = out ? c->tag_out : c->tag_in;
        p->in = at + i * PIECE;
        p->out = at + i * PIECE;
        p->mark = i + 1 == pieces;
    }
    c->link->idle_ns = 0;
    mpi_lane_post(lane, (uint32_t)pieces);
    return WEFT_OK;
}

static weft_status failed(const weft_conn *c, const mpi_lane *lane)
{
    const int error = atomic_load(&lane->error);
    const mpi_piece *p = &lane->ring[atomic_load(&lane->finished) % lane->room];
    if (error == MPI_SUCCESS)
        return WEFT_OK;
    if (lane->got >= 0)
        return mpi_fail(c->link->host, WEFT_PEER, "rank %d has sent %d bytes where %d are expected",
                        c->peer, lane->got, p->count);
    char what[120];
    snprintf(what, sizeof what, "MPI could not %s %d bytes %s rank %d",
             p->kind == WEFT_SEND ? "send" : "receive", p->count,
             p->kind == WEFT_SEND ? "to" : "from", c->peer);
    return mpi_says(c->link->host, WEFT_PEER, what, error);
}

/* Count the messages that are over since the last time. */
static weft_status settle(weft_conn *c, mpi_lane *lane, uint64_t *messages)
{
    mpi_lane_advance(lane);
    const weft_status st = failed(c, lane);
    const uint64_t finished = atomic_load(&lane->finished);
    if (lane->counted < finished)
        c->link->idle_ns = 0;
    for (; lane->counted < finished; lane->counted++)
        *messages += lane->ring[lane->counted % lane->room].mark;
    return st;
}

static weft_status advance(weft_conn *c)
{
    weft_status st = check_up(c);
    if (st == WEFT_OK)
        st = settle(c, &c->out, &c->sent);
    return st != WEFT_OK ? st : settle(c, &c->in, &c->received);
}

static weft_status post_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *none,
                             uint32_t flags)
{
    (void)none;
    return post(c, true, (char *)(uintptr_t)from, bytes, flags);
}

static weft_status post_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *none,
                             uint32_t flags)
{
    (void)none;
    return post(c, false, to, bytes, flags);
}

static weft_status progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    if (flags)
        return weft_refuse_unknown(c->link->host);
    const weft_status st = advance(c);
    if (st == WEFT_OK) {
        *sent = c->sent - 1;
        *received = c->received - 1;
    }
    return st;
}

/* MPI has nothing to sleep on. For spin_us it returns at once, so that the caller polls; then it
 * naps. */
static weft_status wait_for(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(l->host);
    if (atomic_load(&l->aborted))
        return mpi_fail(l->host, WEFT_PEER, "the link was aborted");
    const uint64_t now = now_ns();
    l->idle_ns = l->idle_ns ? l->idle_ns : now;
    if (atomic_exchange(&l->woken, 0) || now - l->idle_ns < (uint64_t)spin_us * 1000)
        return WEFT_OK;
    const uint32_t us = timeout_us < NAP_US ? timeout_us : NAP_US;
    nanosleep(&(struct timespec){0, (long)us * 1000}, NULL);
    return WEFT_OK;
}

/* --- connections --- */

static void join_on_thread(void *arg)
{
    weft_conn *c = arg;
    mpi_add_poller(&c->out.poller);
    mpi_add_poller(&c->in.poller);
    mpi_add_poller(&c->farewell.poller);
}

static void leave_on_thread(void *arg)
{
    weft_conn *c = arg;
    mpi_remove_poller(&c->out.poller);
    mpi_remove_poller(&c->in.poller);
    mpi_remove_poller(&c->farewell.poller);
    mpi_lane_poll(&c->farewell); /* begin what was posted last */
    const bool out = mpi_lane_cancel(&c->out), in = mpi_lane_cancel(&c->in);
    const bool farewell = mpi_lane_cancel(&c->farewell);
    atomic_store(&c->released, out && in && farewell);
}

static void free_conn(weft_conn *c)
{
    mpi_lane_free(&c->out);
    mpi_lane_free(&c->in);
    mpi_lane_free(&c->farewell);
    free(c);
}

/* What MPI still uses stays allocated: then a rank has failed, and the process ends soon. */
static void disconnect(weft_conn *c)
{
    if (!c)
        return;
    if (!c->greeted) {
        free_conn(c);
        return;
    }
    if (atomic_load(&c->link->aborted))
        tell_peer(c);
    c->leave = (mpi_job){.run = leave_on_thread, .arg = c};
    if (mpi_ask_and_wait(&c->leave, DISCONNECT_SECONDS) && atomic_load(&c->released))
        free_conn(c);
    else
        mpi_give_up();
}

static weft_status connect_to(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    weft_status st = weft_check_args(l->host, args, sizeof *args, 0);
    uint32_t theirs = 0;
    if (st == WEFT_OK && (args->bytes != sizeof theirs || args->channel >= CHANNELS))
        st = mpi_fail(l->host, WEFT_DATA,
                      "the address of rank %u has %llu bytes and the channel is %u: mpi_pairs has "
                      "addresses of 4 bytes and %d channels",
                      args->peer, (unsigned long long)args->bytes, args->channel, CHANNELS);
    weft_conn *c = mpi_new(l->host, sizeof *c, &st);
    if (!c)
        return st;
    memcpy(&theirs, args->address, sizeof theirs);
    c->link = l;
    c->peer = (int)args->peer;
    c->tag_out = (int)(theirs % LINKS * CHANNELS + args->channel);
    c->tag_in = (int)(l->number * CHANNELS + args->channel);
    st = mpi_lane_make(&c->out, l->host, QUEUE);
    if (st == WEFT_OK)
        st = mpi_lane_make(&c->in, l->host, QUEUE);
    if (st == WEFT_OK)
        st = mpi_lane_make(&c->farewell, l->host, 2);
    if (st == WEFT_OK)
        *out = c;
    else
        free_conn(c);
    return st;
}

static weft_status greet(weft_conn *c)
{
    weft_status st = mpi_world_ready(c->link->host, c->link->rank, c->link->ranks);
    if (st != WEFT_OK)
        return st;
    c->out.comm = c->in.comm = mpi_everyone();
    c->farewell.comm = mpi_farewells();
    c->greeted = true;
    if (mpi_granted() < MPI_THREAD_SERIALIZED) {
        c->job = (mpi_job){.run = join_on_thread, .arg = c};
        mpi_ask(&c->job);
    }
    post_farewell(c, false);
    st = post(c, false, NULL, 0, 0);
    return st != WEFT_OK ? st : post(c, true, NULL, 0, 0);
}

static weft_status ready(weft_conn *c)
{
    weft_status st = c->greeted ? WEFT_OK : greet(c);
    if (st == WEFT_OK)
        st = advance(c);
    return st != WEFT_OK ? st : c->sent && c->received ? WEFT_OK : WEFT_BUSY;
}

const weft_link_table mpi_pairs = {
    .struct_size = sizeof mpi_pairs,
    .caps = WEFT_LINK_HOST,
    .probe = probe,
    .create = create,
    .destroy = destroy,
    .address = address,
    .connect = connect_to,
    .ready = ready,
    .disconnect = disconnect,
    .send = post_send,
    .recv = post_recv,
    .progress = progress,
    .wait = wait_for,
    .wake = wake,
    .abort = abort_link,
};
