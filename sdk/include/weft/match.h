/* weft/match.h: the operands of an op against a pattern, for devices and kernels.
 *
 * A device answers query() and prepare() for a table of ops. Each row has two patterns, one for the
 * inputs and one for the outputs; weft_match_spec() checks a spec (weft/device.h) against them and
 * gives the sizes that a kernel needs:
 *
 *   weft_match m;
 *   weft_status st = weft_match_spec(&m, "cpu", spec, "cT*I c*O*I c*O?", "cT*O");
 *   if (st != WEFT_OK)
 *       return host->fail(host->ctx, st, m.why);
 *   int64_t rows = m.size['T' - 'A'];
 *
 * A pattern has one word for each operand, separated by a blank: a letter for the element type,
 * then the axes, slowest first. The words above are those of linear: x [tokens, in..], w [out..,
 * in..], and perhaps a bias [out..].
 *
 *   c     the compute type: fp32, bf16 or fp16, the same in the whole op
 *   g     the type of a gradient: fp32 or the compute type
 *   f i l fp32, int32, int64
 *   x     any type: the kernel uses the shape alone
 *
 *   A..Z  an axis; equal letters have equal sizes
 *   3     an axis of three elements
 *   *X    any number of axes (a group); equal groups have equal sizes
 *   ?     ends the last word: the operand may be absent
 *   ~     ends an output's word: the output may be unread, with the element type 0
 *   -     is the word of an output that is always unread
 *
 * Patterns are constant strings of the plugin, which have to be right; the spec may be anything.
 * Nothing is allocated, and nothing is kept between calls. All [any].
 */
#ifndef WEFT_MATCH_H
#define WEFT_MATCH_H

#include <weft/device.h>

#include <stdio.h>
#include <string.h>

WEFT_EXTERN_C_BEGIN

/* The sizes that the letters of a pattern have, by letter - 'A'. `size` of a group is the product
 * of its axes. */
typedef struct weft_match {
    int64_t size[26], dims[26][WEFT_MAX_AXES];
    uint32_t rank[26];
    uint32_t bound; /* bit by letter: it has a size */
    uint32_t dt;    /* the compute type; 0: no operand has it */
    char why[192];  /* after an error: the message for host->fail() */

    /* Current state of the match, for the functions below. */
    const char *who, *side; /* the device; "input", "output" */
    const weft_opspec *spec;
    const weft_operand *operand;
    uint32_t number;
} weft_match;

/* The attribute `key` as a whole number or a real; `dflt` where the op has none. */
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

/* Elements of an operand; 0 for an unknown type, an axis below 1, or over INT64_MAX / 16. */
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

/* Errors: the message goes to `why`. Types are UNSUPPORTED, shapes are USAGE. */
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

/* The letter of a type. */
static inline weft_status weft_match_type(weft_match *m, char letter)
{
    const uint32_t t = m->operand->dtype;
    if (letter == 'c' && !weft_dtype_computes(t))
        return weft_match_no_type(m, "fp32, bf16 or fp16");
    if (letter == 'c' && m->dt && m->dt != t)
        return weft_match_no_type(m, "the type of the other operands");
    if (letter == 'c')
        m->dt = t; /* the first compute type binds the others */
    if (letter == 'g' && t != WEFT_F32 && t != m->dt)
        return weft_match_no_type(m, "fp32 or the compute type");
    if (letter == 'f' && t != WEFT_F32)
        return weft_match_no_type(m, "fp32");
    if (letter == 'l' && t != WEFT_I64)
        return weft_match_no_type(m, "int64");
    return letter == 'i' && t != WEFT_I32 ? weft_match_no_type(m, "int32") : WEFT_OK;
}

/* A letter of `n` axes from axis `at` on: bound at its first use, compared later. */
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

/* Axes of the word's part at `w`: known groups and single axes; unknown groups count 0. */
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

/* One word against one operand. */
static inline weft_status weft_match_operand(weft_match *m, const char *w)
{
    const size_t length = strcspn(w, " ");
    if (m->side[0] == 'o' && (*w == '-' || !m->operand->dtype)) { /* is unread, or has to be */
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
    uint32_t at = 0; /* the axis of the operand that comes next */
    for (; st == WEFT_OK && *w && !strchr(" ?~", *w); w++) {
        const uint32_t left = m->operand->rank - at;
        uint32_t n = 1;
        if (*w == '*') { /* a known group, or all axes that the rest does not need */
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

/* All words of one side. */
static inline weft_status weft_match_side(weft_match *m, const char *side, const char *pattern,
                                          const weft_operand *operands, uint32_t n)
{
    weft_status st = WEFT_OK;
    m->side = side;
    for (m->number = 0; st == WEFT_OK && *pattern && m->number < n; m->number++) {
        m->operand = &operands[m->number];
        st = weft_match_operand(m, pattern);
        pattern += strcspn(pattern, " "); /* to the next word */
        pattern += *pattern == ' ';
    }
    const char *last = strchr(pattern, '?'); /* one absent operand is left, which may be */
    if (st != WEFT_OK || (m->number == n && (!*pattern || (last && !strchr(pattern, ' ')))))
        return st;
    snprintf(m->why, sizeof m->why, "op %.40s: called with %u %ss, which it does not take",
             m->spec->id, n, side);
    return WEFT_USAGE;
}

/* Match `spec` against the patterns of its inputs and outputs. `who` names the device in messages.
 * WEFT_OK, and the sizes are in `m`; WEFT_UNSUPPORTED for a type that the pattern does not take;
 * WEFT_USAGE for a shape or number of operands that no op of this name has. With the last two the
 * message is in m->why. */
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
