/* graph/fuse.c: op fusion of elementwise ops into one program that reads memory once.
 *
 * Registers 0 .. nin-1 hold the inputs; every node writes a register of its own. Constants become
 * CONST steps. Where that takes more registers than devices have, the last use of a value frees its
 * register. A program that needs too many even so is run as several, which whoever emits it cuts
 * (plan/optim/runs.c). An update of AdamW is 13 steps over 4 inputs: 28 bytes of traffic an element
 * instead of 100 and more without fusion. */
#include "base/err.h"
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

typedef struct fuser {
    const graph *g;
    graph_fused *f;
    uint16_t *reg;   /* [tensor] 1 + its register */
    uint8_t *scalar; /* [tensor] 1 when it has one value for all elements */
    uint32_t *last;  /* [tensor] 1 + the last node that reads or makes it; FOR_GOOD: to the end */
    uint32_t values; /* inputs, constants, results */
    bool *taken;     /* [register] */
    VEC(weft_ew_step) steps;
} fuser;

#define FOR_GOOD UINT32_MAX

static weft_status count_operand(fuser *u, weft_tensor t, uint32_t last)
{
    graph_fused *f = u->f;
    const graph_tensor *x = graph_tensor_at(u->g, t);
    const bool known = u->last[t] != 0;
    u->values += !known;
    u->last[t] = last > u->last[t] ? last : u->last[t];
    if (known || x->constant)
        return WEFT_OK;
    if (f->nin == 32)
        return err_fail(WEFT_UNSUPPORTED, "an elementwise chain reads more than 32 tensors");
    f->in[f->nin] = t;
    u->scalar[t] = x->shape.rank == 0;
    u->reg[t] = (uint16_t)(1 + f->nin++);
    return WEFT_OK;
}

/* Find the inputs, whose registers are their positions, and the last use of each value. */
static weft_status count_values(fuser *u, const graph_nodes *nodes, weft_tensor gate,
                                const bool *wanted, pool *memory)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < nodes->n; i++) {
        const graph_node *n = &nodes->at[i];
        for (uint32_t k = 0; st == WEFT_OK && k < n->nin; k++)
            st = count_operand(u, n->in[k], n->assign ? FOR_GOOD : i + 1);
        if (n->assign)
            continue;
        u->last[n->out[0]] = wanted && wanted[n->out[0]] ? FOR_GOOD : i + 1;
        u->values++;
    }
    if (st == WEFT_OK && gate)
        st = count_operand(u, gate, FOR_GOOD);
    u->f->program.nregs = u->f->nin;
    u->taken = pool_array(memory, u->values + 1, sizeof *u->taken);
    memset(u->taken, true, u->f->nin);
    return st;
}

static weft_status take_register(fuser *u, uint16_t *out)
{
    uint32_t r = 0;
    while (u->taken[r])
        r++;
    if (r == UINT16_MAX - 1)
        return err_fail(WEFT_UNSUPPORTED, "an elementwise chain has more than %u values at once",
                        UINT16_MAX - 1u);
    u->taken[r] = true;
    if (r >= u->f->program.nregs)
        u->f->program.nregs = r + 1;
    *out = (uint16_t)r;
    return WEFT_OK;
}

/* Free the register of `t` if no node after `i` reads it. */
static void free_register(fuser *u, weft_tensor t, uint32_t i)
{
    if (u->values > WEFT_EW_MAX_REGISTERS && u->last[t] <= i + 1)
        u->taken[u->reg[t] - 1] = false;
}

static weft_status operand(fuser *u, weft_tensor t, uint16_t *out)
{
    const graph_tensor *x = graph_tensor_at(u->g, t);
    if (!u->reg[t]) { /* a constant at its first use */
        uint16_t r = 0;
        weft_status st = take_register(u, &r);
        if (st != WEFT_OK)
            return st;
        *vec_push(&u->steps) = (weft_ew_step){
            .op = WEFT_EW_CONST, .dst = r, .flags = WEFT_EW_SCALAR, .imm = (float)x->value};
        u->reg[t] = (uint16_t)(r + 1);
        u->scalar[t] = 1;
    }
    *out = (uint16_t)(u->reg[t] - 1);
    return WEFT_OK;
}

static weft_status fuse_node(fuser *u, const graph_node *n, uint32_t i)
{
    uint16_t r[3] = {0};
    uint16_t scalar = 1;
    for (uint32_t k = 0; k < n->nin; k++) {
        weft_status st = operand(u, n->in[k], &r[k]);
        if (st != WEFT_OK)
            return st;
        scalar = scalar && u->scalar[n->in[k]];
    }
    for (uint32_t k = 0; k < n->nin; k++)
        free_register(u, n->in[k], i);
    uint16_t dst = 0;
    weft_status st = take_register(u, &dst);
    if (st != WEFT_OK)
        return st;
    *vec_push(&u->steps) =
        (weft_ew_step){(uint16_t)n->op->ew, dst, r[0], r[1], r[2], scalar ? WEFT_EW_SCALAR : 0, 0};
    u->reg[n->out[0]] = (uint16_t)(dst + 1);
    u->scalar[n->out[0]] = (uint8_t)scalar;
    free_register(u, n->out[0], i);
    return WEFT_OK;
}

/* Output `to` takes the value of `from`. */
static weft_status fuse_output(fuser *u, weft_tensor from, weft_tensor to, uint16_t *out_reg)
{
    graph_fused *f = u->f;
    uint16_t r = 0;
    weft_status st = operand(u, from, &r);
    if (st != WEFT_OK)
        return st;
    if (f->nout == 32)
        return err_fail(WEFT_UNSUPPORTED, "an elementwise chain writes more than 32 tensors");
    out_reg[f->nout] = r;
    f->out[f->nout++] = to;
    return WEFT_OK;
}

bool graph_fused_fits(const graph_fused *f)
{
    return f->program.nregs <= WEFT_EW_MAX_REGISTERS && f->program.nsteps <= WEFT_EW_MAX_STEPS;
}

weft_status graph_fuse(const graph *g, const graph_nodes *nodes, weft_tensor gate,
                       const bool *wanted, pool *memory, graph_fused *out)
{
    *out = (graph_fused){0};
    fuser u = {.g = g, .f = out};
    u.reg = pool_array(memory, g->tensors.n + 1, sizeof *u.reg);
    u.scalar = pool_array(memory, g->tensors.n + 1, 1);
    u.last = pool_array(memory, g->tensors.n + 1, sizeof *u.last);
    uint16_t *out_reg = pool_array(memory, 32, sizeof *out_reg);
    weft_status st = count_values(&u, nodes, gate, wanted, memory);
    for (uint32_t i = 0; st == WEFT_OK && i < nodes->n; i++) {
        const graph_node *n = &nodes->at[i];
        if (n->assign)
            st = fuse_output(&u, n->in[0], n->out[0], out_reg);
        else if (n->op && (n->op->flags & WEFT_OP_ELEMENTWISE) && n->nin <= 3)
            st = fuse_node(&u, n, i);
        else
            st = err_fail(WEFT_UNSUPPORTED, "op %s is not elementwise", n->id);
        if (st == WEFT_OK && wanted && !n->assign && wanted[n->out[0]])
            st = fuse_output(&u, n->out[0], n->out[0], out_reg);
    }
    if (st == WEFT_OK && u.steps.n)
        out->program.steps = pool_copy(memory, u.steps.at, u.steps.n * sizeof *u.steps.at);
    out->program.struct_size = sizeof(weft_ew_program);
    out->program.nsteps = u.steps.n;
    out->program.gate = gate ? u.reg[gate] - 1 : -1;
    out->program.out_reg = out_reg;
    free(u.steps.at);
    return st;
}
