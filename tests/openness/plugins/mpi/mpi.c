/* mpi.c: a transport over MPI, for ranks that mpirun has started: mpirun -n 2 weft train job.ini.
 *
 * A connection is a pair of ranks and a tag. The tag is made of the number of the receiver's link,
 * which is its address, and of the channel; MPI keeps the order of messages with equal tags.
 * Messages are cut into pieces, since MPI counts in int. The first message of a connection is
 * empty: when it has gone and arrived, both ends are up. MPI trusts the ranks that its launcher has
 * started, and so does this link.
 *
 * MPI belongs to the process (weft/base.h): the first create() initializes it, and it is finalized
 * at exit, unless a job has failed. One lock lets one thread at a time into it. */
#include <mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/device.h>
#include <weft/link.h>

enum { QUEUE = 256, CHANNELS = 4096, LINKS = 8 }; /* the largest tag is 32767: all MPIs have it */
enum { SCORE = 4, NAP_US = 20, RELEASE_MS = 2000 };
#define PIECE ((uint64_t)1 << 30)

/* Pieces that MPI has, in the order of their posts: a ring. */
typedef struct piece {
    MPI_Request request;
    int bytes;
    bool last; /* of its message */
} piece;

typedef struct lane {
    piece at[QUEUE];
    uint64_t posted, done, messages; /* pieces; messages that are done, the first included */
} lane;

struct weft_conn {
    weft_link *link;
    int peer, tag_out, tag_in;
    bool greeted;
    lane out, in;
};

struct weft_link {
    const weft_host *host;
    uint32_t number; /* of those of this process */
    atomic_int aborted, woken;
    uint64_t idle_ns; /* since when nothing has moved; 0: something has */
};

/* Of the process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool taken[LINKS];  /* numbers of links; under the lock */
static atomic_int gave_up; /* a rank has failed: MPI_Finalize() could wait for it */

__attribute__((format(printf, 3, 4))) static weft_status fail(const weft_host *h, weft_status code,
                                                              const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return h->fail(h->ctx, code, text);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- the link --- */

/* Outside of mpirun MPI would start servants of its own for each process. */
static weft_status check_launched(const weft_host *h)
{
    return getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK") || getenv("PMIX_RANK")
               ? WEFT_OK
               : fail(h, WEFT_ABSENT,
                      "MPI has not started this process: mpirun -n 2 weft train job.ini");
}

static weft_status probe(void *module, const weft_conf *conf, const weft_link_group *group,
                         int32_t *score)
{
    const weft_host *h = module;
    const weft_status st = weft_check_args(h, group, sizeof *group, 0);
    (void)conf;
    *score = 0;
    if (st != WEFT_OK)
        return st;
    if (!(group->device_caps & WEFT_DEV_HOST_MEMORY))
        (void)!fail(h, WEFT_UNSUPPORTED, "acme.mpi sends host memory only");
    else if (check_launched(h) == WEFT_OK)
        *score = SCORE;
    return WEFT_OK;
}

static void finalize(void)
{
    if (!atomic_load(&gave_up))
        MPI_Finalize();
}

/* Under the lock. */
static weft_status begin_mpi(const weft_host *h, const weft_link_args *args)
{
    int begun = 0, granted = 0, rank = 0, ranks = 0;
    MPI_Initialized(&begun);
    if (!begun) {
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &granted) != MPI_SUCCESS)
            return fail(h, WEFT_IO, "MPI_Init_thread() failed");
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        atexit(finalize);
    }
    MPI_Query_thread(&granted);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (granted < MPI_THREAD_SERIALIZED)
        return fail(h, WEFT_ABSENT, "acme.mpi needs an MPI with MPI_THREAD_SERIALIZED");
    if ((uint32_t)rank != args->rank || (uint32_t)ranks != args->ranks)
        return fail(h, WEFT_USAGE, "rank %u of %u is rank %d of %d for MPI: let mpirun start all",
                    args->rank, args->ranks, rank, ranks);
    return WEFT_OK;
}

static weft_status create(void *module, const weft_link_args *args, weft_link **out)
{
    const weft_host *h = module;
    uint32_t number = 0;
    weft_status st = weft_check_args(h, args, sizeof *args, 0);
    if (st == WEFT_OK)
        st = check_launched(h);
    weft_link *l = weft_new(h, sizeof *l, &st);
    if (!l)
        return st;
    pthread_mutex_lock(&lock);
    while (number < LINKS && taken[number])
        number++;
    st = number < LINKS ? begin_mpi(h, args)
                        : fail(h, WEFT_UNSUPPORTED, "acme.mpi has at most %d links", LINKS);
    if (st == WEFT_OK)
        taken[number] = true;
    pthread_mutex_unlock(&lock);
    *l = (weft_link){.host = h, .number = number};
    if (st != WEFT_OK)
        h->free(h->ctx, l);
    else
        *out = l;
    return st;
}

static void destroy(weft_link *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&lock);
    taken[l->number] = false;
    pthread_mutex_unlock(&lock);
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
    atomic_store(&gave_up, 1);
    wake(l);
}

/* --- messages --- */

static weft_status check_up(const weft_conn *c)
{
    return atomic_load(&c->link->aborted)
               ? fail(c->link->host, WEFT_PEER, "the connection with rank %d was aborted", c->peer)
               : WEFT_OK;
}

/* Under the lock. */
static weft_status post_piece(weft_conn *c, bool out, char *at, int bytes, bool last)
{
    lane *l = out ? &c->out : &c->in;
    piece *p = &l->at[l->posted % QUEUE];
    const int error =
        out ? MPI_Isend(at, bytes, MPI_BYTE, c->peer, c->tag_out, MPI_COMM_WORLD, &p->request)
            : MPI_Irecv(at, bytes, MPI_BYTE, c->peer, c->tag_in, MPI_COMM_WORLD, &p->request);
    if (error != MPI_SUCCESS)
        return fail(c->link->host, WEFT_PEER, "MPI cannot %s %d bytes %s rank %d (error %d)",
                    out ? "send" : "receive", bytes, out ? "to" : "from", c->peer, error);
    p->bytes = bytes;
    p->last = last;
    l->posted++;
    return WEFT_OK;
}

static weft_status post(weft_conn *c, bool out, char *at, uint64_t bytes, uint32_t flags)
{
    lane *l = out ? &c->out : &c->in;
    const uint64_t pieces = bytes ? (bytes + PIECE - 1) / PIECE : 1;
    weft_status st = weft_check_flags(c->link->host, flags, 0);
    if (st == WEFT_OK)
        st = check_up(c);
    if (st == WEFT_OK && pieces > QUEUE)
        st = fail(c->link->host, WEFT_UNSUPPORTED, "a message of acme.mpi has at most %d GiB",
                  QUEUE);
    if (st != WEFT_OK)
        return st;
    if (l->posted - l->done + pieces > QUEUE)
        return WEFT_BUSY;
    pthread_mutex_lock(&lock);
    for (uint64_t i = 0; i < pieces && st == WEFT_OK; i++) {
        const uint64_t left = bytes - i * PIECE;
        st =
            post_piece(c, out, at + i * PIECE, (int)(left < PIECE ? left : PIECE), i + 1 == pieces);
    }
    pthread_mutex_unlock(&lock);
    c->link->idle_ns = 0;
    return st;
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

/* Count what is done, in order. Under the lock. */
static weft_status settle(weft_conn *c, lane *l)
{
    while (l->done < l->posted) {
        piece *p = &l->at[l->done % QUEUE];
        MPI_Status status;
        int done = 0, got = p->bytes;
        const int error = MPI_Test(&p->request, &done, &status);
        if (error == MPI_SUCCESS && !done)
            return WEFT_OK;
        if (error == MPI_SUCCESS && l == &c->in)
            MPI_Get_count(&status, MPI_BYTE, &got);
        if (error == MPI_SUCCESS && got != p->bytes)
            return fail(c->link->host, WEFT_PEER, "rank %d sent %d bytes, and %d are expected",
                        c->peer, got, p->bytes);
        if (error != MPI_SUCCESS)
            return fail(c->link->host, WEFT_PEER, "a message of %d bytes %s rank %d: MPI error %d",
                        p->bytes, l == &c->in ? "from" : "to", c->peer, error);
        l->done++;
        l->messages += p->last;
        c->link->idle_ns = 0;
    }
    return WEFT_OK;
}

static weft_status advance(weft_conn *c)
{
    weft_status st = check_up(c);
    if (st != WEFT_OK)
        return st;
    pthread_mutex_lock(&lock);
    st = settle(c, &c->out);
    if (st == WEFT_OK)
        st = settle(c, &c->in);
    pthread_mutex_unlock(&lock);
    return st;
}

static weft_status progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    if (flags)
        return weft_refuse_unknown(c->link->host);
    const weft_status st = advance(c);
    if (st == WEFT_OK) {
        *sent = c->out.messages - 1;
        *received = c->in.messages - 1;
    }
    return st;
}

/* MPI has nothing to sleep on: for spin_us the caller polls, then it naps. */
static weft_status wait_for(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(l->host);
    const uint64_t now = now_ns();
    l->idle_ns = l->idle_ns ? l->idle_ns : now;
    if (atomic_exchange(&l->woken, 0) || now - l->idle_ns < (uint64_t)spin_us * 1000)
        return WEFT_OK;
    nanosleep(&(struct timespec){0, 1000L * (timeout_us < NAP_US ? timeout_us : NAP_US)}, NULL);
    return WEFT_OK;
}

/* --- connections --- */

static weft_status connect_to(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    weft_status st = weft_check_args(l->host, args, sizeof *args, 0);
    uint32_t theirs = 0;
    if (st == WEFT_OK && (args->bytes != sizeof theirs || args->channel >= CHANNELS))
        st = fail(l->host, WEFT_DATA, "rank %u: acme.mpi has addresses of 4 bytes and %d channels",
                  args->peer, CHANNELS);
    weft_conn *c = st == WEFT_OK ? calloc(1, sizeof *c) : NULL; /* MPI may keep it: disconnect() */
    if (!c)
        return st != WEFT_OK ? st : fail(l->host, WEFT_NO_MEMORY, "no memory for a connection");
    memcpy(&theirs, args->address, sizeof theirs);
    c->link = l;
    c->peer = (int)args->peer;
    c->tag_out = (int)(theirs % LINKS * CHANNELS + args->channel);
    c->tag_in = (int)(l->number * CHANNELS + args->channel);
    *out = c;
    return WEFT_OK;
}

static weft_status ready(weft_conn *c)
{
    weft_status st = WEFT_OK;
    if (!c->greeted) {
        st = post(c, false, NULL, 0, 0);
        st = st == WEFT_OK ? post(c, true, NULL, 0, 0) : st;
        c->greeted = true;
    }
    if (st == WEFT_OK)
        st = advance(c);
    return st != WEFT_OK ? st : c->out.messages && c->in.messages ? WEFT_OK : WEFT_BUSY;
}

/* Take back what is posted; false: MPI still uses some of it. Under the lock. */
static bool take_back(lane *l, bool cancel)
{
    bool all = true;
    for (; l->done < l->posted; l->done++) {
        MPI_Request *r = &l->at[l->done % QUEUE].request;
        int done = 0;
        if (cancel)
            MPI_Cancel(r);
        MPI_Test(r, &done, MPI_STATUS_IGNORE);
        for (uint32_t ms = 0; !done && ms < RELEASE_MS && !atomic_load(&gave_up); ms++) {
            nanosleep(&(struct timespec){0, 1000000}, NULL);
            MPI_Test(r, &done, MPI_STATUS_IGNORE);
        }
        all = all && done;
    }
    return all;
}

/* What MPI still uses stays allocated: then a rank has failed, and the process ends soon. */
static void disconnect(weft_conn *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&lock);
    const bool in = take_back(&c->in, true), out = take_back(&c->out, false);
    pthread_mutex_unlock(&lock);
    if (in && out)
        free(c);
    else
        atomic_store(&gave_up, 1);
}

static const weft_link_table table = {.struct_size = sizeof table,
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
                                      .abort = abort_link};
static const weft_component component = {sizeof component,  0,    "weft.link/1", "acme.mpi",
                                         "messages of MPI", NULL, &table,        NULL};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("org.acme.mpi", "1", "Apache-2.0", components, weft_open_host, NULL);
