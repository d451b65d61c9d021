/* view/print.c: prints the plan, its lists and its passes for people. */
#include "view/view.h"

#include <inttypes.h>
#include <stdlib.h>

void view_mesh_axis(const spec *s, uint32_t a, char *text, size_t capacity)
{
    const spec_link *l = &s->links[s->axis_link[a]];
    const bool sends = s->mesh.size[a] > 1;
    snprintf(text, capacity, "%s %u%s%s%s%s", s->mesh.name[a], s->mesh.size[a],
             sends ? " over " : "", sends && l->intra.c ? l->intra.c->name : "",
             sends && l->intra.c ? "+" : "", sends ? l->c->name : "");
}

static void print_mesh(const plan *p, FILE *to)
{
    const spec *s = p->spec;
    char axis[PLAN_AXIS_TEXT];
    fprintf(to, "%u rank%s", s->ranks, s->ranks == 1 ? "" : "s");
    for (uint32_t a = s->mesh.n; a-- > 0;) {
        view_mesh_axis(s, a, axis, sizeof axis);
        fprintf(to, "%s %s%s", a + 1 == s->mesh.n ? ":" : " x", axis,
                s->mesh.size[a] > 1 && s->axis_cost[a] ? " (tuned)" : "");
    }
    fprintf(to, "\n");
}

/* Print what a periodic list sends, averaged over its period. */
static bool print_list_sent(const plan *p, const plan_periodic_list *x, uint32_t kind, FILE *to)
{
    const uint64_t sent = view_traffic_of(p, &x->l, kind, VIEW_ANY, VIEW_ANY).sent;
    if (sent)
        fprintf(to, "  %-14s %12s  (list %s: %s every %u step%s)\n", sched_kind_word(kind),
                mem_size(sent / x->every).text, x->l.name, mem_size(sent).text, x->every,
                x->every == 1 ? "" : "s");
    return sent != 0;
}

/* How many collectives of a kind a step has along each mesh axis, with their bytes. */
static void print_along(const plan *p, uint32_t kind, FILE *to)
{
    const char *before = "  ";
    for (uint32_t a = 0; a < p->spec->mesh.n; a++) {
        const view_traffic x = view_traffic_of(p, &p->step, kind, a, VIEW_ANY);
        if (!x.starts)
            continue;
        fprintf(to, "%s%s %u x, %s", before, p->spec->mesh.name[a], x.starts,
                mem_size(x.sent).text);
        before = "; ";
    }
}

static void print_sent(const plan *p, FILE *to)
{
    bool any = false;
    for (uint32_t k = WEFT_ALL_REDUCE; k <= WEFT_SHIFT; k++) {
        const view_traffic x = view_traffic_of(p, &p->step, k, VIEW_ANY, VIEW_ANY);
        if (!x.sent)
            continue;
        fprintf(to, "  %-14s %12s", sched_kind_word(k), mem_size(x.sent).text);
        print_along(p, k, to);
        if (x.plain != x.sent)
            fprintf(to, "  (not compressed: %s)", mem_size(x.plain).text);
        fprintf(to, "\n");
        any = true;
    }
    for (uint32_t i = 0; i < p->extra.n; i++)
        for (uint32_t k = WEFT_ALL_REDUCE; k <= WEFT_SHIFT; k++)
            any |= print_list_sent(p, &p->extra.at[i], k, to);
    if (!any)
        fprintf(to, "  nothing\n");
}

static void print_saved(const plan_set *set, FILE *to)
{
    uint64_t max = 0;
    for (uint32_t r = 0; r < set->spec->ranks && set->spec->want == SPEC_TRAIN; r++) {
        const uint64_t bytes = plan_saved_bytes(plan_of(set, r), r);
        max = bytes > max ? bytes : max;
    }
    if (max)
        fprintf(to,
                "\ncheckpoint   %s a rank at most; checkpoint.async copies as much to the host, "
                "beside the peak\n",
                mem_size(max).text);
}

static void print_groups(const plan *p, FILE *to)
{
    for (uint32_t i = 0; i < p->groups.n; i++)
        fprintf(to, "[optim.%s] has %u parameters (%" PRIu64 " elements a rank), lr %g\n",
                p->spec->groups[i].name, p->groups.at[i].params, p->groups.at[i].elements,
                p->spec->groups[i].rate);
}

static void print_intervals(const plan *p, FILE *to)
{
    for (uint32_t i = 0; i < p->intervals.n; i++) {
        const plan_interval *x = &p->intervals.at[i];
        fprintf(to, "%s updates %u parameters (%" PRIu64 " elements a rank) ", x->owner, x->params,
                x->elements);
        if (x->every > 1)
            fprintf(to, "every %u steps%s", x->every, x->mean ? ", by the mean gradient" : "");
        if (x->from)
            fprintf(to, "%safter step %" PRIu64, x->every > 1 ? " " : "", x->from);
        fprintf(to, "; %s of the bytes are sent in these steps only\n",
                mem_size(view_traffic_of(p, &p->step, VIEW_ANY, VIEW_ANY, 1 + i).sent).text);
    }
}

void view_print(const plan_set *set, FILE *to)
{
    const plan *p = &set->at[0];
    fprintf(to, "model        %" PRIu64 " parameters\n", p->param_elements);
    fprintf(to, "mesh         ");
    print_mesh(p, to);
    fprintf(to,
            "step         %u micro-batch%s of %llu sequences a rank, %" PRIu32 " entries, "
            "%.3g GFLOP a rank\n",
            p->micro_batches, p->micro_batches == 1 ? "" : "es",
            (unsigned long long)p->spec->micro_batch, p->step.entries.n, p->flops_step * 1e-9);
    fprintf(to, "segments     %u, %u instructions, %u kernels\n", p->segments.n, p->instrs.n,
            p->kernels.n);
    if (p->residual_bytes)
        fprintf(to, "compression  keeps %s a rank, part of %s\n", mem_size(p->residual_bytes).text,
                p->bytes.host ? "host memory" : "comm");
    if (p->changes)
        fprintf(to, "note         results depend on the layout:\n%s\n", p->changes);
    fprintf(to, "\n%5s %12s %12s %12s %12s %12s %12s\n", "rank", "params", "grads", "state",
            "activations", "comm", "peak");
    for (uint32_t r = 0; r < p->spec->ranks; r++) {
        const plan_bytes *b = &plan_of(set, r)->bytes;
        fprintf(to, "%5u %12s %12s %12s %12s %12s %12s\n", r, mem_size(b->params).text,
                mem_size(b->grads).text, mem_size(b->state).text, mem_size(b->activations).text,
                mem_size(b->comm).text, mem_size(b->peak).text);
    }
    if (p->bytes.host)
        fprintf(to, "\nhost memory  %s a rank, through which all sent data passes\n",
                mem_size(p->bytes.host).text);
    print_saved(set, to);
    for (uint32_t i = 0; i < set->n; i++) {
        if (set->n > 1)
            fprintf(to, "\nsent a step, a rank of stage %u\n", i);
        else
            fprintf(to, "\nsent a step, a rank\n");
        print_sent(&set->at[i], to);
        print_groups(&set->at[i], to);
        print_intervals(&set->at[i], to);
    }
}

static bool concerns(const plan *p, const plan_entry *e, uint32_t rank)
{
    return e->kind != ENTRY_WRITE || plan_writes(p, &p->pieces.at[e->what], rank);
}

const char *view_base_name(uint32_t base)
{
    static const char *const names[] = {"fixed", "param", "grad", "saved", "frame"};
    return base < BASE_FIRST ? names[base] : "inout";
}

uint64_t view_operand_bytes(const plan *p, const plan_instr *x, uint32_t k)
{
    const weft_opspec *s = &p->kernels.at[x->kernel].spec;
    const weft_operand *o = k < x->nin ? &s->in[k] : &s->out[k - x->nin];
    uint64_t n = weft_dtype_size(o->dtype);
    for (uint32_t i = 0; i < o->rank; i++)
        n *= (uint64_t)o->size[i];
    return n;
}

static void print_segment(const plan *p, const plan_entry *e, FILE *to)
{
    const plan_segment *s = &p->segments.at[e->what];
    const uint64_t *bases = &p->bases.at[e->first_base];
    for (uint32_t i = 0; i < s->n; i++) {
        const plan_instr *x = &p->instrs.at[s->first + i];
        const weft_opspec *op = &p->kernels.at[x->kernel].spec;
        fprintf(to, "         %-16s%s", op->id, op->flags & WEFT_SPEC_ACCUMULATE ? " +" : "");
        for (uint32_t k = 0; k < x->nin + x->nout; k++) {
            const plan_ref *r = &p->refs.at[x->first_ref + k];
            fprintf(to, "%s", k == x->nin ? " ->" : "");
            if (r->absent)
                fprintf(to, k < x->nin ? " (shape)" : " (unread)");
            else
                fprintf(to, " %#" PRIx64 " (%s, %" PRIu64 " B)", bases[r->base] + r->offset,
                        view_base_name(r->base), view_operand_bytes(p, x, k));
        }
        if (p->kernels.at[x->kernel].from)
            fprintf(to, " by %s", p->kernels.at[x->kernel].from);
        fprintf(to, "\n");
    }
}

static void print_one(const plan *p, const plan_list *l, uint32_t rank, FILE *to)
{
    fprintf(to, "list %s\n", l->name);
    for (uint32_t i = 0; i < l->entries.n; i++) {
        const plan_entry *e = &l->entries.at[i];
        const plan_collective *c = &p->collectives.at[e->what];
        if (!concerns(p, e, rank))
            continue;
        switch (e->kind) {
        case ENTRY_CALL:
            fprintf(to, "%6u   call   %s, micro-batch %u\n", i, e->name, e->micro_batch);
            print_segment(p, e, to);
            break;
        case ENTRY_START:
            fprintf(to,
                    "%6u   start  #%u %s on %s (%s): %" PRIu64 " elements at %#" PRIx64
                    ", sends %" PRIu64 " B",
                    i, e->what, e->name, p->channels.at[c->channel].name, c->algorithm, c->count,
                    c->in + c->in_shift * graph_mesh_coord(&p->spec->mesh, rank, c->shift_axis),
                    c->sent);
            if (c->compress)
                fprintf(to, " in %s, not %" PRIu64, sched_form_name(c->compress), c->plain);
            fprintf(to, "\n");
            break;
        case ENTRY_WAIT: fprintf(to, "%6u   wait   #%u\n", i, e->what); break;
        default:
            fprintf(to, "%6u   write  %s at %#" PRIx64 "\n", i, e->name,
                    p->pieces.at[e->what].offset);
        }
    }
}

void view_print_list(const plan *p, uint32_t rank, FILE *to)
{
    plan moved = *p; /* a copy with the addresses of the rank */
    moved.bases.at = plan_bases(p, rank);
    print_one(&moved, &p->step, rank, to);
    print_one(&moved, &p->eval, rank, to);
    print_one(&moved, &p->save, rank, to);
    for (uint32_t i = 0; i < p->extra.n; i++)
        print_one(&moved, &p->extra.at[i].l, rank, to);
    free(moved.bases.at);
}

void view_print_passes(const plan_set *set, FILE *to)
{
    double all = 0;
    for (uint32_t i = 0; i < set->timings.n; i++) {
        const plan_timing *x = &set->timings.at[i];
        all += x->seconds;
        fprintf(to, "%-16s %10.3f ms\n", x->name, x->seconds * 1e3);
    }
    fprintf(to, "%-16s %10.3f ms\n", "all", all * 1e3);
}
