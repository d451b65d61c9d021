/* graph/inputs.c: see inputs.h. */
#include "graph/inputs.h"

#include "base/err.h"
#include "graph/arguments.h"

#include <stdio.h>
#include <string.h>

static const weft_field positions = {.name = GRAPH_POSITIONS, .dtype = WEFT_I32};

static const char *type_name(uint32_t dtype)
{
    return dtype == WEFT_I32 ? "WEFT_I32" : dtype == WEFT_U8 ? "WEFT_U8" : "WEFT_F32 or 0";
}

#define WORD "abcdefghijklmnopqrstuvwxyz0123456789_"
#define MAX_ELEMENTS ((uint64_t)1 << 32) /* of one row */

static weft_status check_field(const weft_field *f)
{
    const size_t n = f->name ? strnlen(f->name, WEFT_MAX_NAME) : 0;
    uint64_t elements = 1;
    if (!n || n == WEFT_MAX_NAME || strspn(f->name, WORD) != n)
        return err_fail(WEFT_USAGE,
                        "the data has a field whose name is not made of a-z, 0-9 and '_', 1 to %d "
                        "bytes",
                        WEFT_MAX_NAME - 1);
    if (!strcmp(f->name, GRAPH_POSITIONS) || !strcmp(f->name, GRAPH_FIRST_TOKEN))
        return err_fail(WEFT_USAGE,
                        "the data has a field '%s', which is the name of an input of the core's "
                        "own",
                        f->name);
    if (f->dtype != WEFT_I32 && f->dtype != WEFT_U8 && f->dtype != WEFT_F32)
        return err_fail(WEFT_UNSUPPORTED,
                        "the field '%s' of the data has the element type %u; there are WEFT_I32, "
                        "WEFT_U8 and WEFT_F32",
                        f->name, f->dtype);
    if (f->flags || f->reserved || f->rank > WEFT_MAX_AXES - 1)
        return err_fail(WEFT_UNSUPPORTED,
                        "the field '%s' of the data has %u axes, flags 0x%x and reserved 0x%x; at "
                        "most %d axes, 0 and 0 are possible",
                        f->name, f->rank, f->flags, f->reserved, WEFT_MAX_AXES - 1);
    weft_shape row = {.dtype = f->dtype, .rank = f->rank + 1, .axes = {{"tokens", 1}}};
    memcpy(row.axes + 1, f->axes, f->rank * sizeof *f->axes);
    weft_status st = graph_check_shape("field", f->name, &row);
    for (uint32_t k = 0; st == WEFT_OK && k < f->rank; k++)
        elements *=
            (uint64_t)f->axes[k].size < MAX_ELEMENTS ? (uint64_t)f->axes[k].size : MAX_ELEMENTS;
    if (st == WEFT_OK && elements >= MAX_ELEMENTS)
        st = err_fail(WEFT_USAGE, "a row of the field '%s' of the data has %llu elements or more",
                      f->name, (unsigned long long)MAX_ELEMENTS);
    return st;
}

weft_status graph_check_fields(const weft_field *fields, uint32_t n)
{
    if (n > GRAPH_MAX_FIELDS || (n && !fields))
        return err_fail(WEFT_USAGE, "the data has %u fields; at most %u are possible", n,
                        GRAPH_MAX_FIELDS);
    for (uint32_t i = 0; i < n; i++) {
        weft_status st = check_field(&fields[i]);
        if (st != WEFT_OK)
            return st;
        if (graph_find_field(fields, i, fields[i].name))
            return err_fail(WEFT_USAGE, "the data has two fields '%s'", fields[i].name);
    }
    return WEFT_OK;
}

const weft_field *graph_find_field(const weft_field *fields, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(fields[i].name, name))
            return &fields[i];
    return strcmp(name, GRAPH_POSITIONS) ? NULL : &positions;
}

weft_tensor graph_first_input(const graph *g)
{
    for (weft_tensor t = 1; t <= g->tensors.n; t++)
        if (graph_tensor_at(g, t)->kind == WEFT_T_INPUT && graph_tensor_at(g, t)->shape.rank)
            return t;
    return 0;
}

/* Rows of a micro-batch; 0: not known before the first input. */
static int64_t rows_of(const graph *g)
{
    const weft_tensor first = g->rows ? 0 : graph_first_input(g);
    return first ? graph_tensor_at(g, first)->shape.axes[0].size : g->rows;
}

static weft_status unknown(const graph *g, const char *name)
{
    char known[1024] = "";
    for (uint32_t i = 0; i < g->nfields; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s, ", g->fields[i].name);
    }
    return err_fail(WEFT_USAGE,
                    "builder.input(): nothing fills an input '%s'; there are %spositions and "
                    "first_token",
                    name, known);
}

/* "WEFT_F32 or 0 [tokens 64, pixels 784]" */
static void describe(const weft_field *f, int64_t rows, char *out, size_t capacity)
{
    size_t used =
        (size_t)snprintf(out, capacity, "%s [tokens %lld", type_name(f->dtype), (long long)rows);
    for (uint32_t k = 0; k < f->rank && used < capacity; k++)
        used += (size_t)snprintf(out + used, capacity - used, ", %s %lld", f->axes[k].name,
                                 (long long)f->axes[k].size);
    if (used < capacity)
        snprintf(out + used, capacity - used, "]");
}

static bool has_shape(const weft_field *f, int64_t rows, const weft_shape *s)
{
    bool same = s->dtype == f->dtype || (f->dtype == WEFT_F32 && !s->dtype);
    same = same && s->rank == f->rank + 1 && !strcmp(s->axes[0].name, "tokens") &&
           s->axes[0].size == rows;
    for (uint32_t k = 0; same && k < f->rank; k++)
        same =
            !strcmp(s->axes[k + 1].name, f->axes[k].name) && s->axes[k + 1].size == f->axes[k].size;
    return same;
}

weft_status graph_check_input(const graph *g, const char *name, const weft_shape *s)
{
    char wanted[512];
    const int64_t rows = rows_of(g);
    if (!strcmp(name, GRAPH_FIRST_TOKEN))
        return s->dtype == WEFT_I64 && !s->rank
                   ? WEFT_OK
                   : err_fail(WEFT_USAGE, "builder.input(): '%s' must be WEFT_I64 []", name);
    const weft_field *f = graph_find_field(g->fields, g->nfields, name);
    if (!f && g->fields)
        return unknown(g, name);
    if (!f && (!s->rank || strcmp(s->axes[0].name, "tokens") || (rows && s->axes[0].size != rows)))
        return err_fail(WEFT_USAGE, "builder.input(): '%s' must have the first axis [tokens %lld]",
                        name, (long long)rows);
    if (!f || has_shape(f, rows ? rows : s->axes[0].size, s))
        return WEFT_OK;
    describe(f, rows, wanted, sizeof wanted);
    return err_fail(WEFT_USAGE, "builder.input(): '%s' must be %s", name, wanted);
}
