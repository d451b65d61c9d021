/* check/reference/call.c: an op with operands and values. See call.h. */
#include "check/reference/call.h"

#include "base/mem.h"
#include "base/number/half.h"
#include "check/harness/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

weft_operand check_operand(const weft_shape *s)
{
    weft_operand o = {.dtype = s->dtype, .rank = s->rank};
    for (uint32_t i = 0; i < s->rank; i++)
        o.size[i] = s->axes[i].size;
    return o;
}

int64_t check_operand_count(const weft_operand *o)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < o->rank; i++)
        n *= o->size[i];
    return o->dtype ? n : 0;
}

uint64_t check_operand_bytes(const weft_operand *o)
{
    return (uint64_t)check_operand_count(o) * weft_dtype_size(o->dtype);
}

double check_operand_get(uint32_t dtype, const void *at, int64_t i)
{
    switch (dtype) {
    case WEFT_F32: return (double)((const float *)at)[i];
    case WEFT_BF16: return (double)bf16_value(((const uint16_t *)at)[i]);
    case WEFT_F16: return (double)f16_value(((const uint16_t *)at)[i]);
    case WEFT_F64: return ((const double *)at)[i];
    case WEFT_I64: return (double)((const int64_t *)at)[i];
    case WEFT_I32: return ((const int32_t *)at)[i];
    default: return ((const uint8_t *)at)[i];
    }
}

void check_operand_put(uint32_t dtype, void *at, int64_t i, double v)
{
    switch (dtype) {
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

double check_operand_rounded(uint32_t dtype, double v)
{
    uint64_t cell;
    check_operand_put(dtype, &cell, 0, v);
    return check_operand_get(dtype, &cell, 0);
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

static double *add(weft_operand *o, double **values, uint32_t dtype, uint32_t rank,
                   const int64_t *size)
{
    *o = (weft_operand){.dtype = dtype, .rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        o->size[i] = size[i];
    return *values = mem_alloc((uint64_t)check_operand_count(o) * sizeof **values);
}

double *check_call_room(check_call *c, uint32_t dtype, uint32_t rank, const int64_t *size)
{
    const uint32_t k = c->nin++;
    return add(&c->in[k], &c->x[k], dtype, rank, size);
}

double *check_call_in(check_call *c, uint32_t dtype, uint32_t rank, const int64_t *size, double lo,
                      double hi)
{
    uint64_t state = c->nin + 1;
    double *x = check_call_room(c, dtype, rank, size);
    for (int64_t i = 0, n = check_operand_count(&c->in[c->nin - 1]); i < n; i++)
        x[i] = check_operand_rounded(dtype, lo + (hi - lo) * (double)(check_random(&state) >> 11) *
                                                     0x1p-53);
    return x;
}

double *check_call_out(check_call *c, uint32_t dtype, uint32_t rank, const int64_t *size)
{
    const uint32_t k = c->nout++;
    return add(&c->out[k], &c->y[k], dtype, rank, size);
}

void check_call_from(check_call *c, weft_shape s, double *values)
{
    c->in[c->nin] = check_operand(&s);
    c->x[c->nin++] = values;
}

void check_call_to(check_call *c, weft_shape s, double *values)
{
    c->out[c->nout] = check_operand(&s);
    c->y[c->nout++] = values;
}

bool check_call_attrs(check_call *c, const weft_attr *attrs, uint32_t n)
{
    c->nattr = n <= CHECK_CALL_ATTRS ? n : 0;
    for (uint32_t i = 0; i < c->nattr; i++)
        c->attrs[i] = attrs[i];
    return c->nattr == n;
}

const weft_attr *check_call_attr(const check_call *c, const char *key)
{
    static const weft_attr none = {0};
    for (uint32_t k = 0; k < c->nattr; k++)
        if (!strcmp(c->attrs[k].key, key))
            return &c->attrs[k];
    return &none;
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
