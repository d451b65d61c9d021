/* view/json.c: the plan as JSON. */
#include "base/err.h"
#include "base/mem.h"
#include "view/view.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *bytes(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *sent_json(const plan *p, const plan_list *l)
{
    json_t *sent = json_object();
    for (uint32_t k = WEFT_ALL_REDUCE; k <= WEFT_SHIFT; k++) {
        const view_traffic x = view_traffic_of(p, l, k, VIEW_ANY, VIEW_ANY);
        if (x.sent || k == WEFT_ALL_REDUCE)
            json_object_set_new(sent, sched_kind_word(k), bytes(x.sent));
    }
    return sent;
}

/* The same by mesh axis, with the number of collectives. */
static json_t *along_json(const plan *p, const plan_list *l)
{
    json_t *all = json_array();
    for (uint32_t k = WEFT_ALL_REDUCE; k <= WEFT_SHIFT; k++)
        for (uint32_t a = 0; a < p->spec->mesh.n; a++) {
            const view_traffic t = view_traffic_of(p, l, k, a, VIEW_ANY);
            if (!t.starts)
                continue;
            json_t *x = json_object();
            json_object_set_new(x, "kind", json_string(sched_kind_word(k)));
            json_object_set_new(x, "axis", json_string(p->spec->mesh.name[a]));
            json_object_set_new(x, "starts", json_integer(t.starts));
            json_object_set_new(x, "sent", bytes(t.sent));
            json_array_append_new(all, x);
        }
    return all;
}

/* Periodic lists: what each sends, and how often. */
static json_t *lists_json(const plan *p)
{
    json_t *lists = json_array();
    for (uint32_t i = 0; i < p->extra.n; i++) {
        const plan_periodic_list *x = &p->extra.at[i];
        json_t *l = json_object();
        json_object_set_new(l, "name", json_string(x->l.name));
        json_object_set_new(l, "every", json_integer(x->every));
        json_object_set_new(l, "sent", sent_json(p, &x->l));
        json_array_append_new(lists, l);
    }
    return lists;
}

/* Parameters that are updated in some steps only. */
static json_t *updates_json(const plan *p)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < p->intervals.n; i++) {
        const plan_interval *x = &p->intervals.at[i];
        json_t *u = json_object();
        json_object_set_new(u, "by", json_string(x->owner));
        json_object_set_new(u, "every", json_integer(x->every));
        json_object_set_new(u, "from", bytes(x->from));
        json_object_set_new(u, "mean", json_boolean(x->mean));
        json_object_set_new(u, "parameters", json_integer(x->params));
        json_object_set_new(u, "elements", bytes(x->elements));
        const view_traffic t = view_traffic_of(p, &p->step, VIEW_ANY, VIEW_ANY, 1 + i);
        json_object_set_new(u, "sent", bytes(t.sent));
        json_array_append_new(all, u);
    }
    return all;
}

static json_t *groups_json(const plan *p)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < p->groups.n; i++) {
        json_t *g = json_object();
        json_object_set_new(g, "name", json_string(p->spec->groups[i].name));
        json_object_set_new(g, "lr", json_real(p->spec->groups[i].rate));
        json_object_set_new(g, "parameters", json_integer(p->groups.at[i].params));
        json_object_set_new(g, "elements", bytes(p->groups.at[i].elements));
        json_array_append_new(all, g);
    }
    return all;
}

static json_t *rank_json(const plan *p, uint32_t rank)
{
    json_t *plain = json_object();
    for (uint32_t k = WEFT_ALL_REDUCE; k <= WEFT_SHIFT; k++) {
        const view_traffic x = view_traffic_of(p, &p->step, k, VIEW_ANY, VIEW_ANY);
        if (x.plain != x.sent)
            json_object_set_new(plain, sched_kind_word(k), bytes(x.plain));
    }
    json_t *r = json_object();
    json_object_set_new(r, "rank", json_integer(rank));
    json_object_set_new(r, "params", bytes(p->bytes.params));
    json_object_set_new(r, "grads", bytes(p->bytes.grads));
    json_object_set_new(r, "state", bytes(p->bytes.state));
    json_object_set_new(r, "activations", bytes(p->bytes.activations));
    json_object_set_new(r, "comm", bytes(p->bytes.comm));
    json_object_set_new(r, "peak", bytes(p->bytes.peak));
    if (p->bytes.host)
        json_object_set_new(r, "host", bytes(p->bytes.host));
    json_object_set_new(r, "checkpoint", bytes(plan_saved_bytes(p, rank)));
    json_object_set_new(r, "sent", sent_json(p, &p->step));
    json_object_set_new(r, "collectives", along_json(p, &p->step));
    if (p->extra.n)
        json_object_set_new(r, "lists", lists_json(p));
    if (p->groups.n)
        json_object_set_new(r, "groups", groups_json(p));
    if (p->intervals.n)
        json_object_set_new(r, "updates", updates_json(p));
    if (json_object_size(plain)) { /* of `sent`, what compression shortens; of `comm` */
        json_object_set(r, "uncompressed", plain);
        json_object_set_new(r, "kept", bytes(p->residual_bytes)); /* old name, for one release */
        json_object_set_new(r, "residual_bytes", bytes(p->residual_bytes));
    }
    json_decref(plain);
    return r;
}

/* Another rank with the same plan. */
static json_t *other_rank_json(json_t *first, const plan *p, uint32_t rank)
{
    json_t *r = json_copy(first);
    json_object_set_new(r, "rank", json_integer(rank));
    json_object_set_new(r, "checkpoint", bytes(plan_saved_bytes(p, rank)));
    return r;
}

static weft_status dump(json_t *root, FILE *to)
{
    int bad = !root || json_dumpf(root, to, JSON_INDENT(1)) || fputc('\n', to) == EOF;
    json_decref(root);
    return bad ? err_fail_errno(WEFT_IO, "the plan could not be written as JSON") : WEFT_OK;
}

json_t *view_json(const plan_set *set, bool of_each_plan)
{
    const plan *p = &set->at[0];
    json_t *root = json_object(), *ranks = json_array(), *axes = json_object();
    for (uint32_t a = 0; a < p->spec->mesh.n; a++)
        json_object_set_new(axes, p->spec->mesh.name[a], json_integer(p->spec->mesh.size[a]));
    json_t **each = mem_alloc(set->n * sizeof *each);
    for (uint32_t r = 0; r < p->spec->ranks; r++) {
        const plan *x = plan_of(set, r);
        json_t **first = &each[x - set->at];
        if (!*first)
            json_array_append(ranks, *first = rank_json(x, r));
        else if (!of_each_plan)
            json_array_append_new(ranks, other_rank_json(*first, x, r));
    }
    for (uint32_t i = 0; i < set->n; i++)
        json_decref(each[i]);
    free(each);
    char digest[24];
    snprintf(digest, sizeof digest, "%016" PRIx64, set->digest);
    json_object_set_new(root, "version", json_integer(1)); /* members are added, never changed */
    json_object_set_new(root, "digest", json_string(digest));
    json_object_set_new(root, "parameters", bytes(p->param_elements));
    json_object_set_new(root, "mesh", axes);
    json_object_set_new(root, "passes",
                        json_integer(p->micro_batches)); /* old name, for one release */
    json_object_set_new(root, "micro_batches", json_integer(p->micro_batches));
    json_object_set_new(root, "flops", json_real(p->flops_step));
    json_object_set_new(root, "ranks", ranks);
    return root;
}

weft_status view_print_json(const plan_set *set, FILE *to)
{
    return dump(view_json(set, false), to);
}

weft_status view_print_passes_json(const plan_set *set, FILE *to)
{
    json_t *root = json_object(), *all = json_array();
    char digest[17];
    for (uint32_t i = 0; i < set->timings.n; i++) {
        json_t *x = json_object();
        json_object_set_new(x, "name", json_string(set->timings.at[i].name));
        json_object_set_new(x, "seconds", json_real(set->timings.at[i].seconds));
        json_array_append_new(all, x);
    }
    snprintf(digest, sizeof digest, "%016" PRIx64, set->digest);
    json_object_set_new(root, "digest", json_string(digest));
    json_object_set_new(root, "passes", all);
    return dump(root, to);
}

static json_t *call_json(const plan *p, const plan_entry *e)
{
    const plan_segment *s = &p->segments.at[e->what];
    json_t *ops = json_array();
    for (uint32_t i = 0; i < s->n; i++) {
        const plan_instr *x = &p->instrs.at[s->first + i];
        json_t *op = json_object(), *in = json_array(), *out = json_array();
        json_t *base = json_array(), *size = json_array();
        for (uint32_t k = 0; k < x->nin + x->nout; k++) {
            const plan_ref *r = &p->refs.at[x->first_ref + k];
            json_t *at =
                r->absent ? json_null() : bytes(p->bases.at[e->first_base + r->base] + r->offset);
            json_array_append_new(k < x->nin ? in : out, at);
            json_array_append_new(base,
                                  r->absent ? json_null() : json_string(view_base_name(r->base)));
            json_array_append_new(size, bytes(view_operand_bytes(p, x, k)));
        }
        json_object_set_new(op, "op", json_string(p->kernels.at[x->kernel].spec.id));
        if (p->kernels.at[x->kernel].from)
            json_object_set_new(op, "kernel", json_string(p->kernels.at[x->kernel].from));
        json_object_set_new(op, "in", in);
        json_object_set_new(op, "out", out);
        json_object_set_new(op, "base", base);
        json_object_set_new(op, "bytes", size);
        json_array_append_new(ops, op);
    }
    return ops;
}

static json_t *entry_json(const plan *p, const plan_entry *e)
{
    static const char *const kinds[] = {"", "call", "start", "wait", "write"};
    json_t *x = json_object();
    json_object_set_new(x, "kind", json_string(kinds[e->kind]));
    json_object_set_new(x, "name", json_string(e->name));
    json_object_set_new(x, "pass", json_integer(e->micro_batch)); /* old name, for one release */
    json_object_set_new(x, "micro_batch", json_integer(e->micro_batch));
    if (e->kind == ENTRY_CALL)
        json_object_set_new(x, "ops", call_json(p, e));
    if (e->kind == ENTRY_START || e->kind == ENTRY_WAIT)
        json_object_set_new(x, "operation", json_integer(e->what));
    if (e->kind == ENTRY_START) {
        const plan_collective *c = &p->collectives.at[e->what];
        json_object_set_new(x, "channel", json_string(p->channels.at[c->channel].name));
        json_object_set_new(x, "algorithm", json_string(c->algorithm));
        json_object_set_new(x, "collective", json_string(sched_kind_word(c->kind)));
        json_object_set_new(x, "count", bytes(c->count));
        json_object_set_new(x, "sent", bytes(c->sent));
        json_object_set_new(x, "compress", json_string(sched_form_name(c->compress)));
    }
    return x;
}

static json_t *list_json(const plan *p, const plan_list *l, uint32_t rank)
{
    json_t *entries = json_array();
    for (uint32_t k = 0; k < l->entries.n; k++) {
        const plan_entry *e = &l->entries.at[k];
        if (e->kind != ENTRY_WRITE || plan_writes(p, &p->pieces.at[e->what], rank))
            json_array_append_new(entries, entry_json(p, e));
    }
    return entries;
}

weft_status view_print_list_json(const plan *p, uint32_t rank, FILE *to)
{
    json_t *root = json_object();
    plan moved = *p; /* a copy with the addresses of the rank */
    moved.bases.at = plan_bases(p, rank);
    json_object_set_new(root, "rank", json_integer(rank));
    json_object_set_new(root, p->step.name, list_json(&moved, &p->step, rank));
    json_object_set_new(root, p->eval.name, list_json(&moved, &p->eval, rank));
    json_object_set_new(root, p->save.name, list_json(&moved, &p->save, rank));
    for (uint32_t i = 0; i < p->extra.n; i++)
        json_object_set_new(root, p->extra.at[i].l.name,
                            list_json(&moved, &p->extra.at[i].l, rank));
    free(moved.bases.at);
    return dump(root, to);
}
