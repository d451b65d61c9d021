/* graph/fuse.c: op fusion of elementwise ops into one program that reads memory once.
 *
 * Registers 0 .. nin-1 hold the inputs; every node writes a register of its own. Constants become
 * CONST steps. A program of more registers than devices have is run as several, which whoever
 * emits it cuts (plan/optim/runs.c). An update of AdamW is 13
 * steps over 4 inputs: 28 bytes of traffic an element instead of 100 and more without fusion. */
#include "base/err.h"
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

typedef struct fuser {
    graph *g;
    graph_fused *f;
    uint16_t *reg;   /* [tensor] 1 + its register */
    uint8_t *scalar; /* [tensor] 1 when it has one value for all elements */
    VEC(weft_ew_step) steps;
    uint16_t next;
} fuser;

static weft_status take_register(fuser *u, uint16_t *out)
{
    if (u->next == UINT16_MAX - 1)
        return err_fail(WEFT_UNSUPPORTED, "an elementwise chain has more than %u steps",
                        UINT16_MAX - 1u);
    *out = u->next++;
    return WEFT_OK;
}

static bool written_before(const graph *g, uint32_t first, uint32_t end, weft_tensor t)
{
    for (uint32_t i = first; i < end; i++)
        for (uint32_t k = 0; k < g->nodes.at[i].nout; k++)
            if (!g->nodes.at[i].assign && g->nodes.at[i].out[k] == t)
                return true;
    return false;
}

/* Inputs first, so that their registers are their positions. */
static weft_status collect_inputs(fuser *u, uint32_t first, uint32_t end, weft_tensor gate)
{
    graph_fused *f = u->f;
    for (uint32_t i = first; i < end + 1; i++) {
        uint32_t n = i < end ? u->g->nodes.at[i].nin : (gate ? 1 : 0);
        for (uint32_t k = 0; k < n; k++) {
            weft_tensor t = i < end ? u->g->nodes.at[i].in[k] : gate;
            const graph_tensor *x = graph_tensor_at(u->g, t);
            if (x->constant || u->reg[t] || written_before(u->g, first, end, t))
                continue;
            if (f->nin == 32)
                return err_fail(WEFT_UNSUPPORTED,
                                "an elementwise chain reads more than 32 tensors");
            f->in[f->nin] = t;
            u->scalar[t] = x->shape.rank == 0;
            u->reg[t] = (uint16_t)(1 + f->nin++);
        }
    }
    u->next = (uint16_t)f->nin;
    return WEFT_OK;
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

static weft_status fuse_node(fuser *u, const graph_node *n)
{
    uint16_t r[3] = {0};
    uint16_t scalar = 1;
    for (uint32_t k = 0; k < n->nin; k++) {
        weft_status st = operand(u, n->in[k], &r[k]);
        if (st != WEFT_OK)
            return st;
        scalar = scalar && u->scalar[n->in[k]];
    }
    uint16_t dst = 0;
    weft_status st = take_register(u, &dst);
    if (st != WEFT_OK)
        return st;
    *vec_push(&u->steps) =
        (weft_ew_step){(uint16_t)n->op->ew, dst, r[0], r[1], r[2], scalar ? WEFT_EW_SCALAR : 0, 0};
    u->reg[n->out[0]] = (uint16_t)(dst + 1);
    u->scalar[n->out[0]] = (uint8_t)scalar;
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
    return f->program.nregs <= WEFT_EW_MAX_REGISTERS;
}

weft_status graph_fuse(graph *g, uint32_t first, uint32_t end, weft_tensor gate, graph_fused *out)
{
    return graph_fuse_wanted(g, first, end, gate, NULL, out);
}

weft_status graph_fuse_wanted(graph *g, uint32_t first, uint32_t end, weft_tensor gate,
                              const bool *wanted, graph_fused *out)
{
    *out = (graph_fused){0};
    fuser u = {.g = g, .f = out};
    u.reg = pool_array(&g->pool, g->tensors.n + 1, sizeof *u.reg);
    u.scalar = pool_array(&g->pool, g->tensors.n + 1, 1);
    uint16_t *out_reg = pool_array(&g->pool, 32, sizeof *out_reg);
    weft_status st = collect_inputs(&u, first, end, gate);
    for (uint32_t i = first; st == WEFT_OK && i < end; i++) {
        const graph_node *n = &g->nodes.at[i];
        if (n->assign)
            st = fuse_output(&u, n->in[0], n->out[0], out_reg);
        else if (n->op && (n->op->flags & WEFT_OP_ELEMENTWISE) && n->nin <= 3)
            st = fuse_node(&u, n);
        else
            st = err_fail(WEFT_UNSUPPORTED, "op %s is not elementwise", n->id);
        if (st == WEFT_OK && wanted && !n->assign && wanted[n->out[0]])
            st = fuse_output(&u, n->out[0], n->out[0], out_reg);
    }
    if (st == WEFT_OK && u.steps.n) {
        weft_ew_step *steps = pool_array(&g->pool, u.steps.n, sizeof *steps);
        memcpy(steps, u.steps.at, u.steps.n * sizeof *steps);
        out->program.steps = steps;
    }
    out->program.struct_size = sizeof(weft_ew_program);
    out->program.nsteps = u.steps.n;
    out->program.nregs = u.next;
    out->program.gate = gate ? u.reg[gate] - 1 : -1;
    out->program.out_reg = out_reg;
    free(u.steps.at);
    return st;
}
