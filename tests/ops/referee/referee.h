/* referee.h: every op in naive double-precision loops: what the device is judged by. */
#ifndef OPS_REFEREE_H
#define OPS_REFEREE_H

#include "harness.h"

/* Put into c->y what the op gives for c->x (added to what y holds, if the call accumulates). */
void referee(const struct call *c);

/* axis.c: its part for ops along an axis and batched products. */
void referee_axis(const struct call *c);

/* random.c: random and dropout. 0: the op is neither. */
int referee_random(const struct call *c);

/* cached.c: ops on caches. 0: the op is none. */
int referee_cached(const struct call *c);

/* rope.c; 0: the op is another. */
int referee_rope(const struct call *c);

#endif
