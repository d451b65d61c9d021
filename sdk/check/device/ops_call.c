/* check/device/ops_call.c: an op with operands and values. See ops.h. */
#include "base/mem.h"
#include "base/number/half.h"
#include "check/device/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t check_operand_count(const weft_operand *o)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < o->rank; i++)
        n *= (uint64_t)o->size[i];
    return o->dtype ? n : 0;
}

uint64_t check_operand_bytes(const weft_operand *o)
{
    return check_operand_count(o) * weft_dtype_size(o->dtype);
}

double check_operand_get(const weft_operand *o, const void *at, uint64_t i)
{
    switch (o->dtype) {
    case WEFT_F32: return (double)((const float *)at)[i];
    case WEFT_BF16: return (double)bf16_value(((const uint16_t *)at)[i]);
    case WEFT_F16: return (double)f16_value(((const uint16_t *)at)[i]);
    case WEFT_F64: return ((const double *)at)[i];
    case WEFT_I64: return (double)((const int64_t *)at)[i];
    case WEFT_I32: return ((const int32_t *)at)[i];
    default: return ((const uint8_t *)at)[i];
    }
}

void check_operand_put(const weft_operand *o, void *at, uint64_t i, double v)
{
    switch (o->dtype) {
    case WEFT_F32: ((float *)at)[i] = (float)v; break;
    case WEFT_BF16: ((uint16_t *)at)[i] = bf16_from((float)v); break;
    case WEFT_F16: ((uint16_t *)at)[i] = f16_from((float)v); break;
    case WEFT_F64: ((double *)at)[i] = v; break;
    case WEFT_I64: ((int64_t *)at)[i] = (int64_t)v; break;
    case WEFT_I32: ((int32_t *)at)[i] = (int32_t)v; break;
    default: ((uint8_t *)at)[i] = (uint8_t)v; break;
    }
}

double check_operand_unit(uint32_t dtype)
{
    return dtype == WEFT_BF16 ? 0x1p-8 : dtype == WEFT_F16 ? 0x1p-10 : 0x1p-23;
}

double check_call_before(uint64_t i)
{
    return (double)(i % 7) - 3;
}

/* --- building --- */

void check_call_begin(check_call *c, const char *id)
{
    memset(c, 0, sizeof *c);
    c->id = id;
}

void check_call_end(check_call *c)
{
    for (uint32_t k = 0; k < WEFT_MAX_OPERANDS; k++) {
        free(c->x[k]);
        free(c->y[k]);
        free(c->slack[k]);
        c->x[k] = c->y[k] = c->slack[k] = NULL;
    }
}

static void set_operand(weft_operand *o, uint32_t dtype, uint32_t rank, const int64_t *size)
{
    *o = (weft_operand){.dtype = dtype, .rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        o->size[i] = size[i];
}

double *check_call_in(check_call *c, uint32_t dtype, uint32_t rank, const int64_t *size, double lo,
                      double hi)
{
    weft_operand *o = &c->in[c->nin];
    uint64_t state = c->nin + 1, cell;
    set_operand(o, dtype, rank, size);
    const uint64_t n = check_operand_count(o);
    double *x = c->x[c->nin++] = mem_alloc(n * sizeof *x);
    for (uint64_t i = 0; i < n; i++) { /* rounded to the type */
        const double v = lo + (hi - lo) * ldexp((double)(check_random(&state) >> 11), -53);
        check_operand_put(o, &cell, 0, v);
        x[i] = check_operand_get(o, &cell, 0);
    }
    return x;
}

double *check_call_out(check_call *c, uint32_t dtype, uint32_t rank, const int64_t *size)
{
    weft_operand *o = &c->out[c->nout];
    set_operand(o, dtype, rank, size);
    const uint64_t n = check_operand_count(o);
    c->slack[c->nout] = mem_alloc(n * sizeof(double));
    memset(c->slack[c->nout], 0, n * sizeof(double));
    return c->y[c->nout++] = mem_alloc(n * sizeof(double));
}

weft_opspec check_call_spec(const check_call *c)
{
    return (weft_opspec){.struct_size = sizeof(weft_opspec),
                         .flags = c->flags,
                         .id = c->id,
                         .attrs = c->attrs,
                         .nattr = c->nattr,
                         .nin = c->nin,
                         .nout = c->nout,
                         .in = c->in,
                         .out = c->out,
                         .program = c->program};
}

/* --- messages --- */

static const char *type_name(uint32_t dtype)
{
    static const char *const names[] = {"none",  "fp32",  "bf16", "fp16",
                                        "int32", "int64", "fp64", "u8"};
    return dtype < sizeof names / sizeof *names ? names[dtype] : "unknown";
}

static size_t shape_text(char *to, size_t capacity, const weft_operand *o)
{
    size_t used = (size_t)snprintf(to, capacity, "%s[", type_name(o->dtype));
    for (uint32_t i = 0; i < o->rank && used < capacity; i++)
        used += (size_t)snprintf(to + used, capacity - used, "%s%lld", i ? ", " : "",
                                 (long long)o->size[i]);
    if (used < capacity)
        used += (size_t)snprintf(to + used, capacity - used, "]");
    return used < capacity ? used : capacity;
}

const char *check_call_what(check_call *c)
{
    const size_t capacity = sizeof c->what;
    size_t used = (size_t)snprintf(c->what, capacity, "%.80s of ", c->id);
    for (uint32_t k = 0; k < c->nin && used + 40 < capacity; k++) {
        if (k)
            used += (size_t)snprintf(c->what + used, capacity - used, ", ");
        used += shape_text(c->what + used, capacity - used, &c->in[k]);
    }
    return c->what;
}
