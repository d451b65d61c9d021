/* infer.c: shape inference from a signature (builtin.h).
 *
 * The operands are matched from left to right. A letter is bound to axes at its first use; later
 * uses must have the same axes. A group takes the axes that the other letters of its operand leave,
 * so an operand may have one unbound group. */
#include <stdio.h>
#include <string.h>

#include "builtin.h"

#define FIRST_LETTER '0'
#define LETTERS ('z' - FIRST_LETTER + 1)

typedef struct operand {
    char name[16];
    bool optional;
    uint32_t dtype; /* 0: the compute type */
    uint32_t n;
    char letter[WEFT_MAX_AXES]; /* capitals are groups */
} operand;

typedef struct bound {
    uint32_t n;  /* 0: not yet */
    uint32_t by; /* the input that bound it */
    weft_axis axes[WEFT_MAX_AXES];
} bound;

typedef struct match {
    const char *signature; /* without the op's id, which the graph puts before a failure */
    const weft_builder *b;
    const weft_shape *in;
    uint32_t nin, dtype; /* dtype: the compute type, once known */
    operand ops[WEFT_MAX_OPERANDS];
    bound of[LETTERS]; /* by letter */
} match;

static uint32_t slot(char letter)
{
    return (uint32_t)(letter - FIRST_LETTER);
}

/* Parses one operand, "b?[O..]:f32". Signatures are constants: syntax is not
 * checked. */
static const char *parse_operand(const char *p, operand *o)
{
    *o = (operand){0};
    for (size_t i = 0; *p != '[' && *p != '?'; p++)
        if (i < sizeof o->name - 1)
            o->name[i++] = *p;
    o->optional = *p == '?';
    p += o->optional ? 2 : 1;
    for (; *p != ']'; p++)
        if (*p != ',' && *p != '.')
            o->letter[o->n++] = *p;
    p++;
    if (*p == ':') {
        o->dtype = p[1] != 'i' ? WEFT_F32 : p[2] == '6' ? WEFT_I64 : WEFT_I32;
        p += 4;
    }
    return *p == ' ' ? p + 1 : p;
}

static bool is_group(char letter)
{
    return letter >= 'A' && letter <= 'Z';
}

/* "..., but w is f32 [ffn 16, embed 5]" and, when `other` is another input, which it contradicts */
static weft_status misfit(const match *m, uint32_t i, uint32_t other)
{
    char a[OP_TEXT], c[OP_TEXT];
    op_shape_text(&m->in[i], a);
    if (other == i)
        return op_fail(m->b, WEFT_USAGE, "%s: %s cannot be %s", m->signature, m->ops[i].name, a);
    op_shape_text(&m->in[other], c);
    return op_fail(m->b, WEFT_USAGE, "%s: %s, which is %s, does not fit %s, which is %s",
                   m->signature, m->ops[i].name, a, m->ops[other].name, c);
}

/* The first input that determines the compute type. */
static uint32_t typed_by(const match *m)
{
    uint32_t i = 0;
    while (m->ops[i].dtype)
        i++;
    return i;
}

static weft_status match_dtype(match *m, uint32_t i)
{
    uint32_t want = m->ops[i].dtype, have = m->in[i].dtype;
    if (want)
        return want == have ? WEFT_OK : misfit(m, i, i);
    if (!m->dtype && op_is_float(have))
        m->dtype = have;
    return m->dtype == have ? WEFT_OK : misfit(m, i, typed_by(m));
}

/* Number of axes of the unbound group of input i; 0 when its rank cannot be right. */
static uint32_t group_size(const match *m, uint32_t i, bool *right)
{
    uint32_t fixed = 0, groups = 0;
    for (uint32_t k = 0; k < m->ops[i].n; k++) {
        char c = m->ops[i].letter[k];
        const bound *at = &m->of[slot(c)];
        if (is_group(c) && !at->n)
            groups++;
        else
            fixed += is_group(c) ? at->n : 1;
    }
    uint32_t rank = m->in[i].rank;
    *right = rank <= WEFT_MAX_AXES && (groups ? rank > fixed : rank == fixed);
    return *right ? rank - fixed : 0;
}

/* For a wrong rank: the input that bound one of its letters, or itself. */
static uint32_t rank_rival(const match *m, uint32_t i)
{
    for (uint32_t k = 0; k < m->ops[i].n; k++) {
        const bound *at = &m->of[slot(m->ops[i].letter[k])];
        if (at->n && at->by != i)
            return at->by;
    }
    return i;
}

static bool same_axes(const weft_axis *a, const weft_axis *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i].size != c[i].size || strcmp(a[i].name, c[i].name))
            return false;
    return true;
}

static weft_status match_input(match *m, uint32_t i)
{
    weft_status st = match_dtype(m, i);
    if (st != WEFT_OK)
        return st;
    bool right;
    uint32_t rest = group_size(m, i, &right), at = 0;
    if (!right)
        return misfit(m, i, rank_rival(m, i));
    for (uint32_t k = 0; k < m->ops[i].n; k++) {
        bound *of = &m->of[slot(m->ops[i].letter[k])];
        const weft_axis *axes = &m->in[i].axes[at];
        if (!of->n) {
            of->n = is_group(m->ops[i].letter[k]) ? rest : 1;
            of->by = i;
            memcpy(of->axes, axes, of->n * sizeof *axes);
        } else if (!same_axes(of->axes, axes, of->n)) {
            return misfit(m, i, of->by);
        }
        at += of->n;
    }
    return WEFT_OK;
}

/* Outputs may join axes of different inputs: too many, or two of one name, is the caller's error */
static weft_status make_output(const match *m, const operand *o, weft_shape *out)
{
    *out = (weft_shape){.dtype = o->dtype ? o->dtype : m->dtype};
    for (uint32_t k = 0; k < o->n; k++) {
        const bound *of = &m->of[slot(o->letter[k])];
        for (uint32_t j = 0; j < of->n; j++) {
            if (out->rank == WEFT_MAX_AXES)
                return op_fail(m->b, WEFT_USAGE, "%s: %s would have more than %d axes",
                               m->signature, o->name, WEFT_MAX_AXES);
            if (weft_shard_axis(out, of->axes[j].name) >= 0)
                return op_fail(m->b, WEFT_USAGE,
                               "%s: %s would have two axes named '%s'; give them different names",
                               m->signature, o->name, of->axes[j].name);
            out->axes[out->rank++] = of->axes[j];
        }
    }
    return WEFT_OK;
}

static weft_status match_inputs(match *m, const char **p)
{
    uint32_t max = 0, least = 0;
    while (**p != '-') {
        *p = parse_operand(*p, &m->ops[max]);
        least += !m->ops[max++].optional;
    }
    if (m->nin < least || m->nin > max)
        return op_fail(m->b, WEFT_USAGE, "%s: %u inputs were given", m->signature, m->nin);
    for (uint32_t i = 0; i < m->nin; i++) {
        weft_status st = match_input(m, i);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

weft_status op_infer(const char *signature, const weft_builder *b, const weft_shape *in,
                     uint32_t nin, weft_shape *out, uint32_t *nout)
{
    match m; /* large, and made for each op: only what is read is set */
    m.signature = strstr(signature, ": ") + 2;
    m.b = b;
    m.in = in;
    m.nin = nin;
    m.dtype = 0;
    for (uint32_t i = 0; i < LETTERS; i++)
        m.of[i].n = 0;
    const char *p = m.signature;
    weft_status st = match_inputs(&m, &p);
    if (st != WEFT_OK)
        return st;
    uint32_t n = 0;
    for (p += strlen("-> "); *p; n++) {
        operand o;
        if (n == *nout)
            return op_fail(b, WEFT_USAGE, "%s: there is no room for result %u", m.signature, n);
        p = parse_operand(p, &o);
        st = make_output(&m, &o, &out[n]);
        if (st != WEFT_OK)
            return st;
    }
    *nout = n;
    return WEFT_OK;
}
