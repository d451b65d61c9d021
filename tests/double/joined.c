/* joined.c: the chains, of GPT-2 and of Llama, forward and backward. */
#include "joined.h"

#include <stdlib.h>
#include <string.h>

#define FEEDS WEFT_FUSE_CHAINED
#define SHARES WEFT_FUSE_SHARED_INPUT

static const joined_op ops[] = {
    {"linear+gelu", 2, 2, 2, "b-", {{"linear", "01", "a"}, {"gelu", "a", "b"}}, FEEDS},
    {"linear+gelu", 3, 2, 2, "b-", {{"linear", "012", "a"}, {"gelu", "a", "b"}}, FEEDS},
    {"linear+bias_residual",
     4,
     2,
     2,
     "b-",
     {{"linear", "01", "a"}, {"bias_residual", "a23", "b"}},
     FEEDS},
    {"linear.dx+gelu.dx", 3, 2, 2, "b-", {{"linear.dx", "01", "a"}, {"gelu.dx", "a2", "b"}}, FEEDS},
    {"linear.dx+swiglu.dx",
     4,
     3,
     2,
     "b--",
     {{"linear.dx", "01", "a"}, {"swiglu.dx", "a23", "bc"}},
     FEEDS},
    {"linear.dw+colsum", 2, 2, 2, "--", {{"linear.dw", "01", "a"}, {"colsum", "0", "b"}}, SHARES},
    {"colsum+linear.dw", 2, 2, 2, "--", {{"colsum", "0", "a"}, {"linear.dw", "01", "b"}}, SHARES},
    {"linear+linear", 3, 2, 2, "--", {{"linear", "01", "a"}, {"linear", "02", "b"}}, SHARES},
    {"linear+linear+linear",
     4,
     3,
     3,
     "---",
     {{"linear", "01", "a"}, {"linear", "02", "b"}, {"linear", "03", "c"}},
     SHARES | SHARES << 2},
    {"layernorm+linear",
     4,
     4,
     2,
     "0---",
     {{"layernorm", "012", "abc"}, {"linear", "a3", "d"}},
     FEEDS},
    {"layernorm+linear",
     5,
     4,
     2,
     "0---",
     {{"layernorm", "012", "abc"}, {"linear", "a34", "d"}},
     FEEDS},
    {"layernorm+linear+gelu",
     5,
     5,
     3,
     "0--e-",
     {{"layernorm", "012", "abc"}, {"linear", "a34", "d"}, {"gelu", "d", "e"}},
     FEEDS | FEEDS << 2},
};
enum { OPS = sizeof ops / sizeof *ops };

const char *joined_name(const char *const *ids, const uint32_t *joins, uint32_t n)
{
    for (int i = 0; i < OPS; i++) {
        int same = ops[i].n == n;
        for (uint32_t m = 0; m < n && same; m++)
            same = strcmp(ops[i].member[m].id, ids[m]) == 0 &&
                   (m == 0 || (ops[i].joins >> (2 * (m - 1)) & 3) == joins[m]);
        if (same)
            return ops[i].name;
    }
    return NULL;
}

/* The chain that a call is of; NULL: of none. */
static const joined_op *find(const weft_opspec *spec)
{
    for (int i = 0; i < OPS; i++)
        if (strcmp(ops[i].name, spec->id) == 0 && ops[i].nin == spec->nin &&
            ops[i].nout == spec->nout)
            return &ops[i];
    return NULL;
}

/* Which of the joined op's operands [inputs, then outputs] a letter stands for. */
static uint32_t number(const joined_op *j, char letter)
{
    return letter >= 'a' ? j->nin + (uint32_t)(letter - 'a') : (uint32_t)(letter - '0');
}

/* The operand in place of an output that is absent. */
static int absent(const joined_op *j, const weft_opspec *spec, uint32_t output, weft_operand *o)
{
    if (j->like[output] == '-')
        return 0;
    const uint32_t at = number(j, j->like[output]);
    *o = at < spec->nin ? spec->in[at] : spec->out[at - spec->nin];
    return o->dtype != 0;
}

/* The call of member m; operands into io [2 * WEFT_MAX_OPERANDS]. 0: one has no shape. */
static int member_spec(const joined_op *j, const weft_opspec *spec, uint32_t m, weft_operand *io,
                       weft_opspec *out)
{
    const joined_member *x = &j->member[m];
    const uint32_t nin = (uint32_t)strlen(x->in), nout = (uint32_t)strlen(x->out);
    for (uint32_t k = 0; k < nin + nout; k++) {
        const uint32_t at = number(j, k < nin ? x->in[k] : x->out[k - nin]);
        io[k] = at < spec->nin ? spec->in[at] : spec->out[at - spec->nin];
        if (io[k].dtype == 0 && !absent(j, spec, at - spec->nin, &io[k]))
            return 0;
    }
    *out = *spec;
    out->id = x->id;
    out->nin = nin;
    out->nout = nout;
    out->in = io;
    out->out = io + nin;
    return 1;
}

weft_status joined_need(const weft_device_table *cpu, void *module, const weft_conf *conf,
                        const weft_opspec *spec, const char *wish, weft_requirements *out)
{
    const joined_op *j = find(spec);
    weft_status st = WEFT_OK;
    if (!j)
        return cpu->query(module, conf, spec, out);
    if (strcmp(wish, "none") == 0 ||
        (strcmp(wish, "short") == 0 && strncmp(j->name, "layernorm", 9) == 0))
        return WEFT_ABSENT;
    for (uint32_t m = 0; st == WEFT_OK && m < j->n; m++) {
        weft_operand io[2 * WEFT_MAX_OPERANDS];
        weft_opspec own;
        const uint64_t max = out->workspace;
        if (!member_spec(j, spec, m, io, &own))
            return WEFT_ABSENT;
        st = cpu->query(module, conf, &own, out);
        out->workspace = max > out->workspace ? max : out->workspace;
    }
    return st;
}

/* One place does for all that nobody reads: it is as large as the largest. */
static char *make_absent(const joined_op *j, const weft_opspec *spec)
{
    uint64_t max = 0;
    for (uint32_t k = 0; k < spec->nout; k++) {
        weft_operand o;
        if (spec->out[k].dtype != 0 || !absent(j, spec, k, &o))
            continue;
        uint64_t bytes = weft_dtype_size(o.dtype);
        for (uint32_t i = 0; i < o.rank; i++)
            bytes *= (uint64_t)o.size[i];
        max = bytes > max ? bytes : max;
    }
    return max > 0 ? aligned_alloc(64, (max + 63) / 64 * 64) : NULL;
}

weft_status joined_prepare(const weft_device_table *cpu, weft_device *d, const weft_opspec *spec,
                           joined_ready *out)
{
    weft_status st = WEFT_OK;
    *out = (joined_ready){.joined = find(spec), .nin = spec->nin, .nout = spec->nout};
    if (!out->joined)
        return cpu->prepare(d, spec, &out->inner[0]);
    out->absent = make_absent(out->joined, spec);
    for (uint32_t m = 0; st == WEFT_OK && m < out->joined->n; m++) {
        weft_operand io[2 * WEFT_MAX_OPERANDS];
        weft_opspec own;
        member_spec(out->joined, spec, m, io, &own);
        st = cpu->prepare(d, &own, &out->inner[m]);
    }
    return st;
}

static weft_status run_member(const weft_device_table *cpu, weft_stream *s, const joined_ready *r,
                              uint32_t m, const void *const *in, void *const *out, void *workspace)
{
    const joined_member *x = &r->joined->member[m];
    const uint32_t nin = (uint32_t)strlen(x->in), nout = (uint32_t)strlen(x->out);
    const void *reads[WEFT_MAX_OPERANDS];
    void *writes[WEFT_MAX_OPERANDS];
    for (uint32_t k = 0; k < nin; k++) {
        const uint32_t at = number(r->joined, x->in[k]);
        reads[k] = at < r->nin ? in[at] : out[at - r->nin];
        reads[k] = !reads[k] ? r->absent : reads[k];
    }
    for (uint32_t k = 0; k < nout; k++) {
        void *to = out[number(r->joined, x->out[k]) - r->nin];
        writes[k] = !to ? r->absent : to;
    }
    return cpu->run(r->inner[m], s, reads, writes, workspace, 0);
}

weft_status joined_run(const weft_device_table *cpu, weft_stream *s, const joined_ready *r,
                       const void *const *in, void *const *out, void *workspace)
{
    weft_status st = WEFT_OK;
    if (!r->joined)
        return cpu->run(r->inner[0], s, in, out, workspace, 0);
    for (uint32_t m = 0; st == WEFT_OK && m < r->joined->n; m++)
        st = run_member(cpu, s, r, m, in, out, workspace);
    return st;
}

void joined_release(const weft_device_table *cpu, joined_ready *r)
{
    for (uint32_t m = 0; m < JOINED_MAX; m++)
        if (r->inner[m])
            cpu->release(r->inner[m]);
    free(r->absent);
}
