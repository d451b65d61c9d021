/* check/reference/call.h: a call of an op: operands with their values in double precision.
 *
 * Checks of devices, checks of rules and the tests of weft's own devices write such calls;
 * reference.h computes them. */
#ifndef CHECK_REFERENCE_CALL_H
#define CHECK_REFERENCE_CALL_H

#include <stdbool.h>
#include <weft/device.h>
#include <weft/graph.h>

#define CHECK_CALL_ATTRS 28u

typedef struct check_call {
    const char *id;
    char what[200]; /* "linear of [32, 16], [8, 16] in fp32": for messages */
    weft_attr attrs[CHECK_CALL_ATTRS];
    uint32_t nattr, flags, nin, nout;
    uint32_t ew;     /* the operation of an elementwise op; 0: it follows from the id */
    bool shape_last; /* of the last input only the shape is used */
    uint32_t over[WEFT_MAX_OPERANDS]; /* k > 0: the output may lie over input k - 1 */
    weft_operand in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS]; /* dtype 0: nobody reads it */
    const weft_ew_program *program;
    double *x[WEFT_MAX_OPERANDS];     /* the values of the inputs, exact in their types */
    double *y[WEFT_MAX_OPERANDS];     /* those of the outputs, and */
    double *slack[WEFT_MAX_OPERANDS]; /* by how much each may differ; NULL: not at all */
} check_call;

/* An empty call; then operands of these sizes, with room for values that the type can hold:
 * check_call_in() makes them uniform in [lo, hi), the others are zeros. */
void check_call_begin(check_call *c, const char *id);
double *check_call_room(check_call *c, uint32_t dtype, uint32_t rank, const int64_t *size);
double *check_call_in(check_call *c, uint32_t dtype, uint32_t rank, const int64_t *size, double lo,
                      double hi);
double *check_call_out(check_call *c, uint32_t dtype, uint32_t rank, const int64_t *size);
void check_call_end(check_call *c); /* frees the values */

/* Operands of shapes of a graph, whose values the caller keeps: without check_call_end(). */
void check_call_from(check_call *c, weft_shape s, double *values);
void check_call_to(check_call *c, weft_shape s, double *values);

/* The attributes of a call; false: they are more than it has room for. */
bool check_call_attrs(check_call *c, const weft_attr *attrs, uint32_t n);

/* An attribute; all zeros: the call has none of that name. */
const weft_attr *check_call_attr(const check_call *c, const char *key);

weft_opspec check_call_spec(const check_call *c);
const char *check_call_what(check_call *c); /* writes c->what from the operands */

weft_operand check_operand(const weft_shape *s);    /* its type and sizes */
int64_t check_operand_count(const weft_operand *o); /* 0 of an operand that nobody reads */
uint64_t check_operand_bytes(const weft_operand *o);
double check_operand_get(uint32_t dtype, const void *at, int64_t i);
void check_operand_put(uint32_t dtype, void *at, int64_t i, double v); /* to nearest even */
double check_operand_rounded(uint32_t dtype, double v);
double check_operand_unit(uint32_t dtype); /* relative error of rounding to the type */

#endif
