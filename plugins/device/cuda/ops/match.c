/* match.c: operands against a pattern.
 *
 * A pattern has one word an operand: a letter for the element type, then its axes, slowest first.
 *
 *   c  the compute type: fp32, bf16 or fp16, the same in the whole op    f  fp32    i  int32
 *   g  the type of a gradient: fp32 or the compute type    x  any; only the shape counts
 *   A..Z  an axis; where a letter comes again its size must be the same
 *   3     an axis of three
 *   *X    any number of axes, known as a group; where one comes again it must be the same
 *   ?     at the end of the last word: this operand may be absent
 *   ~     at the end of an output's word: nobody may read it; its element type is 0 then
 *   -     instead of a word: nobody reads this output
 *
 * "cT*I c*O*I c*O?" is linear: x [tokens, I..], w [O.., I..], and perhaps a bias [O..]. */
#include "gpu.h"
#include <string.h>

struct look {
    const struct gpu_module *m;
    const weft_opspec *spec;
    struct gpu_match *match;
    const weft_operand *operand;
    const char *side; /* "input", "output" */
    uint32_t number;
};

static const char *type_name(uint32_t dtype)
{
    static const char *const names[] = {"none",  "fp32",  "bf16", "fp16",
                                        "int32", "int64", "fp64", "bytes"};
    return dtype < sizeof names / sizeof *names ? names[dtype] : "unknown";
}

int64_t gpu_attr_i(const weft_opspec *spec, const char *key, int64_t dflt)
{
    for (uint32_t k = 0; k < spec->nattr; k++)
        if (strcmp(spec->attrs[k].key, key) == 0)
            return spec->attrs[k].i;
    return dflt;
}

double gpu_attr_f(const weft_opspec *spec, const char *key, double dflt)
{
    for (uint32_t k = 0; k < spec->nattr; k++)
        if (strcmp(spec->attrs[k].key, key) == 0)
            return spec->attrs[k].f;
    return dflt;
}

bool gpu_elements(const weft_operand *o, int64_t *count)
{
    int64_t n = 1;
    if (o->rank > WEFT_MAX_AXES || weft_dtype_size(o->dtype) == 0)
        return false;
    for (uint32_t k = 0; k < o->rank; k++)
        if (o->size[k] < 1 || __builtin_mul_overflow(n, o->size[k], &n))
            return false;
    *count = n;
    return n <= INT64_MAX / 16;
}

static weft_status refuse_type(const struct look *k, const char *wanted)
{
    return gpu_fail(k->m, WEFT_UNSUPPORTED,
                    "op %s: the cuda device has no kernel for %s %u in %s; it takes %s",
                    k->spec->id, k->side, k->number, type_name(k->operand->dtype), wanted);
}

static weft_status match_type(const struct look *k, char letter)
{
    const uint32_t dtype = k->operand->dtype;
    uint32_t *dt = &k->match->dt;
    switch (letter) {
    case 'c':
        if (dtype != WEFT_F32 && dtype != WEFT_BF16 && dtype != WEFT_F16)
            return refuse_type(k, "fp32, bf16 or fp16");
        if (*dt != 0 && *dt != dtype)
            return refuse_type(k, "the type of the other operands");
        *dt = dtype;
        return WEFT_OK;
    case 'g':
        return dtype == WEFT_F32 || dtype == *dt ? WEFT_OK
                                                 : refuse_type(k, "fp32 or the compute type");
    case 'f': return dtype == WEFT_F32 ? WEFT_OK : refuse_type(k, "fp32");
    case 'i': return dtype == WEFT_I32 ? WEFT_OK : refuse_type(k, "int32");
    default: return WEFT_OK;
    }
}

static weft_status refuse_shape(const struct look *k, const char *what)
{
    return gpu_fail(k->m, WEFT_USAGE, "op %s: %s %u has %s", k->spec->id, k->side, k->number, what);
}

/* Axes that the rest of a word needs at least: known groups, and one for each single axis. */
static uint32_t axes_after(const struct look *k, const char *p)
{
    uint32_t n = 0;
    for (; *p != 0 && strchr(" ?~", *p) == NULL; p++) {
        if (*p != '*')
            n++;
        else if (k->match->bound >> (*++p - 'A') & 1)
            n += k->match->rank[*p - 'A'];
    }
    return n;
}

static weft_status match_axes(const struct look *k, int letter, uint32_t at, uint32_t n)
{
    struct gpu_match *m = k->match;
    const int64_t *size = k->operand->size + at;
    if (!(m->bound >> letter & 1)) {
        m->bound |= 1u << letter;
        m->rank[letter] = n;
        m->size[letter] = 1;
        for (uint32_t i = 0; i < n; i++) {
            m->dims[letter][i] = size[i];
            m->size[letter] *= size[i];
        }
        return WEFT_OK;
    }
    for (uint32_t i = 0; i < n; i++)
        if (m->dims[letter][i] != size[i])
            return refuse_shape(k, "sizes that do not fit the other operands");
    return WEFT_OK;
}

/* An output that nobody reads, or that nobody may read: true with *st when that is all about it. */
static bool match_unread(const struct look *k, const char **p, weft_status *st)
{
    const size_t n = strcspn(*p, " ");
    const bool unread = k->operand->dtype == 0 && k->side[0] == 'o', never = **p == '-';
    if (!never && !unread)
        return false;
    const bool fits = unread && (never || (n > 0 && (*p)[n - 1] == '~'));
    *p += n;
    *st = fits ? WEFT_OK
               : gpu_fail(k->m, WEFT_UNSUPPORTED, "op %s: the cuda device %s output %u, %s",
                          k->spec->id, unread ? "has to write" : "does not write", k->number,
                          unread ? "which nobody reads" : "which something else reads");
    return true;
}

/* One word against one operand; *p is left behind the word. */
static weft_status match_operand(const struct look *k, const char **p)
{
    int64_t count;
    uint32_t at = 0;
    const char *w = *p;
    weft_status st = WEFT_OK;
    if (match_unread(k, p, &st))
        return st;
    if (!gpu_elements(k->operand, &count))
        return refuse_shape(k, "no lawful type or shape");
    st = match_type(k, *w++);
    for (; st == WEFT_OK && *w != 0 && strchr(" ?~", *w) == NULL; w++) {
        uint32_t n = 1;
        const uint32_t left = k->operand->rank - at;
        if (*w == '*' && (k->match->bound >> (*++w - 'A') & 1))
            n = k->match->rank[*w - 'A'];
        else if (w[-1] == '*')
            n = left - axes_after(k, w + 1);
        if (n > left)
            return refuse_shape(k, "too few axes");
        if (*w == '3')
            st = k->operand->size[at] == 3 ? WEFT_OK : refuse_shape(k, "no axis of three");
        else
            st = match_axes(k, *w - 'A', at, n);
        at += n;
    }
    if (st == WEFT_OK && at != k->operand->rank)
        return refuse_shape(k, "too many axes");
    *p = w;
    return st;
}

static weft_status match_side(struct look k, const char *pattern, const weft_operand *operands,
                              uint32_t n)
{
    const char *p = pattern;
    uint32_t i = 0;
    for (; *p != 0 && i < n; i++) {
        k.operand = &operands[i];
        k.number = i;
        weft_status st = match_operand(&k, &p);
        if (st != WEFT_OK)
            return st;
        p += *p == '?' || *p == '~';
        p += *p == ' ';
    }
    const char *last = pattern + strlen(pattern) - 1;
    const bool may_end = *last == '?' && strchr(p, ' ') == NULL;
    if (i != n || (*p != 0 && !may_end))
        return gpu_fail(k.m, WEFT_USAGE, "op %s: called with %u %ss, which it does not take",
                        k.spec->id, n, k.side);
    return WEFT_OK;
}

weft_status gpu_match(const struct gpu_module *m, const weft_opspec *spec, const char *in,
                      const char *out, struct gpu_match *match)
{
    struct look k = {.m = m, .spec = spec, .match = match, .side = "input"};
    weft_status st = match_side(k, in, spec->in, spec->nin);
    if (st != WEFT_OK)
        return st;
    k.side = "output";
    return match_side(k, out, spec->out, spec->nout);
}

bool gpu_is_float(uint32_t dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}
