/* plan/lower/compress.c: gradient compression: which sums are compressed, and their residuals.
 *
 * Only sums of gradients over data-parallel mesh axes are compressed ([comm] compress). A partial
 * sum of a split model is one value in several parts, an activation is not a sum over many samples,
 * and periodic lists decide for themselves. The encoding error is stored in a dedicated
 * error-feedback residual, 4 bytes per encoded element, 0 at first and after a restart. The sums of
 * all micro-batches share one residual.
 *
 * A skipped step must leave no trace in the next one, and the residual is in units of the loss
 * scale. So the scalar "kept", written when the gate is known (step.c), is the factor of the
 * residual at its first use in the next step. */
#include "plan/lower/sync.h"

#include "plan/collective.h"
#include "plan/scalar.h"
#include "resolve/topology.h"

#include <string.h>

/* The data-parallel mesh axes: ranks along them have different data. */
static uint64_t sharing_axes(const plan *p)
{
    uint64_t axes = p->data_axes | p->cut_axes;
    for (uint32_t a = 0; a < p->spec->mesh.n; a++)
        if (p->spec->mesh.size[a] < 2)
            axes &= ~((uint64_t)1 << a);
    return axes;
}

static weft_status refuse(plan *p, const char *key, const char *form, const char *reason)
{
    return resolve_refuse(p->spec, CONSTRAINT_COMPRESS, key,
                          (config_fact[]){{"form", 0, form}, {"reason", 0, reason}, {0}});
}

/* Check that there is something to compress wherever the job asks for it, and that it saves
 * bytes. */
static weft_status check(plan *p, uint64_t never)
{
    const spec *s = p->spec;
    const uint64_t shared = sharing_axes(p);
    const char *all = s->compress;
    for (uint32_t a = 0; a < s->mesh.n; a++) {
        const char *form = sched_form_name(s->axis_compress[a]);
        if (!s->axis_compress[a])
            continue;
        if (!(shared >> a & 1) && strcmp(s->compress_key[a], "comm.compress"))
            return refuse(p, s->compress_key[a], form,
                          pool_printf(&p->pool, "those along %s do not", s->mesh.name[a]));
        if ((shared & never) >> a & 1 &&
            (strcmp(s->compress_key[a], "comm.compress") || !(shared & ~never)))
            return refuse(
                p, s->compress_key[a], form,
                pool_printf(&p->pool, "no gradient is ever summed along %s", s->mesh.name[a]));
        if ((shared >> a & 1) && s->axis_compress[a] != SCHED_TO_INT8 && s->grad_dtype != WEFT_F32)
            return resolve_refuse(
                s, CONSTRAINT_COMPRESS_TYPE, s->compress_key[a],
                (config_fact[]){{"type", 0, s->precision}, {"form", 0, form}, {0}});
    }
    for (uint32_t a = 0; a < s->mesh.n; a++)
        if ((shared >> a & 1) && s->axis_compress[a] &&
            resolve_collective_library(&s->links[s->axis_link[a]]))
            return resolve_refuse(
                s, CONSTRAINT_COMPRESS_LIBRARY, s->compress_key[a],
                (config_fact[]){{"comm.plugin", 0, s->links[s->axis_link[a]].c->name},
                                {"axis", 0, s->mesh.name[a]},
                                {0}});
    return strcmp(all, "none") && !shared ? refuse(p, "comm.compress", all, "here none do")
                                          : WEFT_OK;
}

weft_status plan_compress_prepare(plan_builder *b)
{
    plan *p = b->p;
    const uint64_t never = plan_flat_unsummed_axes(b->f), summed = sharing_axes(p) & ~never;
    weft_status st = check(p, never);
    for (uint32_t a = 0; st == WEFT_OK && a < p->spec->mesh.n; a++)
        if (p->spec->axis_compress[a] && summed >> a & 1)
            plan_edits_note_change(
                b->edits,
                pool_printf(&p->pool, "%s = %s: sums of gradients over %s are rounded%s",
                            p->spec->compress_key[a], sched_form_name(p->spec->axis_compress[a]),
                            p->spec->mesh.name[a],
                            p->spec->feedback ? ", and the rest is added a step later" : ""));
    return st;
}

void plan_compress_sum(plan_builder *b, plan_collective *c, uint32_t axis, bool residual_used)
{
    const spec *s = b->p->spec;
    if (axis >= FIRST_GROUP || !(sharing_axes(b->p) >> axis & 1) || !s->axis_compress[axis])
        return;
    c->compress = s->axis_compress[axis];
    c->residual_used = residual_used;
    if (s->feedback)
        plan_scalar_offset(b->p, "kept", 1);
}

static uint64_t pages(uint64_t bytes)
{
    return (bytes + 4095) & ~(uint64_t)4095;
}

void plan_compress_finish(plan_builder *b)
{
    plan *p = b->p;
    const uint64_t here = pages(b->zones.residual[0]), beside = pages(b->zones.residual[1]);
    for (uint32_t i = 0; i < p->collectives.n; i++) {
        plan_collective *c = &p->collectives.at[i];
        if (c->residual)
            c->residual +=
                (plan_channel_in_host(p, c->channel) ? p->bytes.host : p->bytes.peak) - 1;
    }
    p->residual_bytes = here + beside;
    p->bytes.comm += here;
    p->bytes.peak += here;
    p->bytes.host += beside;
}
