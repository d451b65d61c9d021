/* mpicoll.c: MPI's nonblocking collectives as a library of collectives on host memory.
 *
 * call() starts an MPI operation and keeps its requests in start order; test() tests the oldest
 * ones, which lets MPI advance all. The host has one thread at a time in this module, so that
 * MPI_THREAD_SERIALIZED is enough. MPI_Comm_create_group() blocks until all members have called it,
 * so a helper thread does; the host makes no other call meanwhile but ready().
 *
 * MPI has no 16-bit floats. bf16 is added by an operator of ours, in fp32, and rounded wherever MPI
 * combines; fp16 is only moved. */
#include "once.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <weft/coll.h>

enum { REQUESTS = 8192, OPENING = 0, OPEN = 1, FAILED = 2 };

struct weft_comm {
    const weft_host *host;
    struct module *module;
    int me, n;
    MPI_Comm comm;
    MPI_Group group;
    pthread_t helper;
    int32_t helped, in_group;
    atomic_int state, aborted;
    int error;
    MPI_Request request[REQUESTS];
    uint64_t group_of[REQUESTS];
    uint64_t posted, finished; /* requests */
    uint64_t started;          /* groups */
    weft_comm *next;           /* with operations in the open group */
};

typedef struct module {
    const weft_host *host;
    weft_comm *group; /* communicators of the group that is open */
    MPI_Op bf16[3];   /* sum, maximum, minimum */
    int32_t has_bf16;
} module;

/* --- bf16 --- */

static float widen(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint16_t narrow(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define BF16(name, expression)                                                                     \
    static void name(void *in, void *inout, int *len, MPI_Datatype *type)                          \
    {                                                                                              \
        const uint16_t *x = in;                                                                    \
        uint16_t *y = inout;                                                                       \
        (void)type;                                                                                \
        for (int i = 0; i < *len; i++) {                                                           \
            const float a = widen(x[i]), b = widen(y[i]);                                          \
            y[i] = narrow(expression);                                                             \
        }                                                                                          \
    }

BF16(bf16_sum, a + b)
BF16(bf16_max, a > b ? a : b)
BF16(bf16_min, a < b ? a : b)

static MPI_Datatype type_of(uint32_t dtype)
{
    switch (dtype) {
    case WEFT_F32: return MPI_FLOAT;
    case WEFT_F64: return MPI_DOUBLE;
    case WEFT_I32: return MPI_INT32_T;
    case WEFT_I64: return MPI_INT64_T;
    case WEFT_U8: return MPI_UINT8_T;
    case WEFT_BF16:
    case WEFT_F16: return MPI_UINT16_T;
    default: return MPI_DATATYPE_NULL;
    }
}

static MPI_Op op_of(const module *m, uint32_t dtype, uint32_t redop)
{
    static const int which[] = {0, 0, 1, 2};
    if (dtype == WEFT_BF16)
        return m->bf16[which[redop]];
    return redop == WEFT_SUM ? MPI_SUM : redop == WEFT_MAX ? MPI_MAX : MPI_MIN;
}

/* --- set-up --- */

static weft_status probe(void *m, const weft_conf *conf, uint32_t caps, int32_t *score)
{
    const weft_host *h = ((module *)m)->host;
    (void)conf;
    *score = 0;
    if (!(caps & WEFT_DEV_HOST_MEMORY))
        (void)!h->fail(h->ctx, WEFT_UNSUPPORTED, "it works on host memory only");
    else if (mpi_launched(h) == WEFT_OK)
        *score = 6;
    return WEFT_OK;
}

static weft_status make_id(void *m, const weft_conf *conf, void *out, uint64_t *bytes)
{
    (void)m, (void)conf;
    *(char *)out = 'm'; /* MPI tells communicators apart itself */
    *bytes = 1;
    return WEFT_OK;
}

static void *create_group(void *arg)
{
    weft_comm *c = arg;
    c->error = MPI_Comm_create_group(MPI_COMM_WORLD, c->group, 0, &c->comm);
    if (c->error == MPI_SUCCESS)
        c->error = MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
    atomic_store(&c->state, c->error == MPI_SUCCESS ? OPEN : FAILED);
    return NULL;
}

static weft_status begin_open(weft_comm *c, const uint32_t *members)
{
    sigset_t all, before;
    MPI_Group world;
    int *ranks = c->host->alloc(c->host->ctx, (uint64_t)c->n * sizeof *ranks, 0);
    if (!ranks)
        return c->host->fail(c->host->ctx, WEFT_NO_MEMORY, "no memory for a communicator");
    for (int r = 0; r < c->n; r++)
        ranks[r] = (int)members[r];
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    c->error = MPI_Group_incl(world, c->n, ranks, &c->group);
    MPI_Group_free(&world);
    c->host->free(c->host->ctx, ranks);
    if (c->error != MPI_SUCCESS)
        return mpi_says(c->host, WEFT_IO, "MPI_Group_incl", c->error);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    c->helped = !pthread_create(&c->helper, NULL, create_group, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return c->helped ? WEFT_OK : c->host->fail(c->host->ctx, WEFT_NO_MEMORY, "no thread for MPI");
}

static void close_comm(weft_comm *c)
{
    if (!c)
        return;
    if (atomic_load(&c->aborted)) /* MPI may still use its requests: the process ends soon */
        return;
    if (c->helped)
        pthread_join(c->helper, NULL);
    if (atomic_load(&c->state) == OPEN)
        MPI_Comm_free(&c->comm);
    if (c->group != MPI_GROUP_NULL)
        MPI_Group_free(&c->group);
    c->host->free(c->host->ctx, c);
}

static weft_status open_comm(void *m, const weft_coll_args *a, weft_comm **out)
{
    module *own = m;
    const weft_host *h = own->host;
    weft_status st = weft_check_args(h, a, sizeof *a, 0);
    if (st == WEFT_OK && (a->parent || a->stream))
        st = h->fail(h->ctx, WEFT_UNSUPPORTED, "mpicoll has neither streams nor parents");
    if (st == WEFT_OK)
        st = mpi_start(h, a->members[a->rank], MPI_THREAD_SERIALIZED);
    if (st == WEFT_OK && !own->has_bf16) {
        MPI_Op_create(bf16_sum, 1, &own->bf16[0]);
        MPI_Op_create(bf16_max, 1, &own->bf16[1]);
        MPI_Op_create(bf16_min, 1, &own->bf16[2]);
        own->has_bf16 = 1;
    }
    weft_comm *c = weft_new(h, sizeof *c, &st);
    if (!c)
        return st;
    c->host = h;
    c->module = own;
    c->me = (int)a->rank;
    c->n = (int)a->ranks;
    c->group = MPI_GROUP_NULL;
    st = begin_open(c, a->members);
    if (st == WEFT_OK)
        *out = c;
    else
        close_comm(c);
    return st;
}

static weft_status ready(weft_comm *c)
{
    const int state = atomic_load(&c->state);
    return state == OPENING ? WEFT_BUSY
           : state == OPEN  ? WEFT_OK
                            : mpi_says(c->host, WEFT_IO, "MPI_Comm_create_group", c->error);
}

/* --- operations --- */

static weft_status begin(void *m, uint32_t flags)
{
    ((module *)m)->group = NULL;
    return flags ? weft_refuse_unknown(((module *)m)->host) : WEFT_OK;
}

static weft_status end(void *m, uint32_t flags)
{
    for (weft_comm *c = ((module *)m)->group; c; c = c->next) {
        c->started++;
        c->in_group = 0;
    }
    ((module *)m)->group = NULL;
    return flags ? weft_refuse_unknown(((module *)m)->host) : WEFT_OK;
}

static weft_status supports(void *m, uint32_t kind, uint32_t redop, uint32_t dtype)
{
    const weft_host *h = ((module *)m)->host;
    const int reduces =
        kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER || kind == WEFT_REDUCE;
    if (kind < WEFT_ALL_REDUCE || kind > WEFT_RECV || type_of(dtype) == MPI_DATATYPE_NULL ||
        (reduces && (redop < WEFT_SUM || redop > WEFT_MIN)))
        return h->fail(h->ctx, WEFT_UNSUPPORTED, "mpicoll has no such kind, type or operator");
    if (reduces && dtype == WEFT_F16)
        return h->fail(h->ctx, WEFT_UNSUPPORTED,
                       "MPI has no fp16 to add: use train.precision = bf16 or fp32, or a link");
    return WEFT_OK;
}

static MPI_Request *next_request(weft_comm *c)
{
    c->group_of[c->posted % REQUESTS] = c->started + 1;
    return &c->request[c->posted++ % REQUESTS];
}

/* MPI's own in-place form takes the input from the front of the output, ours has the output inside
 * of the input: one reduction for each rank. */
static int reduce_scatter(weft_comm *c, const weft_coll_call *a, int part, MPI_Datatype t,
                          MPI_Op op)
{
    const uint64_t bytes = (uint64_t)part * weft_dtype_size(a->dtype);
    const char *in = a->in;
    int error = MPI_SUCCESS;
    if (a->out != in + (uint64_t)c->me * bytes)
        return MPI_Ireduce_scatter_block(in, a->out, part, t, op, c->comm, next_request(c));
    for (int r = 0; r < c->n && error == MPI_SUCCESS; r++)
        error = MPI_Ireduce(r == c->me ? MPI_IN_PLACE : in + (uint64_t)r * bytes,
                            r == c->me ? a->out : NULL, part, t, op, r, c->comm, next_request(c));
    return error;
}

static int start(weft_comm *c, const weft_coll_call *a)
{
    const int n = (int)a->count, part = n / c->n, root = (int)a->root, mine = root == c->me;
    const uint64_t size = weft_dtype_size(a->dtype);
    const MPI_Datatype t = type_of(a->dtype);
    const MPI_Op op = op_of(c->module, a->dtype, a->redop);
    const char *own_in = (const char *)a->in + (uint64_t)c->me * (uint64_t)part * size;
    const char *own_out = (const char *)a->out + (uint64_t)c->me * (uint64_t)part * size;
    const void *in = a->in == a->out ? MPI_IN_PLACE : a->in;
    const void *in_part = a->in == own_out ? MPI_IN_PLACE : a->in;
    switch (a->kind) {
    case WEFT_ALL_REDUCE: return MPI_Iallreduce(in, a->out, n, t, op, c->comm, next_request(c));
    case WEFT_REDUCE_SCATTER: return reduce_scatter(c, a, part, t, op);
    case WEFT_ALL_GATHER:
        return MPI_Iallgather(in_part, part, t, a->out, part, t, c->comm, next_request(c));
    case WEFT_BROADCAST:
        if (mine && a->in != a->out)
            memcpy(a->out, a->in, a->count * size);
        return MPI_Ibcast(a->out, n, t, root, c->comm, next_request(c));
    case WEFT_REDUCE:
        return MPI_Ireduce(mine ? in : a->in, a->out, n, t, op, root, c->comm, next_request(c));
    case WEFT_GATHER:
        return MPI_Igather(mine ? in_part : a->in, part, t, a->out, part, t, root, c->comm,
                           next_request(c));
    case WEFT_SCATTER:
        return MPI_Iscatter(a->in, part, t, mine && a->out == own_in ? MPI_IN_PLACE : a->out, part,
                            t, root, c->comm, next_request(c));
    case WEFT_ALL_TO_ALL:
        return MPI_Ialltoall(in, part, t, a->out, part, t, c->comm, next_request(c));
    case WEFT_BARRIER: return MPI_Ibarrier(c->comm, next_request(c));
    case WEFT_SEND: return MPI_Isend(a->in, n, t, root, 0, c->comm, next_request(c));
    default: return MPI_Irecv(a->out, n, t, root, 0, c->comm, next_request(c));
    }
}

static weft_status call(weft_comm *c, const weft_coll_call *a)
{
    const weft_host *h = c->host;
    if (weft_check_args(h, a, sizeof *a, 0) != WEFT_OK)
        return WEFT_UNSUPPORTED;
    weft_status st = supports(c->module, a->kind, a->redop, a->dtype);
    if (st != WEFT_OK)
        return st;
    if (a->count > INT_MAX)
        return h->fail(h->ctx, WEFT_UNSUPPORTED, "MPI counts no more than 2147483647 elements");
    if (c->posted - c->finished + (uint64_t)c->n > REQUESTS)
        return h->fail(h->ctx, WEFT_NO_MEMORY, "too many MPI operations are in flight");
    if (!c->in_group) {
        c->next = c->module->group;
        c->module->group = c;
        c->in_group = 1;
    }
    const int error = start(c, a);
    return error == MPI_SUCCESS ? WEFT_OK : mpi_says(h, WEFT_IO, "an MPI operation failed", error);
}

static weft_status test(weft_comm *c, uint32_t flags, uint64_t *done)
{
    int over = 1;
    if (flags)
        return weft_refuse_unknown(c->host);
    while (c->finished < c->posted) {
        MPI_Status status;
        const int error = MPI_Test(&c->request[c->finished % REQUESTS], &over, &status);
        if (error != MPI_SUCCESS)
            return mpi_says(c->host, WEFT_IO, "an MPI operation failed", error);
        if (!over)
            break;
        c->finished++;
    }
    *done = over ? c->started : c->group_of[c->finished % REQUESTS] - 1;
    return WEFT_OK;
}

static weft_status health(weft_comm *c)
{
    (void)c; /* MPI reports failures where it is called */
    return WEFT_OK;
}

/* MPI_Abort() would end all ranks without a word of the job. */
static void abort_comm(weft_comm *c)
{
    atomic_store(&c->aborted, 1);
    mpi_failed = 1;
}

static weft_status open_module(const weft_host *host, void **out)
{
    weft_status st = WEFT_OK;
    module *m = weft_new(host, sizeof *m, &st);
    if (m)
        m->host = host;
    *out = m;
    return st;
}

static void close_module(void *m)
{
    if (!m)
        return;
    for (int i = 0; i < 3 && ((module *)m)->has_bf16; i++)
        MPI_Op_free(&((module *)m)->bf16[i]);
    ((module *)m)->host->free(((module *)m)->host->ctx, m);
}

static const weft_coll_table table = {.struct_size = sizeof table,
                                      .caps = WEFT_COLL_HOST,
                                      .probe = probe,
                                      .id = make_id,
                                      .open = open_comm,
                                      .ready = ready,
                                      .close = close_comm,
                                      .begin = begin,
                                      .end = end,
                                      .call = call,
                                      .health = health,
                                      .abort = abort_comm,
                                      .test = test,
                                      .supports = supports};
static const weft_component component = {sizeof component,     0,    "weft.coll/1", "acme.mpicoll",
                                         "collectives of MPI", NULL, &table,        NULL};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("org.acme.mpicoll", "1", "", components, open_module, close_module);
