/* schedule/request.c: see request.h. */
#include "schedule/request.h"

#include "base/err.h"
#include "base/number/check.h"
#include "schedule/program.h"

/* For people, and for programs. */
static const char *const kinds[][2] = {
    {"unknown operation", "other"},
    {"all-reduce", "all_reduce"},
    {"reduce-scatter", "reduce_scatter"},
    {"all-gather", "all_gather"},
    {"broadcast", "broadcast"},
    {"reduce", "reduce"},
    {"gather", "gather"},
    {"scatter", "scatter"},
    {"all-to-all", "all_to_all"},
    {"barrier", "barrier"},
    {"send", "send"},
    {"receive", "recv"},
    {"shift", "shift"},
};

const char *sched_kind_name(uint32_t kind)
{
    return kinds[kind <= WEFT_SHIFT ? kind : 0][0];
}

const char *sched_kind_word(uint32_t kind)
{
    return kinds[kind <= WEFT_SHIFT ? kind : 0][1];
}

bool sched_reduces(uint32_t kind)
{
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER || kind == WEFT_REDUCE;
}

bool sched_has_root(uint32_t kind)
{
    return kind == WEFT_BROADCAST || kind == WEFT_REDUCE || kind == WEFT_GATHER ||
           kind == WEFT_SCATTER;
}

bool sched_is_pair(uint32_t kind)
{
    return kind == WEFT_SEND || kind == WEFT_RECV;
}

bool sched_equal_parts(uint32_t kind)
{
    return kind == WEFT_REDUCE_SCATTER || kind == WEFT_ALL_GATHER || kind == WEFT_GATHER ||
           kind == WEFT_SCATTER || kind == WEFT_ALL_TO_ALL;
}

/* Types that core/comm/kernels/reduce.h has kernels for. */
static bool is_reducible(uint32_t dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16 || dtype == WEFT_I32 ||
           dtype == WEFT_I64;
}

static weft_status check_ranks(const sched_request *r)
{
    const char *what = sched_kind_name(r->kind);
    if (r->ranks == 0 || r->me >= r->ranks)
        return err_fail(WEFT_USAGE, "%s: rank %u of a group of %u ranks", what, r->me, r->ranks);
    if (r->kind == WEFT_SHIFT && r->root >= r->ranks)
        return err_fail(WEFT_USAGE, "%s: by %u in a group of %u ranks", what, r->root, r->ranks);
    if ((sched_has_root(r->kind) || sched_is_pair(r->kind)) && r->root >= r->ranks)
        return err_fail(WEFT_USAGE, "%s: the %s is rank %u, but the group has %u ranks", what,
                        sched_has_root(r->kind) ? "root" : "other end", r->root, r->ranks);
    if (sched_is_pair(r->kind) && r->root == r->me)
        return err_fail(WEFT_USAGE, "%s: rank %u is both ends", what, r->me);
    return WEFT_OK;
}

weft_status sched_request_check(const sched_request *r)
{
    const char *what = sched_kind_name(r->kind);
    if (r->kind < WEFT_ALL_REDUCE || r->kind > WEFT_SHIFT)
        return err_fail(WEFT_USAGE, "kind %u is not a kind of communication", r->kind);
    uint64_t size = weft_dtype_size(r->dtype), bytes;
    if (r->kind == WEFT_BARRIER && r->count)
        return err_fail(WEFT_USAGE, "barrier: has no data, but a count of %llu was given",
                        (unsigned long long)r->count);
    if (size == 0 && r->kind != WEFT_BARRIER)
        return err_fail(WEFT_USAGE, "%s: type %u is not an element type", what, r->dtype);
    if (!check_mul(r->count, size, &bytes) || bytes > INT64_MAX)
        return err_fail(WEFT_USAGE,
                        "%s: %llu elements of %llu bytes are more than can be addressed", what,
                        (unsigned long long)r->count, (unsigned long long)size);
    if (sched_reduces(r->kind) && (r->redop < WEFT_SUM || r->redop > WEFT_MIN))
        return err_fail(WEFT_USAGE, "%s: reduction %u is none of sum, max and min", what, r->redop);
    if (sched_reduces(r->kind) && !is_reducible(r->dtype))
        return err_fail(WEFT_USAGE,
                        "%s: elements of type %u cannot be reduced; use f32, bf16, f16, "
                        "i32 or i64",
                        what, r->dtype);
    if (r->compress && (r->compress > SCHED_TO_INT8 || r->redop != WEFT_SUM ||
                        (r->kind != WEFT_ALL_REDUCE && r->kind != WEFT_REDUCE_SCATTER) ||
                        (r->dtype != WEFT_F32 && r->dtype != WEFT_BF16 && r->dtype != WEFT_F16)))
        return err_fail(
            WEFT_USAGE,
            "%s: only sums of f32, bf16 and f16 to all or in parts can travel compressed", what);
    if (check_ranks(r) != WEFT_OK)
        return WEFT_USAGE;
    if (sched_equal_parts(r->kind) && r->count % r->ranks)
        return err_fail(WEFT_USAGE, "%s: %llu elements do not divide into %u equal parts; pad them",
                        what, (unsigned long long)r->count, r->ranks);
    return WEFT_OK;
}

void sched_sides(const sched_request *r, uint64_t *in, uint64_t *out)
{
    uint64_t all = r->count * weft_dtype_size(r->dtype), part = all / r->ranks;
    int root = r->me == r->root;
    *in = *out = all;
    switch (r->kind) {
    case WEFT_REDUCE_SCATTER: *out = part; break;
    case WEFT_ALL_GATHER: *in = part; break;
    case WEFT_BROADCAST: *in = root ? all : 0; break;
    case WEFT_REDUCE: *out = root ? all : 0; break;
    case WEFT_SCATTER:
        *in = root ? all : 0;
        *out = part;
        break;
    case WEFT_GATHER:
        *in = part;
        *out = root ? all : 0;
        break;
    case WEFT_SEND: *out = 0; break;
    case WEFT_RECV: *in = 0; break;
    default: break;
    }
}
