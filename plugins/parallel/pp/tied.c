/* tied.c: tied parameters, used by blocks on several stages, such as a tied embedding.
 *
 * Each of those stages has a copy of the parameter and a partial gradient. The partial gradients
 * are summed over a group of these stages; all of them then do the same update, so the copies stay
 * equal. */
#include "pp.h"

#include <stdio.h>
#include <string.h>

/* Bit mask of the stages that use parameter t, that is, whose ops read it. */
static weft_status users(const weft_view *view, weft_tensor t, const uint32_t *stage, uint64_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < view->ops(view->ctx); i++) {
        weft_opcall call = {.struct_size = sizeof call};
        weft_tensor_info out_info = {.struct_size = sizeof out_info};
        const char *id;
        weft_status st = view->op(view->ctx, i, &id, &call);
        bool reads = false;
        for (uint32_t k = 0; st == WEFT_OK && k < call.nin; k++)
            reads |= call.in[k] == t;
        if (st == WEFT_OK && reads)
            st = view->tensor(view->ctx, call.out[0], &out_info);
        if (st != WEFT_OK)
            return st;
        if (reads && out_info.kind ==
                         WEFT_T_ACTIVATION) /* a gradient belongs to the block of its parameter */
            *out |= (uint64_t)1 << stage[out_info.block];
    }
    return WEFT_OK;
}

weft_status pp_tied(const weft_host *host, const weft_view *view, const weft_edits *edits,
                    const char *axis, const uint32_t *stage, uint32_t stages, bool sync)
{
    uint32_t coords[64];
    if (stages > 64)
        return pp_fail(host, "parallel.pp: at most 64 stages");
    for (weft_tensor t = 1; t <= view->tensors(view->ctx); t++) {
        weft_tensor_info info = {.struct_size = sizeof info};
        uint32_t n = 0;
        uint64_t used = 0;
        weft_status st = view->tensor(view->ctx, t, &info);
        const char *name = info.name;
        if (st == WEFT_OK && info.kind == WEFT_T_PARAM)
            st = users(view, t, stage, &used);
        for (uint32_t i = 0; i < stages; i++)
            if (used >> i & 1)
                coords[n++] = i;
        if (st != WEFT_OK)
            return st;
        if (n < 2)
            continue;
        char group[WEFT_MAX_NAME + 8];
        snprintf(group, sizeof group, "%s.%s", axis, name);
        st = sync ? edits->sync(edits->ctx, name, group, WEFT_SYNC_LAST, 0, 0)
                  : edits->group(edits->ctx, group, axis, coords, n, 0);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}
