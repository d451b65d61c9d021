/* check/elementwise.h: what each elementwise op gives, in double precision. Rules and devices are
 * judged by it here, and ops by the tests of weft's own devices (tests/ops/referee). */
#ifndef CHECK_ELEMENTWISE_H
#define CHECK_ELEMENTWISE_H

#include <weft/op.h>

/* `ew`: a WEFT_EW_ other than WEFT_EW_CONST. Numbers that the op does not read are 0. */
double check_elementwise(uint32_t ew, double a, double b, double c);

/* The WEFT_EW_ of the op with this id; 0: it is not elementwise. */
uint32_t check_elementwise_number(const char *id);

#endif
