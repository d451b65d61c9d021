/* flat.h: the ops that know no axes: sums of flat ranges, and the order of elements. */
#ifndef OPS_REFEREE_FLAT_H
#define OPS_REFEREE_FLAT_H

#include "harness.h"

/* As referee(); 0: the op is none of these. */
int referee_flat(const struct call *c);

#endif
