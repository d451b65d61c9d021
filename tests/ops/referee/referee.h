/* referee.h: every op in naive double-precision loops: what devices, gradients and splits of graphs
 * are judged by. An op is evaluated from its shapes alone, so that it may be a rank's part of one.
 * An id that has no entry here fails. Include cmocka.h before it. */
#ifndef REFEREE_H
#define REFEREE_H

#include <stdint.h>
#include <weft/device.h>

/* A call of an op: operands, and their values in double. Before a call that accumulates, `out`
 * values are what the outputs hold; afterwards they are what is right. */
struct call {
    const char *id;
    weft_attr attr[16];
    uint32_t nattr, nin, nout, flags;
    weft_operand in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
    double *x[WEFT_MAX_OPERANDS], *y[WEFT_MAX_OPERANDS]; /* an output of type 0 is not read */
    const weft_ew_program *program;
    int alias[WEFT_MAX_OPERANDS]; /* output k lies over input alias[k]-1; 0: nowhere */
};

int64_t count_of(const weft_operand *o);

/* An attribute; all zeros: the call has none of that name. */
const weft_attr *call_attr(const struct call *c, const char *key);

/* Element i of output k is `v`, or has it added. */
void put(const struct call *c, uint32_t k, int64_t i, double v);

/* Put into c->y what the op gives for c->x (added to what y holds, if the call accumulates). */
void referee(const struct call *c);

/* Its parts, a file each. 0: the op is none of theirs. */
int referee_axis(const struct call *c);     /* along an axis, and batched products */
int referee_cached(const struct call *c);   /* on caches of keys and values */
int referee_elements(const struct call *c); /* element by element, and casts */
int referee_flat(const struct call *c);     /* that know no axes */
int referee_random(const struct call *c);
int referee_rope(const struct call *c);

/* Does the op give other axes to the same numbers? */
int referee_relabels(const char *id);

#endif
