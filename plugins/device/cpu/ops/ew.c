/* ew.c: compiles elementwise programs for kern/ew.c.
 *
 *   1. Every assignment of a register becomes a separate value (SSA form).
 *   2. A division by a scalar becomes a multiplication by its inverse.
 *   3. Values that depend only on scalars and constants are computed here, once per run.
 *   4. A product that is used by a single sum or difference is fused with it.
 *   5. The rest become instructions on slots; a slot is reused after its value's last use, so that
 *      a long program still fits L1. The value of an fp32 output has its own location.
 *   6. Results are chained to the next instruction (chain.c).
 *
 * If all operands have one element, none counts as a scalar: the program runs on a tile of one. */
#include "ops.h"
#include <string.h>

enum { MAX_STEPS = WEFT_EW_MAX_STEPS, MAX_VALUES = WEFT_MAX_OPERANDS + 2 * MAX_STEPS };

struct value {
    uint32_t op; /* 0: an input */
    uint32_t arg[3];
    float imm;
    bool scalar, dropped;
    uint32_t uses;
    int32_t last; /* instruction of the last use; MAX_STEPS: an output */
    struct ew_ref ref;
};

struct build {
    const struct cpu_module *m;
    const weft_opspec *spec;
    struct value v[MAX_VALUES];
    uint32_t nvalue, out[WEFT_MAX_OPERANDS];
    int64_t count;
    int32_t gate;
    struct ew_instr instr[MAX_VALUES];
    uint32_t scalar_of[MAX_VALUES]; /* numbers of the scalar values, in order */
    uint32_t ninstr, nscalar, nslot;
    bool taken[MAX_VALUES];
    uint16_t in_slot[WEFT_MAX_OPERANDS], out_slot[WEFT_MAX_OPERANDS];
    uint32_t born[MAX_STEPS]; /* value of instruction i */
};

/* What run_ew() needs: the code, and the program that computes the scalars. */
struct scalar_step {
    uint32_t op, input, arg[3]; /* arg: numbers of scalars */
    float imm;
};

struct ew_ready {
    struct ew_code code;
    int32_t gate;
    uint32_t gate_type;
    uint32_t out_scalar[WEFT_MAX_OPERANDS];
    struct scalar_step *steps; /* [nscalar] */
};

static uint32_t arity(uint32_t op)
{
    switch (op) {
    case WEFT_EW_CONST: return 0;
    case WEFT_EW_COPY:
    case WEFT_EW_SQRT:
    case WEFT_EW_NEG:
    case WEFT_EW_ABS:
    case WEFT_EW_SIGN:
    case WEFT_EW_EXP:
    case WEFT_EW_LOG:
    case WEFT_EW_FINITE:
    case WEFT_EW_ROUND:
    case WEFT_EW_FLOOR:
    case EW_INVERSE:
    case WEFT_EW_COS: return 1;
    case WEFT_EW_SELECT:
    case EW_MULADD:
    case EW_NMULADD: return 3;
    default: return 2;
    }
}

static weft_status refuse(const struct build *b, const char *what)
{
    return cpu_fail(b->m, WEFT_USAGE, "op %s: %s", b->spec->id, what);
}

static bool is_float(uint32_t dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}

/* Check one operand: a float type, and one element or as many as the others. */
static weft_status operand_count(struct build *b, const weft_operand *o)
{
    const int64_t n = weft_elements(o);
    if (!is_float(o->dtype) || o->flags)
        return cpu_fail(b->m, WEFT_UNSUPPORTED,
                        "op %s: the cpu device has elementwise ops for dense fp32, bf16 and fp16",
                        b->spec->id);
    if (!n)
        return refuse(b, "an operand has an invalid shape");
    if (n != 1 && b->count != 1 && n != b->count)
        return refuse(b, "operands differ in size");
    if (n != 1)
        b->count = n;
    return WEFT_OK;
}

static weft_status count_elements(struct build *b)
{
    b->count = 1;
    for (uint32_t k = 0; k < b->spec->nin; k++) {
        weft_status st = operand_count(b, &b->spec->in[k]);
        if (st != WEFT_OK)
            return st;
    }
    for (uint32_t k = 0; k < b->spec->nout; k++) {
        weft_status st = operand_count(b, &b->spec->out[k]);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

static bool is_scalar(const struct build *b, const weft_operand *o)
{
    return b->count > 1 && weft_elements(o) == 1;
}

/* Step 1: number the values (SSA form). */
static weft_status number_step(struct build *b, const weft_ew_step *s, uint32_t *now,
                               uint32_t nregs)
{
    const uint32_t reg[3] = {s->a, s->b, s->c}, n = arity(s->op);
    struct value *v = &b->v[b->nvalue];
    if (s->op < WEFT_EW_COPY || s->op > WEFT_EW_FLOOR)
        return cpu_fail(b->m, WEFT_UNSUPPORTED, "op %s: the program has an unknown step",
                        b->spec->id);
    *v = (struct value){.op = s->op, .imm = s->imm, .scalar = b->count > 1};
    for (uint32_t i = 0; i < n; i++) {
        if (reg[i] >= nregs || now[reg[i]] == UINT32_MAX)
            return refuse(b, "the program reads a register that has no value");
        v->arg[i] = now[reg[i]];
        v->scalar = v->scalar && b->v[v->arg[i]].scalar;
        b->v[v->arg[i]].uses++;
    }
    if (s->op == WEFT_EW_CONST)
        v->scalar = true;
    if (s->dst >= nregs)
        return refuse(b, "the program writes a register that it does not have");
    now[s->dst] = b->nvalue++;
    return WEFT_OK;
}

static weft_status number_values(struct build *b, const weft_ew_program *p)
{
    uint32_t now[WEFT_EW_MAX_REGISTERS];
    const weft_opspec *spec = b->spec;
    if (p->nregs > WEFT_EW_MAX_REGISTERS || p->nregs < spec->nin || p->nsteps > MAX_STEPS)
        return cpu_fail(b->m, WEFT_UNSUPPORTED,
                        "op %s: %u steps on %u registers are more than the "
                        "cpu device takes (%d on %d)",
                        spec->id, p->nsteps, p->nregs, MAX_STEPS, WEFT_EW_MAX_REGISTERS);
    memset(now, 0xff, sizeof now);
    for (uint32_t k = 0; k < spec->nin; k++) {
        b->v[k] = (struct value){.scalar = is_scalar(b, &spec->in[k])};
        now[k] = k;
    }
    b->nvalue = spec->nin;
    for (uint32_t k = 0; k < p->nsteps; k++) {
        weft_status st = number_step(b, &p->steps[k], now, p->nregs);
        if (st != WEFT_OK)
            return st;
    }
    for (uint32_t k = 0; k < spec->nout; k++) {
        if (p->out_reg[k] >= p->nregs || now[p->out_reg[k]] == UINT32_MAX)
            return refuse(b, "an output has no value");
        b->out[k] = now[p->out_reg[k]];
        b->v[b->out[k]].uses += 2; /* never fused into another */
        if (is_scalar(b, &spec->out[k]) && !b->v[b->out[k]].scalar)
            return refuse(b, "a tensor cannot be converted to a scalar");
    }
    b->gate = p->gate;
    if (p->gate >= (int32_t)spec->nin || (p->gate >= 0 && spec->in[p->gate].dtype != WEFT_F32))
        return refuse(b, "the gate is not an fp32 input");
    return WEFT_OK;
}

/* Step 2: x / s becomes x * (1 / s) for a scalar s; this adds a rounding error of half an ulp. */
static void invert_divisors(struct build *b)
{
    const uint32_t n = b->nvalue;
    for (uint32_t k = b->spec->nin; k < n; k++) {
        struct value *v = &b->v[k];
        if (v->op != WEFT_EW_DIV || v->scalar || !b->v[v->arg[1]].scalar)
            continue;
        b->v[b->nvalue] = (struct value){.op = EW_INVERSE, .arg = {v->arg[1]}, .scalar = true};
        v->op = WEFT_EW_MUL;
        v->arg[1] = b->nvalue++;
    }
}

/* Step 4: fuse x + a b, a b + x and x - a b into one instruction if a b has no other use. */
static void join_products(struct build *b)
{
    for (uint32_t k = b->spec->nin; k < b->nvalue; k++) {
        struct value *v = &b->v[k];
        if (v->scalar || (v->op != WEFT_EW_ADD && v->op != WEFT_EW_SUB))
            continue;
        for (uint32_t side = v->op == WEFT_EW_SUB; side < 2; side++) {
            struct value *p = &b->v[v->arg[side]];
            if (p->op != WEFT_EW_MUL || p->scalar || p->uses != 1)
                continue;
            const uint32_t other = v->arg[1 - side];
            v->op = v->op == WEFT_EW_ADD ? EW_MULADD : EW_NMULADD;
            v->arg[0] = p->arg[0];
            v->arg[1] = p->arg[1];
            v->arg[2] = other;
            p->dropped = true;
            break;
        }
    }
}

/* Step 3, and the order of instructions and each value's last use (liveness). */
static void order_values(struct build *b)
{
    for (uint32_t k = 0; k < b->nvalue; k++) {
        struct value *v = &b->v[k];
        v->last = -1;
        if (v->scalar) {
            v->ref = (struct ew_ref){EW_SCALAR, (uint16_t)b->nscalar};
            b->scalar_of[b->nscalar++] = k;
        } else if (k >= b->spec->nin && !v->dropped) {
            for (uint32_t i = 0; i < arity(v->op); i++)
                b->v[v->arg[i]].last = (int32_t)b->ninstr;
            b->born[b->ninstr++] = k;
        }
    }
    for (uint32_t k = 0; k < b->spec->nout; k++)
        b->v[b->out[k]].last = MAX_STEPS;
}

static uint16_t take_slot(struct build *b)
{
    uint32_t s = 0;
    while (b->taken[s])
        s++;
    b->taken[s] = true;
    if (s >= b->nslot)
        b->nslot = s + 1;
    return (uint16_t)s;
}

/* Free the slots whose value instruction i reads last; its result may use them. */
static void free_slots(struct build *b, const struct value *v, int32_t i)
{
    for (uint32_t k = 0; k < arity(v->op); k++) {
        const uint32_t arg = v->arg[k];
        if (b->v[arg].last != i || b->v[arg].scalar)
            continue;
        b->taken[arg < b->spec->nin ? b->in_slot[arg] : b->v[arg].ref.at] = false;
    }
}

/* Location of a computed value: the fp32 output that it is, or a slot. */
static struct ew_ref place_result(struct build *b, uint32_t value)
{
    const uint16_t slot = take_slot(b);
    for (uint32_t k = 0; k < b->spec->nout; k++)
        if (b->out[k] == value && b->spec->out[k].dtype == WEFT_F32) {
            b->out_slot[k] = slot;
            return (struct ew_ref){EW_OUTPUT, (uint16_t)k};
        }
    return (struct ew_ref){EW_SLOT, slot};
}

/* Copy an input that is also an output to its slot: another output may alias it and be written
 * first. */
static void copy_outputs(struct build *b)
{
    for (uint32_t k = 0; k < b->spec->nin; k++) {
        struct value *v = &b->v[k];
        if (v->last != MAX_STEPS || v->ref.kind != EW_INPUT)
            continue;
        const struct ew_ref slot = {EW_SLOT, b->in_slot[k]};
        b->instr[b->ninstr++] = (struct ew_instr){.op = WEFT_EW_COPY, .dst = slot, .a = v->ref};
        v->ref = slot;
    }
}

/* Step 5. Inputs have slots too, for type conversion and for the short last block. */
static void place_values(struct build *b)
{
    for (uint32_t k = 0; k < b->spec->nin; k++) {
        if (b->v[k].scalar)
            continue;
        b->in_slot[k] = take_slot(b);
        const bool in_place = b->spec->in[k].dtype == WEFT_F32;
        b->v[k].ref = in_place ? (struct ew_ref){EW_INPUT, (uint16_t)k}
                               : (struct ew_ref){EW_SLOT, b->in_slot[k]};
    }
    for (uint32_t i = 0; i < b->ninstr; i++) {
        struct value *v = &b->v[b->born[i]];
        free_slots(b, v, (int32_t)i);
        v->ref = place_result(b, b->born[i]);
        struct ew_instr *s = &b->instr[i];
        *s = (struct ew_instr){.op = (uint16_t)v->op, .dst = v->ref};
        struct ew_ref *to[3] = {&s->a, &s->b, &s->c};
        for (uint32_t k = 0; k < arity(v->op); k++)
            *to[k] = b->v[v->arg[k]].ref;
        if (v->last < 0)
            b->taken[v->ref.at] = false;
    }
    copy_outputs(b);
}

/* Build the program of an op that is one step. */
static void one_step(const weft_opspec *spec, uint32_t ew, weft_ew_step *step, uint16_t *out,
                     weft_ew_program *p)
{
    *step = (weft_ew_step){.op = (uint16_t)ew, .dst = (uint16_t)spec->nin, .a = 0, .b = 1, .c = 2};
    *out = (uint16_t)spec->nin;
    *p = (weft_ew_program){.struct_size = sizeof *p,
                           .nsteps = 1,
                           .nregs = spec->nin + 1,
                           .gate = -1,
                           .steps = step,
                           .out_reg = out};
}

static weft_status build_program(struct build *b, const struct cpu_module *m,
                                 const struct cpu_op *op, const weft_opspec *spec)
{
    weft_ew_step step;
    uint16_t out;
    weft_ew_program single;
    const weft_ew_program *p = spec->program;
    const uint32_t ew = op->form;
    memset(b, 0, sizeof *b);
    b->m = m;
    b->spec = spec;
    if (ew != 0) {
        if (spec->nin != arity(ew) || spec->nout != 1)
            return refuse(b, "called with a wrong number of operands");
        one_step(spec, ew, &step, &out, &single);
        p = &single;
    }
    if (!p)
        return refuse(b, "called without a program");
    weft_status st = count_elements(b);
    if (st == WEFT_OK)
        st = number_values(b, p);
    if (st != WEFT_OK)
        return st;
    invert_divisors(b);
    join_products(b);
    order_values(b);
    place_values(b);
    return WEFT_OK;
}

CPU_PLAN(plan_ew)
{
    (void)match;
    (void)workspace;
    struct build *b = m->host->alloc(m->host->ctx, sizeof *b, 0);
    if (!b)
        return cpu_fail(m, WEFT_NO_MEMORY, "op %s: no memory to read its program", spec->id);
    weft_status st = build_program(b, m, op, spec);
    a->rows = b->count;
    m->host->free(m->host->ctx, b);
    return st;
}

static void describe_operands(struct ew_ready *r, const struct build *b)
{
    struct ew_code *c = &r->code;
    c->count = b->count;
    c->nin = b->spec->nin;
    c->nout = b->spec->nout;
    c->ninstr = b->ninstr;
    c->nslot = b->nslot;
    c->nscalar = b->nscalar;
    for (uint32_t k = 0; k < c->nin; k++) {
        c->in_type[k] = b->spec->in[k].dtype;
        c->in_slot[k] = b->in_slot[k];
        c->in_vector[k] = !b->v[k].scalar && b->v[k].last >= 0;
    }
    for (uint32_t k = 0; k < c->nout; k++) {
        c->out_type[k] = b->spec->out[k].dtype;
        c->out_slot[k] = b->out_slot[k];
        c->out[k] = b->v[b->out[k]].ref;
        if (is_scalar(b, &b->spec->out[k])) {
            r->out_scalar[k] = c->out[k].at;
            c->out[k].kind = EW_NONE;
        }
    }
}

static void describe_scalars(struct ew_ready *r, const struct build *b)
{
    for (uint32_t i = 0; i < b->nscalar; i++) {
        const struct value *v = &b->v[b->scalar_of[i]];
        r->steps[i] = (struct scalar_step){.op = v->op, .input = b->scalar_of[i], .imm = v->imm};
        for (uint32_t k = 0; v->op != 0 && k < arity(v->op); k++)
            r->steps[i].arg[k] = b->v[v->arg[k]].ref.at;
    }
    r->gate = b->gate;
}

/* One allocation: the struct, scalars, the scalars' steps, instructions. */
static struct ew_ready *pack(const struct cpu_module *m, const struct build *b)
{
    const uint64_t instr = b->ninstr * sizeof(struct ew_instr);
    const uint64_t scalar = (b->nscalar + 1) * EW_MAX_LANES * sizeof(float);
    const uint64_t steps = b->nscalar * sizeof(struct scalar_step);
    const uint64_t head = (sizeof(struct ew_ready) + 63) / 64 * 64;
    char *p = m->host->alloc(m->host->ctx, head + scalar + steps + instr, 64);
    if (!p)
        return NULL;
    struct ew_ready *r = (struct ew_ready *)p;
    r->code.scalar = (float *)(p + head);
    r->steps = (struct scalar_step *)(p + head + scalar);
    r->code.instr = (struct ew_instr *)(p + head + scalar + steps);
    memcpy(r->code.instr, b->instr, instr);
    describe_operands(r, b);
    describe_scalars(r, b);
    cpu_ew_chain(&r->code);
    return r;
}

weft_status ready_ew(weft_prepared *p, const weft_opspec *spec)
{
    const struct cpu_module *m = p->d->m;
    struct build *b = m->host->alloc(m->host->ctx, sizeof *b, 0);
    struct ew_ready *r = NULL;
    if (b && build_program(b, m, p->op, spec) == WEFT_OK)
        r = pack(m, b);
    m->host->free(m->host->ctx, b);
    if (!r)
        return cpu_fail(m, WEFT_NO_MEMORY, "op %s: no memory for its program", spec->id);
    p->extra = r;
    p->a.ew = &r->code;
    const weft_status st = cpu_scratch_reserve(p->d, r->code.nslot * sizeof(float) * EW_TILE +
                                                         r->code.ninstr * sizeof(struct ew_step));
    if (st != WEFT_OK)
        drop_ew(p);
    return st;
}

void drop_ew(weft_prepared *p)
{
    p->d->m->host->free(p->d->m->host->ctx, p->extra);
}

static void compute_scalars(const struct ew_ready *r, const void *const *in)
{
    for (uint32_t i = 0; i < r->code.nscalar; i++) {
        const struct scalar_step *s = &r->steps[i];
        float *to = r->code.scalar + (uint64_t)i * EW_MAX_LANES, x = s->imm;
        const float *all = r->code.scalar;
        if (s->op == 0)
            x = cpu_get_one(in[s->input], r->code.in_type[s->input]);
        else if (s->op != WEFT_EW_CONST)
            x = cpu_apply(s->op, all[s->arg[0] * EW_MAX_LANES], all[s->arg[1] * EW_MAX_LANES],
                          all[s->arg[2] * EW_MAX_LANES]);
        for (uint32_t l = 0; l < EW_MAX_LANES; l++)
            to[l] = x;
    }
}

CPU_RUN(run_ew)
{
    const struct ew_ready *r = p->extra;
    if (r->gate >= 0 && *(const float *)in[r->gate] == 0.0f)
        return WEFT_OK;
    compute_scalars(r, in);
    const struct cpu_job j = {&p->a, in, out, ws};
    const int64_t items = (r->code.count + EW_TILE - 1) / EW_TILE;
    cpu_par(p->d, p->d->kernels->ew, &j, items, 64);
    for (uint32_t k = 0; k < r->code.nout; k++)
        if (r->code.out[k].kind == EW_NONE)
            cpu_put_one(out[k], r->code.out_type[k],
                        r->code.scalar[r->out_scalar[k] * EW_MAX_LANES]);
    return WEFT_OK;
}
