/* tied.c: tied parameters, used by blocks on several stages, such as a tied embedding.
 *
 * Each of those stages has a copy of the parameter and a partial gradient. The partial gradients
 * are summed over a group of these stages; all of them then do the same update, so the copies stay
 * equal. */
#include "pp.h"

#include <stdio.h>

/* A bit mask for each tensor: the stages that use it, that is, whose ops read it. */
static weft_status users(const weft_view *view, const uint32_t *stage, uint64_t *used)
{
    const uint32_t ops = view->ops(view->ctx);
    for (uint32_t i = 0; i < ops; i++) {
        weft_opcall call = {.struct_size = sizeof call};
        weft_tensor_info out = {.struct_size = sizeof out};
        const char *id;
        weft_status st = view->op(view->ctx, i, &id, &call);
        if (st == WEFT_OK)
            st = view->tensor(view->ctx, call.out[0], &out);
        if (st != WEFT_OK)
            return st;
        if (out.kind != WEFT_T_ACTIVATION) /* a gradient belongs to the block of its parameter */
            continue;
        for (uint32_t k = 0; k < call.nin; k++)
            used[call.in[k]] |= (uint64_t)1 << stage[out.block];
    }
    return WEFT_OK;
}

static weft_status join(const weft_view *view, const weft_edits *edits, const char *axis,
                        weft_tensor t, uint64_t used, bool sync)
{
    weft_tensor_info info = {.struct_size = sizeof info};
    uint32_t coords[64], n = 0;
    for (uint32_t i = 0; i < 64; i++)
        if (used >> i & 1)
            coords[n++] = i;
    if (n < 2)
        return WEFT_OK;
    const weft_status st = view->tensor(view->ctx, t, &info);
    if (st != WEFT_OK || info.kind != WEFT_T_PARAM)
        return st;
    char group[WEFT_MAX_NAME + 8];
    snprintf(group, sizeof group, "%s.%s", axis, info.name);
    return sync ? edits->sync(edits->ctx, info.name, group, WEFT_SYNC_LAST, 0, 0)
                : edits->group(edits->ctx, group, axis, coords, n, 0);
}

weft_status pp_tied(const weft_host *host, const weft_view *view, const weft_edits *edits,
                    const char *axis, const uint32_t *stage, uint32_t stages, bool sync)
{
    const uint32_t tensors = view->tensors(view->ctx);
    weft_status st = WEFT_OK;
    if (stages > 64)
        return pp_fail(host, "parallel.pp: at most 64 stages");
    uint64_t *used = weft_new(host, (tensors + 1) * sizeof *used, &st);
    if (!used)
        return st;
    st = users(view, stage, used);
    for (weft_tensor t = 1; st == WEFT_OK && t <= tensors; t++)
        st = join(view, edits, axis, t, used[t], sync);
    host->free(host->ctx, used);
    return st;
}
