/* ew.c: compiles elementwise programs for kern/ew.cu.
 *
 *   1. Every assignment of a register becomes a value of its own, so that a register may be
 *      assigned again.
 *   2. A division by a scalar becomes a product.
 *   3. Values that depend on scalars and constants alone are computed once a block.
 *   4. A product that only one sum or difference uses is joined with it.
 *   5. The rest become instructions on slots; a slot is used again after its value's last use. What
 *      the next instruction alone reads gets none.
 *
 * Where all operands have one element every value is a scalar. O(n^2) in the steps, once. */
#include "ops.h"
#include <string.h>

enum {
    MAX_STEPS = WEFT_EW_MAX_STEPS,
    MAX_VALUES = WEFT_MAX_OPERANDS + 2 * MAX_STEPS,
    AN_OUTPUT = MAX_STEPS
};

struct value {
    uint32_t op; /* 0: an input */
    uint32_t arg[3];
    float imm;
    bool scalar, dropped;
    uint32_t uses;
    int32_t born, last; /* instructions that make it and that read it last; -1: none */
    uint16_t at;        /* its slot or scalar */
};

struct build {
    const struct gpu_module *m;
    const weft_opspec *spec;
    struct value v[MAX_VALUES];
    uint32_t nvalue, out[WEFT_MAX_OPERANDS];
    int64_t count;
    int32_t gate;
    struct ew_instr instr[MAX_VALUES];
    struct ew_scalar scalar[MAX_VALUES];
    uint32_t ninstr, nscalar, nslot;
    bool taken[MAX_VALUES];
};

struct ew_ready {
    CUdeviceptr code;
    CUfunction known; /* the program's own kernel; NULL: it has the one for any program */
    struct gpu_grid grid;
    bool vectors, scalars; /* it has outputs of these kinds */
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
    return gpu_fail(b->m, WEFT_USAGE, "op %s: %s", b->spec->id, what);
}

/* --- operands --- */

/* One operand: a float type, one element or as many as the others. */
static weft_status operand_count(struct build *b, const weft_operand *o)
{
    const int64_t n = weft_elements(o);
    if (!gpu_is_float(o->dtype) || o->flags)
        return gpu_fail(b->m, WEFT_UNSUPPORTED,
                        "op %s: the cuda device has elementwise ops for dense fp32, bf16 and fp16",
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
    weft_status st = WEFT_OK;
    b->count = 1;
    for (uint32_t k = 0; st == WEFT_OK && k < b->spec->nin; k++)
        st = operand_count(b, &b->spec->in[k]);
    for (uint32_t k = 0; st == WEFT_OK && k < b->spec->nout; k++)
        st = operand_count(b, &b->spec->out[k]);
    return st;
}

static bool is_one(const weft_operand *o)
{
    return weft_elements(o) == 1;
}

/* --- step 1: steps to values --- */

static weft_status number_step(struct build *b, const weft_ew_step *s, uint32_t *now,
                               uint32_t nregs)
{
    const uint32_t reg[3] = {s->a, s->b, s->c};
    struct value *v = &b->v[b->nvalue];
    if (s->op < WEFT_EW_COPY || s->op > WEFT_EW_FLOOR)
        return gpu_fail(b->m, WEFT_UNSUPPORTED, "op %s: the program has an unknown step",
                        b->spec->id);
    *v = (struct value){.op = s->op, .imm = s->imm, .scalar = true};
    for (uint32_t i = 0; i < arity(s->op); i++) {
        if (reg[i] >= nregs || now[reg[i]] == UINT32_MAX)
            return refuse(b, "the program reads a register that has no value");
        v->arg[i] = now[reg[i]];
        v->scalar = v->scalar && b->v[v->arg[i]].scalar;
        b->v[v->arg[i]].uses++;
    }
    if (s->dst >= nregs)
        return refuse(b, "the program writes a register that it does not have");
    now[s->dst] = b->nvalue++;
    return WEFT_OK;
}

static weft_status number_outputs(struct build *b, const weft_ew_program *p, const uint32_t *now)
{
    const weft_opspec *spec = b->spec;
    for (uint32_t k = 0; k < spec->nout; k++) {
        if (p->out_reg[k] >= p->nregs || now[p->out_reg[k]] == UINT32_MAX)
            return refuse(b, "an output has no value");
        b->out[k] = now[p->out_reg[k]];
        b->v[b->out[k]].uses += 2; /* never joined away */
        if (is_one(&spec->out[k]) && !b->v[b->out[k]].scalar)
            return refuse(b, "a tensor cannot be converted to a scalar");
    }
    b->gate = p->gate;
    if (p->gate >= (int32_t)spec->nin ||
        (p->gate >= 0 && (spec->in[p->gate].dtype != WEFT_F32 || !is_one(&spec->in[p->gate]))))
        return refuse(b, "the gate is not an fp32 input of one element");
    return WEFT_OK;
}

static weft_status number_values(struct build *b, const weft_ew_program *p)
{
    uint32_t now[WEFT_EW_MAX_REGISTERS];
    const weft_opspec *spec = b->spec;
    if (p->nregs > WEFT_EW_MAX_REGISTERS || p->nregs < spec->nin || p->nsteps > MAX_STEPS)
        return gpu_fail(b->m, WEFT_UNSUPPORTED,
                        "op %s: %u steps on %u registers are more than the cuda device takes (%d "
                        "on %d)",
                        spec->id, p->nsteps, p->nregs, MAX_STEPS, WEFT_EW_MAX_REGISTERS);
    memset(now, 0xff, sizeof now);
    for (uint32_t k = 0; k < spec->nin; k++) {
        b->v[k] = (struct value){.scalar = is_one(&spec->in[k])};
        now[k] = k;
    }
    b->nvalue = spec->nin;
    for (uint32_t k = 0; k < p->nsteps; k++) {
        weft_status st = number_step(b, &p->steps[k], now, p->nregs);
        if (st != WEFT_OK)
            return st;
    }
    return number_outputs(b, p, now);
}

/* --- steps 2 and 4 --- */

/* x / s becomes x * (1 / s), another rounding of half a last place, where s is a scalar. */
static void invert_divisors(struct build *b)
{
    const uint32_t n = b->nvalue;
    for (uint32_t k = b->spec->nin; k < n; k++) {
        struct value *v = &b->v[k];
        if (v->op != WEFT_EW_DIV || v->scalar || !b->v[v->arg[1]].scalar)
            continue;
        b->v[b->nvalue] =
            (struct value){.op = EW_INVERSE, .arg = {v->arg[1]}, .scalar = true, .uses = 1};
        v->op = WEFT_EW_MUL;
        v->arg[1] = b->nvalue++;
    }
}

/* x + a b, a b + x and x - a b become one instruction where a b has no other use. */
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

/* --- steps 3 and 5 --- */

static void add_scalar(struct build *b, uint32_t k)
{
    struct value *v = &b->v[k];
    struct ew_scalar *s = &b->scalar[b->nscalar];
    uint16_t *to[3] = {&s->a, &s->b, &s->c};
    *s = (struct ew_scalar){.op = (uint16_t)v->op, .imm = v->imm};
    if (v->op == 0)
        *s = (struct ew_scalar){.op = EW_INPUT, .a = (uint16_t)k};
    for (uint32_t i = 0; v->op != 0 && i < arity(v->op); i++)
        *to[i] = b->v[v->arg[i]].at & (uint16_t)~EW_SCALAR;
    v->at = (uint16_t)(EW_SCALAR | b->nscalar++);
}

/* Number scalars and instructions, and find each value's last use. */
static void order_values(struct build *b)
{
    for (uint32_t k = 0; k < b->nvalue; k++) {
        struct value *v = &b->v[k];
        v->born = v->last = -1;
        if (v->scalar) {
            add_scalar(b, k);
        } else if (v->op != 0 && !v->dropped) {
            for (uint32_t i = 0; i < arity(v->op); i++)
                b->v[v->arg[i]].last = (int32_t)b->ninstr;
            v->born = (int32_t)b->ninstr++;
        }
    }
    for (uint32_t k = 0; k < b->spec->nout; k++)
        b->v[b->out[k]].last = AN_OUTPUT;
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

/* Whether only the next instruction reads the value, or, of the last one, only the outputs. */
static bool passes_on(const struct build *b, const struct value *v)
{
    const bool last = v->born + 1 == (int32_t)b->ninstr;
    return v->last == v->born + 1 || (last && v->last == AN_OUTPUT) || v->last < 0;
}

static void place_instr(struct build *b, struct value *v)
{
    struct ew_instr *s = &b->instr[v->born];
    uint16_t *to[3] = {&s->a, &s->b, &s->c};
    *s =
        (struct ew_instr){.op = (uint16_t)v->op, .a = EW_NOWHERE, .b = EW_NOWHERE, .c = EW_NOWHERE};
    for (uint32_t i = 0; i < arity(v->op); i++) {
        const struct value *x = &b->v[v->arg[i]];
        *to[i] = !x->scalar && x->born >= 0 && x->born + 1 == v->born ? EW_BEFORE : x->at;
    }
    for (uint32_t i = 0; i < arity(v->op); i++) {
        const struct value *x = &b->v[v->arg[i]];
        if (!x->scalar && x->last == v->born && x->at < EW_NOWHERE)
            b->taken[x->at] = false;
    }
    v->at = passes_on(b, v) ? EW_NOWHERE : take_slot(b);
    s->dst = v->at;
}

static void place_values(struct build *b)
{
    for (uint32_t k = 0; k < b->spec->nin; k++)
        if (!b->v[k].scalar)
            b->v[k].at = b->v[k].last >= 0 ? take_slot(b) : EW_NOWHERE;
    for (uint32_t k = b->spec->nin; k < b->nvalue; k++)
        if (b->v[k].born >= 0)
            place_instr(b, &b->v[k]);
}

/* --- all together --- */

/* The program of an op that is one step. */
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

static weft_status build_program(struct build *b, const struct gpu_module *m, uint32_t ew,
                                 const weft_opspec *spec)
{
    weft_ew_step step;
    uint16_t out;
    weft_ew_program single;
    const weft_ew_program *p = spec->program;
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

GPU_PLAN(plan_ew)
{
    (void)match;
    (void)workspace;
    struct build *b = m->host->alloc(m->host->ctx, sizeof *b, 0);
    if (!b)
        return gpu_fail(m, WEFT_NO_MEMORY, "op %s: no memory to read its program", spec->id);
    weft_status st = build_program(b, m, op->form, spec);
    z->rows = b->count;
    m->host->free(m->host->ctx, b);
    return st;
}

static void describe(const struct build *b, struct ew_code *c)
{
    *c = (struct ew_code){.count = b->count,
                          .nin = b->spec->nin,
                          .nout = b->spec->nout,
                          .ninstr = b->ninstr,
                          .nscalar = b->nscalar,
                          .nslot = b->nslot,
                          .gate = b->gate < 0 ? -1 : b->v[b->gate].at & (uint16_t)~EW_SCALAR};
    for (uint32_t k = 0; k < c->nin; k++) {
        c->in_type[k] = (uint8_t)b->spec->in[k].dtype;
        c->in_slot[k] = b->v[k].scalar ? (uint16_t)EW_NOWHERE : b->v[k].at;
    }
    for (uint32_t k = 0; k < c->nout; k++) {
        const struct value *v = &b->v[b->out[k]];
        c->out_type[k] = (uint8_t)b->spec->out[k].dtype;
        c->out_one[k] = is_one(&b->spec->out[k]);
        c->out[k] = v->at == EW_NOWHERE ? (uint16_t)EW_BEFORE : v->at;
    }
}

/* Threads of a block, and its shared memory, that the GPU has room for. */
static weft_status set_grid(weft_prepared *p, const struct build *b, struct ew_ready *r)
{
    const uint64_t head = ((uint64_t)b->nscalar * sizeof(float) + 15) / 16 * 16 +
                          ((uint64_t)b->ninstr * sizeof(struct ew_instr) + 15) / 16 * 16;
    const uint64_t room = (uint64_t)p->d->shared - 1024; /* the driver's, and the code's head */
    const uint64_t slots = !r->known ? b->nslot : 0;     /* a known program has registers */
    uint64_t threads = EW_THREADS, bytes = 0;
    for (;; threads /= 2) {
        bytes = head + threads * slots * WIDE * sizeof(float);
        if (bytes <= room || threads == 32)
            break;
    }
    if (bytes > room)
        return gpu_fail(p->d->m, WEFT_UNSUPPORTED,
                        "op %s: a program with %u values at once is more than this GPU takes",
                        p->op->id, b->nslot);
    const int64_t tile = (int64_t)threads * WIDE, tiles = (b->count + tile - 1) / tile;
    int64_t each = (int64_t)(room / (bytes + 1024)); /* blocks of a multiprocessor at once */
    each = each < 1 ? 1 : each > EW_RESIDENT ? EW_RESIDENT : each;
    const int64_t resident = each * p->d->processors;
    r->grid = (struct gpu_grid){tiles < resident ? tiles : resident, 1, (uint32_t)threads,
                                (uint32_t)bytes};
    return gpu_check(p->d,
                     p->d->cu->cuFuncSetAttribute(
                         p->f[0], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)room),
                     "giving a kernel its shared memory");
}

/* The code into memory of its own. */
static weft_status place_code(weft_prepared *p, const struct build *b, const struct ew_code *head,
                              struct ew_ready *r)
{
    const weft_host *host = p->d->m->host;
    const uint64_t instrs = b->ninstr * sizeof *b->instr, scalars = b->nscalar * sizeof *b->scalar;
    const uint64_t bytes = sizeof(struct ew_code) + instrs + scalars;
    char *code = host->alloc(host->ctx, bytes, 16);
    if (!code)
        return gpu_fail(p->d->m, WEFT_NO_MEMORY, "op %s: no memory for its program", p->op->id);
    memcpy(code, head, sizeof *head);
    memcpy(code + sizeof *head, b->instr, instrs);
    memcpy(code + sizeof *head + instrs, b->scalar, scalars);
    for (uint32_t k = 0; k < head->nout; k++) {
        r->scalars |= head->out_one[k] != 0;
        r->vectors |= head->out_one[k] == 0;
    }
    weft_status st = gpu_own_memory(p->d, bytes, &r->code);
    if (st == WEFT_OK)
        st = gpu_upload(p->d, r->code, code, bytes);
    host->free(host->ctx, code);
    return st;
}

weft_status ready_ew(weft_prepared *p, const weft_opspec *spec)
{
    const weft_host *host = p->d->m->host;
    struct build *b = host->alloc(host->ctx, sizeof *b, 0);
    struct ew_ready *r = host->alloc(host->ctx, sizeof *r, 0);
    struct ew_code head;
    weft_status st = WEFT_NO_MEMORY;
    p->extra = r;
    if (b && r)
        st = build_program(b, p->d->m, p->op->form, spec);
    if (st == WEFT_OK) {
        describe(b, &head);
        const char *kernel = gpu_known_kernel(&head, b->instr);
        st = kernel ? gpu_find_kernel(p->d, kernel, 0, &r->known) : WEFT_OK;
    }
    if (st == WEFT_OK)
        st = set_grid(p, b, r);
    if (st == WEFT_OK)
        st = place_code(p, b, &head, r);
    host->free(host->ctx, b);
    if (st != WEFT_OK && r)
        drop_ew(p);
    return st;
}

void drop_ew(weft_prepared *p)
{
    struct ew_ready *r = p->extra;
    gpu_free_memory(p->d, r->code);
    p->d->m->host->free(p->d->m->host->ctx, r);
}

/* Scalar outputs are written last, when no other output still reads what they alias. */
GPU_RUN(run_ew)
{
    const struct ew_ready *r = p->extra;
    struct ew_job j = {.code = (const struct ew_code *)(uintptr_t)r->code};
    struct gpu_grid one = r->grid;
    (void)ws;
    one.x = 1;
    for (uint32_t k = 0; k < p->nin; k++)
        j.in[k] = in[k];
    for (uint32_t k = 0; k < p->nout; k++)
        j.out[k] = out[k];
    const CUfunction f = r->known ? r->known : p->f[0];
    weft_status st = r->vectors ? gpu_launch(p->d, f, s, r->grid, &j) : WEFT_OK;
    j.scalars = 1;
    return st == WEFT_OK && r->scalars ? gpu_launch(p->d, p->f[0], s, one, &j) : st;
}
