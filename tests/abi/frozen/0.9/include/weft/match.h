#ifndef WEFT_MATCH_H
#define WEFT_MATCH_H
#include <stdio.h>
#include <string.h>
#include <weft/device.h>
WEFT_EXTERN_C_BEGIN
typedef struct weft_match {
    int64_t size[26], dims[26][WEFT_MAX_AXES];
    uint32_t rank[26];
    uint32_t bound;
    uint32_t dt;
    char why[192];
    const char *who, *side;
    const weft_opspec *spec;
    const weft_operand *operand;
    uint32_t number;
} weft_match;
static inline int64_t weft_attr_i(const weft_opspec *spec, const char *key, int64_t dflt)
{
    for (uint32_t k = 0; k < spec->nattr; k++)
        if (!strcmp(spec->attrs[k].key, key))
            return spec->attrs[k].i;
    return dflt;
}
static inline double weft_attr_f(const weft_opspec *spec, const char *key, double dflt)
{
    for (uint32_t k = 0; k < spec->nattr; k++)
        if (!strcmp(spec->attrs[k].key, key))
            return spec->attrs[k].f;
    return dflt;
}
static inline int64_t weft_elements(const weft_operand *o)
{
    int64_t n = 1;
    if (o->rank > WEFT_MAX_AXES || !weft_dtype_size(o->dtype))
        return 0;
    for (uint32_t k = 0; k < o->rank; k++)
        if (o->size[k] < 1 || __builtin_mul_overflow(n, o->size[k], &n))
            return 0;
    return n <= INT64_MAX / 16 ? n : 0;
}
static inline weft_status weft_match_no_type(weft_match *m, const char *wanted)
{
    static const char *const names[] = {"none",  "fp32",  "bf16", "fp16",
                                        "int32", "int64", "fp64", "bytes"};
    const uint32_t t = m->operand->dtype;
    snprintf(m->why, sizeof m->why,
             "op %.40s: the %.20s device has no kernel for %s %u in %s; it takes %s", m->spec->id,
             m->who, m->side, m->number, t <= WEFT_U8 ? names[t] : "unknown", wanted);
    return WEFT_UNSUPPORTED;
}
static inline weft_status weft_match_no_shape(weft_match *m, const char *what)
{
    snprintf(m->why, sizeof m->why, "op %.40s: %s %u has %s", m->spec->id, m->side, m->number,
             what);
    return WEFT_USAGE;
}
static inline weft_status weft_match_type(weft_match *m, char letter)
{
    const uint32_t t = m->operand->dtype;
    if (letter == 'c' && t != WEFT_F32 && t != WEFT_BF16 && t != WEFT_F16)
        return weft_match_no_type(m, "fp32, bf16 or fp16");
    if (letter == 'c' && m->dt && m->dt != t)
        return weft_match_no_type(m, "the type of the other operands");
    if (letter == 'c')
        m->dt = t;
    if (letter == 'g' && t != WEFT_F32 && t != m->dt)
        return weft_match_no_type(m, "fp32 or the compute type");
    if (letter == 'f' && t != WEFT_F32)
        return weft_match_no_type(m, "fp32");
    if (letter == 'l' && t != WEFT_I64)
        return weft_match_no_type(m, "int64");
    return letter == 'i' && t != WEFT_I32 ? weft_match_no_type(m, "int32") : WEFT_OK;
}
static inline weft_status weft_match_axes(weft_match *m, int letter, uint32_t at, uint32_t n)
{
    const int64_t *size = m->operand->size + at;
    const int known = m->bound >> letter & 1;
    m->rank[letter] = n;
    m->bound |= 1u << letter;
    for (uint32_t i = 0; i < n; i++) {
        if (known && m->dims[letter][i] != size[i])
            return weft_match_no_shape(m, "sizes that do not fit the other operands");
        m->dims[letter][i] = size[i];
    }
    m->size[letter] = 1;
    for (uint32_t i = 0; i < n; i++)
        m->size[letter] *= size[i];
    return WEFT_OK;
}
static inline uint32_t weft_match_rank(const weft_match *m, const char *w)
{
    uint32_t n = 0;
    for (; *w && !strchr(" ?~", *w); w++)
        if (*w != '*')
            n++;
        else if (m->bound >> (*++w - 'A') & 1)
            n += m->rank[*w - 'A'];
    return n;
}
static inline weft_status weft_match_operand(weft_match *m, const char *w)
{
    const size_t length = strcspn(w, " ");
    if (m->side[0] == 'o' && (*w == '-' || !m->operand->dtype)) {
        const int unread = !m->operand->dtype;
        if (unread && (*w == '-' || w[length - 1] == '~'))
            return WEFT_OK;
        snprintf(m->why, sizeof m->why, "op %.40s: the %.20s device %s output %u, %s", m->spec->id,
                 m->who, unread ? "has to write" : "does not write", m->number,
                 unread ? "which nobody reads" : "which something else reads");
        return WEFT_UNSUPPORTED;
    }
    if (!weft_elements(m->operand))
        return weft_match_no_shape(m, "invalid type or shape");
    weft_status st = weft_match_type(m, *w++);
    uint32_t at = 0;
    for (; st == WEFT_OK && *w && !strchr(" ?~", *w); w++) {
        const uint32_t left = m->operand->rank - at;
        uint32_t n = 1;
        if (*w == '*') {
            w++;
            n = m->bound >> (*w - 'A') & 1 ? m->rank[*w - 'A'] : left - weft_match_rank(m, w + 1);
        }
        if (n > left)
            return weft_match_no_shape(m, "too few axes");
        if (*w != '3')
            st = weft_match_axes(m, *w - 'A', at, n);
        else if (m->operand->size[at] != 3)
            st = weft_match_no_shape(m, "no axis of three");
        at += n;
    }
    const int over = st == WEFT_OK && at != m->operand->rank;
    return over ? weft_match_no_shape(m, "too many axes") : st;
}
static inline weft_status weft_match_side(weft_match *m, const char *side, const char *pattern,
                                          const weft_operand *operands, uint32_t n)
{
    weft_status st = WEFT_OK;
    m->side = side;
    for (m->number = 0; st == WEFT_OK && *pattern && m->number < n; m->number++) {
        m->operand = &operands[m->number];
        st = weft_match_operand(m, pattern);
        pattern += strcspn(pattern, " ");
        pattern += *pattern == ' ';
    }
    const char *last = strchr(pattern, '?');
    if (st != WEFT_OK || (m->number == n && (!*pattern || (last && !strchr(pattern, ' ')))))
        return st;
    snprintf(m->why, sizeof m->why, "op %.40s: called with %u %ss, which it does not take",
             m->spec->id, n, side);
    return WEFT_USAGE;
}
static inline weft_status weft_match_spec(weft_match *m, const char *who, const weft_opspec *spec,
                                          const char *in, const char *out)
{
    memset(m, 0, sizeof *m);
    m->who = who;
    m->spec = spec;
    weft_status st = weft_match_side(m, "input", in, spec->in, spec->nin);
    return st != WEFT_OK ? st : weft_match_side(m, "output", out, spec->out, spec->nout);
}
WEFT_EXTERN_C_END
#endif
