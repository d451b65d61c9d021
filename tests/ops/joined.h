/* joined.h: ops that a device does as one: calls, and what they are to give. */
#ifndef OPS_JOINED_H
#define OPS_JOINED_H

#include "cases.h"

int is_joined(const char *id);
void make_joined(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt);
void reference_joined(const check_call *c);

#endif
