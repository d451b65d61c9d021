/* check/exercise/below.c: builder, view and edits that return an unknown status once. See lend.h.
 *
 * Each call goes to the core's own, unless it is the one that was chosen. Records are the core's,
 * so a failing plan has its sentence. */
#include "base/err.h"
#include "check/exercise/lend.h"

#include <weft/strategy.h>

typedef struct below { /* ctx of all three */
    check_lend *l;
    const weft_builder *b;
    const weft_view *v;
    const weft_edits *e;
} below;

static below at;
static weft_builder builder;
static weft_view view;
static weft_edits edits;

/* Whether this call returns the unknown status. */
static bool odd(const char *member)
{
    if (++at.l->calls != at.l->at)
        return false;
    at.l->below = member;
    at.l->asked = at.l->altered = true;
    (void)err_fail(CHECK_LEND_ODD, "the check lets %s() return a status that is not known", member);
    return true;
}

#define PASS(table, member, ...)                                                                   \
    (odd(#member) ? CHECK_LEND_ODD : at.table->member(at.table->ctx, __VA_ARGS__))

/* --- builder --- */

static weft_status b_shape(void *ctx, weft_tensor t, weft_shape *out)
{
    (void)ctx;
    return PASS(b, shape, t, out);
}

static const char *b_name(void *ctx, weft_tensor t)
{
    (void)ctx;
    return at.b->name(at.b->ctx, t);
}

static uint32_t b_kind(void *ctx, weft_tensor t)
{
    (void)ctx;
    return at.b->kind(at.b->ctx, t);
}

static weft_status b_block(void *ctx, const char *name, uint32_t flags)
{
    (void)ctx;
    return PASS(b, block, name, flags);
}

static weft_status b_input(void *ctx, const weft_input_args *args, weft_tensor *out)
{
    (void)ctx;
    return PASS(b, input, args, out);
}

static weft_status b_param(void *ctx, const weft_param_args *args, weft_tensor *out)
{
    (void)ctx;
    return PASS(b, param, args, out);
}

static weft_status b_scalar(void *ctx, const char *name, uint32_t flags, weft_tensor *out)
{
    (void)ctx;
    return PASS(b, scalar, name, flags, out);
}

static weft_status b_constant(void *ctx, double value, uint32_t flags, weft_tensor *out)
{
    (void)ctx;
    return PASS(b, constant, value, flags, out);
}

static weft_status b_state(void *ctx, const weft_state_args *args, weft_tensor *out)
{
    (void)ctx;
    return PASS(b, state, args, out);
}

static weft_status b_op(void *ctx, const char *id, const weft_attr *attrs, uint32_t nattr,
                        const weft_tensor *in, uint32_t nin, uint32_t flags, weft_tensor *out,
                        uint32_t nout)
{
    (void)ctx;
    return PASS(b, op, id, attrs, nattr, in, nin, flags, out, nout);
}

static weft_status b_comm(void *ctx, const weft_comm_args *args, weft_tensor in, weft_tensor *out)
{
    (void)ctx;
    return PASS(b, comm, args, in, out);
}

static weft_status b_assign(void *ctx, weft_tensor dst, weft_tensor src, uint32_t flags)
{
    (void)ctx;
    return PASS(b, assign, dst, src, flags);
}

static weft_status b_fail(void *ctx, weft_status code, const char *text)
{
    (void)ctx;
    return (at.b->fail)(at.b->ctx, code, text);
}

const weft_builder *check_below_builder(check_lend *l, const weft_builder *b)
{
    if (l->mode != CHECK_LEND_STATUS)
        return b;
    at.l = l;
    at.b = b;
    builder = (weft_builder){sizeof builder, b->flags, &at,      b_shape,  b_name,     b_kind,
                             b_block,        b_input,  b_param,  b_scalar, b_constant, b_state,
                             b_op,           b_comm,   b_assign, b_fail};
    return &builder;
}

/* --- view --- */

static weft_status v_tensor(void *ctx, weft_tensor t, weft_tensor_info *out)
{
    (void)ctx;
    return PASS(v, tensor, t, out);
}

static weft_status v_place(void *ctx, weft_tensor t, const char *mesh_axis, weft_place *out)
{
    (void)ctx;
    return PASS(v, place, t, mesh_axis, out);
}

static weft_status v_op(void *ctx, uint32_t op, const char **id, weft_opcall *call)
{
    (void)ctx;
    return PASS(v, op, op, id, call);
}

const weft_view *check_below_view(check_lend *l, const weft_view *v)
{
    if (l->mode != CHECK_LEND_STATUS)
        return v;
    at.l = l;
    at.v = v;
    view = *v; /* with the core's ctx, which the other members take */
    view.tensor = v_tensor;
    view.place = v_place;
    view.op = v_op;
    return &view;
}

/* --- edits --- */

static weft_status e_split(void *ctx, const char *tensors, const char *axis, const char *mesh_axis,
                           uint32_t flags)
{
    (void)ctx;
    return PASS(e, split, tensors, axis, mesh_axis, flags);
}

typedef struct emission { /* what an edit was given */
    weft_emit emit;
    void *user;
    const char *edit;
} emission;

/* The plugin's function, which answers for what it gets itself: the core makes WEFT_INTERNAL of a
 * status that it does not know. */
static weft_status emit(void *user, const weft_builder *b)
{
    const emission *x = user;
    const bool before = at.l->asked;
    const weft_status st = x->emit(x->user, check_below_builder(at.l, b));
    if (at.l->asked && !before) {
        at.l->answer = st;
        at.l->inside = x->edit;
        at.l->asked = false;
    }
    return st;
}

static weft_status e_replace(void *ctx, uint32_t op, uint32_t flags, weft_emit own, void *user)
{
    (void)ctx;
    emission x = {own, user, "replace"};
    return PASS(e, replace, op, flags, own ? emit : NULL, &x);
}

static weft_status e_group(void *ctx, const char *name, const char *mesh_axis,
                           const uint32_t *coords, uint32_t n, uint32_t flags)
{
    (void)ctx;
    return PASS(e, group, name, mesh_axis, coords, n, flags);
}

static weft_status e_stage(void *ctx, const char *blocks, const char *mesh_axis, uint32_t stage,
                           uint32_t chunk, uint32_t flags)
{
    (void)ctx;
    return PASS(e, stage, blocks, mesh_axis, stage, chunk, flags);
}

static weft_status e_order(void *ctx, const char *mesh_axis, uint32_t stage, const weft_work *work,
                           uint32_t n, uint32_t flags)
{
    (void)ctx;
    return PASS(e, order, mesh_axis, stage, work, n, flags);
}

static weft_status e_sync(void *ctx, const char *params, const char *mesh_axis, uint32_t when,
                          uint64_t bucket_bytes, uint32_t flags)
{
    (void)ctx;
    return PASS(e, sync, params, mesh_axis, when, bucket_bytes, flags);
}

static weft_status e_shard(void *ctx, uint32_t what, const char *params, const char *mesh_axis,
                           uint32_t ahead, uint32_t flags)
{
    (void)ctx;
    return PASS(e, shard, what, params, mesh_axis, ahead, flags);
}

static weft_status e_periodic_list(void *ctx, const char *name, uint32_t every, uint32_t flags,
                                   weft_emit own, void *user)
{
    (void)ctx;
    emission x = {own, user, "periodic_list"};
    return PASS(e, periodic_list, name, every, flags, own ? emit : NULL, &x);
}

static weft_status e_activations(void *ctx, const char *tensors, uint32_t how,
                                 const char *mesh_axis, uint32_t flags)
{
    (void)ctx;
    return PASS(e, activations, tensors, how, mesh_axis, flags);
}

static weft_status e_weight_versions(void *ctx, const char *params, uint32_t versions,
                                     uint32_t flags)
{
    (void)ctx;
    return PASS(e, weight_versions, params, versions, flags);
}

static weft_status e_changes_results(void *ctx, const char *text, uint32_t flags)
{
    (void)ctx;
    return PASS(e, changes_results, text, flags);
}

static weft_status e_update_every(void *ctx, const char *params, uint32_t every, uint64_t from,
                                  uint32_t flags)
{
    (void)ctx;
    return PASS(e, update_every, params, every, from, flags);
}

const weft_edits *check_below_edits(check_lend *l, const weft_edits *e)
{
    if (l->mode != CHECK_LEND_STATUS)
        return e;
    at.l = l;
    at.e = e;
    edits = (weft_edits){sizeof edits,      e->flags,          &at,
                         e_split,           e_replace,         e_group,
                         e_stage,           e_order,           e_sync,
                         e_shard,           e_periodic_list,   e_activations,
                         e_weight_versions, e_changes_results, e_update_every};
    return &edits;
}
