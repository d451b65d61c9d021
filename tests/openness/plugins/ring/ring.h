/* ring.h: what the strategy, the op and the kernel of ring attention share. */
#ifndef ACME_RING_H
#define ACME_RING_H

#include <string.h>
#include <weft/coll.h>
#include <weft/device.h>
#include <weft/op.h>
#include <weft/plugin.h>
#include <weft/strategy.h>

#define ATTEND "acme.ring.attend"
#define ATTEND_DX "acme.ring.attend.dx"

/* Operands of ATTEND: qkv, moved, and from the second round on what the rounds before have made.
 * Those of ATTEND_DX: the gradients of its outputs, its inputs, its outputs. */
enum { QKV, MOVED, Y_BEFORE, LSE_BEFORE, FIRST_ROUND = 2, LATER_ROUND = 4 };
enum { Y, LSE, OUTPUTS };
enum { ALL = OUTPUTS + LATER_ROUND + OUTPUTS };

extern const weft_op ring_attend, ring_attend_dx;
extern const weft_kernel ring_cpu, ring_cpu_dx;

static inline int64_t ring_attr(const weft_attr *attrs, uint32_t n, const char *key)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(attrs[i].key, key))
            return attrs[i].i;
    return 0;
}

#endif
