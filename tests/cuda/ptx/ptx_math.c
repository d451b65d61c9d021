/* ptx_math.c: see ptx.h. An instruction fetches its operands' rows as what their type says,
 * computes them lane by lane, and stores them as that type, which cuts them to its bits.
 *
 * What the language defines but to an error (ex2.approx, div.approx and its like) is the right
 * result moved by as many units in the last place as it allows, this way and that, so that a kernel
 * that leans on more is seen. */
#include "double/bits.h"
#include "ptx.h"
#include <fenv.h>
#include <math.h>
#include <string.h>

#define EACH_LANE(l) for (int l = 0; l < PTX_LANES; l++)

static uint64_t bits_of(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static double double_of(uint64_t b)
{
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* --- rows as numbers --- */

static int64_t whole(uint64_t x, struct ptx_kind k)
{
    const int unused = 64 - k.bits;
    return k.type == PTX_S ? (int64_t)(x << unused) >> unused : (int64_t)(x << unused >> unused);
}

static void fetch_whole(const struct ptx_place *p, int row, struct ptx_kind k, int64_t *x)
{
    const uint64_t *from = p->rows[row];
    EACH_LANE(l) x[l] = whole(from[l], k);
}

static void keep(const struct ptx_place *p, int row, const uint64_t *x)
{
    uint64_t *to = p->rows[row];
    EACH_LANE(l) to[l] = p->lanes >> l & 1 ? x[l] : to[l];
}

static void store_whole(const struct ptx_place *p, int bits, const int64_t *x)
{
    uint64_t cut[PTX_LANES];
    EACH_LANE(l) cut[l] = (uint64_t)x[l] << (64 - bits) >> (64 - bits);
    keep(p, p->instr->out[0], cut);
}

static double flush(double x, bool ftz)
{
    return ftz && fabs(x) < 0x1p-126 ? copysign(0, x) : x;
}

static void fetch_float(const struct ptx_place *p, int row, int bits, double *x)
{
    const uint64_t *from = p->rows[row];
    if (bits == 64)
        EACH_LANE(l) x[l] = double_of(from[l]);
    else if (bits == 32)
        EACH_LANE(l) x[l] = flush(as_float((uint32_t)from[l]), p->instr->ftz);
    else
        EACH_LANE(l) x[l] = from_f16((uint16_t)from[l]);
}

/* x is a number of the type already, or is rounded to it, ties to even. */
static void store_float(const struct ptx_place *p, int bits, const double *x)
{
    const struct ptx_instr *i = p->instr;
    uint64_t out[PTX_LANES];
    EACH_LANE(l)
    {
        double y = x[l];
        if (i->sat)
            y = y > 0 ? fmin(y, 1) : 0; /* a NaN becomes 0 */
        out[l] = bits == 64   ? bits_of(y)
                 : bits == 32 ? as_bits((float)flush((float)y, i->ftz))
                              : f16_bits((float)y);
    }
    keep(p, i->out[0], out);
}

/* --- whole numbers and bits --- */

static void divide(const struct ptx_place *p, const int64_t *a, const int64_t *b, int64_t *out)
{
    const bool remainder = p->instr->op == ptx_rem, is_signed = p->instr->kind.type == PTX_S;
    EACH_LANE(l)
    {
        if ((p->lanes >> l & 1) == 0)
            continue;
        if (b[l] == 0 || (is_signed && b[l] == -1 && a[l] == INT64_MIN))
            ptx_die(p, l, "a division by zero, or one whose result has no place");
        const uint64_t ua = (uint64_t)a[l], ub = (uint64_t)b[l];
        out[l] = is_signed ? (remainder ? a[l] % b[l] : a[l] / b[l])
                           : (int64_t)(remainder ? ua % ub : ua / ub);
    }
}

/* prmt.b32: four bytes of eight; a selector's highest bit copies the sign. */
static int64_t permuted(uint64_t a, uint64_t b, uint64_t selectors)
{
    const uint64_t all = (a & 0xffffffffu) | b << 32;
    uint64_t out = 0;
    for (int k = 0; k < 4; k++) {
        const uint64_t s = selectors >> (4 * k) & 0xf;
        uint64_t byte = all >> (8 * (s & 7)) & 0xff;
        if (s & 8)
            byte = byte & 0x80 ? 0xff : 0;
        out |= byte << (8 * k);
    }
    return (int64_t)out;
}

/* bfi: b with a's lowest bits in the place of its bits [pos, pos + len). */
static int64_t inserted(uint64_t a, uint64_t b, uint64_t pos, uint64_t len)
{
    pos &= 0xff;
    len &= 0xff;
    if (pos > 63 || len == 0)
        return (int64_t)b;
    const uint64_t mask = (len > 63 ? ~0ull : (1ull << len) - 1) << pos;
    return (int64_t)((b & ~mask) | (a << pos & mask));
}

static int64_t shifted(const struct ptx_instr *i, int64_t x, uint64_t by)
{
    const uint64_t bits = (uint64_t)i->kind.bits;
    if (i->op == ptx_shl)
        return by >= bits ? 0 : (int64_t)((uint64_t)x << by);
    if (i->kind.type == PTX_S)
        return x >> (by >= bits ? bits - 1 : by);
    return by >= bits ? 0 : (int64_t)((uint64_t)x >> by);
}

static void do_bits(const struct ptx_place *p, const int64_t *a, const int64_t *b, int64_t *out)
{
    const struct ptx_instr *i = p->instr;
    const bool predicate = i->kind.type == PTX_PRED;
    switch (i->op) {
    case ptx_and: EACH_LANE(l) out[l] = a[l] & b[l]; break;
    case ptx_or: EACH_LANE(l) out[l] = a[l] | b[l]; break;
    case ptx_xor: EACH_LANE(l) out[l] = a[l] ^ b[l]; break;
    case ptx_not: EACH_LANE(l) out[l] = predicate ? !a[l] : ~a[l]; break;
    case ptx_shl:
    case ptx_shr: EACH_LANE(l) out[l] = shifted(i, a[l], (uint32_t)p->rows[i->in[1]][l]); break;
    case ptx_prmt:
        EACH_LANE(l)
        out[l] = permuted((uint64_t)a[l], (uint64_t)b[l], p->rows[i->in[2]][l]);
        break;
    case ptx_bfi:
        EACH_LANE(l)
        out[l] =
            inserted((uint64_t)a[l], (uint64_t)b[l], p->rows[i->in[2]][l], p->rows[i->in[3]][l]);
        break;
    default: EACH_LANE(l) out[l] = a[l]; break; /* mov, cvta */
    }
}

static void do_whole(const struct ptx_place *p)
{
    const struct ptx_instr *i = p->instr;
    const bool is_signed = i->kind.type == PTX_S;
    int64_t a[PTX_LANES] = {0}, b[PTX_LANES] = {0}, c[PTX_LANES] = {0}, out[PTX_LANES] = {0};
    int bits = i->kind.bits;
    if (i->nin > 0)
        fetch_whole(p, i->in[0], i->kind, a);
    if (i->nin > 1)
        fetch_whole(p, i->in[1], i->kind, b);
    if (i->wide)
        bits *= 2;
    if (i->nin > 2)
        fetch_whole(p, i->in[2], (struct ptx_kind){i->kind.type, bits}, c);
    switch (i->op) {
    case ptx_add: EACH_LANE(l) out[l] = (int64_t)((uint64_t)a[l] + (uint64_t)b[l]); break;
    case ptx_sub: EACH_LANE(l) out[l] = (int64_t)((uint64_t)a[l] - (uint64_t)b[l]); break;
    case ptx_neg: EACH_LANE(l) out[l] = (int64_t)(0 - (uint64_t)a[l]); break;
    case ptx_abs: EACH_LANE(l) out[l] = a[l] < 0 ? (int64_t)(0 - (uint64_t)a[l]) : a[l]; break;
    case ptx_mul:
    case ptx_mad:
        EACH_LANE(l) out[l] = (int64_t)((uint64_t)a[l] * (uint64_t)b[l] + (uint64_t)c[l]);
        break;
    case ptx_min:
        EACH_LANE(l)
        out[l] = (is_signed ? a[l] < b[l] : (uint64_t)a[l] < (uint64_t)b[l]) ? a[l] : b[l];
        break;
    case ptx_max:
        EACH_LANE(l)
        out[l] = (is_signed ? a[l] > b[l] : (uint64_t)a[l] > (uint64_t)b[l]) ? a[l] : b[l];
        break;
    case ptx_div:
    case ptx_rem: divide(p, a, b, out); break;
    default: do_bits(p, a, b, out); break;
    }
    store_whole(p, bits, out);
}

/* --- floats; an fp32 operation is done in double and rounded, which is the same, but for fma ---
 */

/* a * b + c in fp32, rounded as the instruction says. */
static double fused(const struct ptx_instr *i, double a, double b, double c)
{
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    if (i->kind.bits == 64)
        return fma(a, b, c);
    if (i->round == PTX_NEAREST)
        return fmaf((float)a, (float)b, (float)c);
    volatile float x = (float)a, y = (float)b, z = (float)c, out;
    fesetround(modes[i->round]);
    out = fmaf(x, y, z);
    fesetround(FE_TONEAREST);
    return out;
}

/* A number `units` in the last place beside x, above or below it, always the same one. */
static double about(double x, int units)
{
    const float at = (float)x;
    float y = at;
    const bool up = (as_bits(at) * 0x9e3779b9u) >> 31;
    if (y == 0 || !isfinite(y))
        return y;
    for (int k = 0; k < units; k++)
        y = nextafterf(y, up ? INFINITY : -INFINITY);
    return isfinite(y) ? y : at;
}

/* div.approx: 2 units; a divisor beyond 2^126 gives 0, or NaN of an infinity. */
static double quotient(const struct ptx_instr *i, double a, double b)
{
    if (i->approx && i->kind.bits == 32 && fabs(b) > 0x1p126 && fabs(b) < 0x1p128)
        return isinf(a) ? NAN : copysign(0, a * b);
    return i->approx ? about(a / b, 2) : a / b;
}

/* Of two numbers, of which one may be NaN. */
static double extreme(bool max, double a, double b)
{
    if (a == 0 && b == 0)
        return signbit(a) == max ? b : a; /* -0 is less than 0 */
    return max ? fmax(a, b) : fmin(a, b);
}

static void do_float(const struct ptx_place *p)
{
    const struct ptx_instr *i = p->instr;
    const int bits = i->kind.bits;
    double a[PTX_LANES] = {0}, b[PTX_LANES] = {0}, c[PTX_LANES] = {0}, out[PTX_LANES];
    if (i->nin > 0)
        fetch_float(p, i->in[0], bits, a);
    if (i->nin > 1)
        fetch_float(p, i->in[1], bits, b);
    if (i->nin > 2)
        fetch_float(p, i->in[2], bits, c);
    if (i->round != PTX_NEAREST && i->op != ptx_fma)
        ptx_die(p, 0, "a rounding that this interpreter has not");
    switch (i->op) {
    case ptx_add: EACH_LANE(l) out[l] = a[l] + b[l]; break;
    case ptx_sub: EACH_LANE(l) out[l] = a[l] - b[l]; break;
    case ptx_mul: EACH_LANE(l) out[l] = a[l] * b[l]; break;
    case ptx_fma: EACH_LANE(l) out[l] = fused(i, a[l], b[l], c[l]); break;
    case ptx_div: EACH_LANE(l) out[l] = quotient(i, a[l], b[l]); break;
    case ptx_neg: EACH_LANE(l) out[l] = -a[l]; break;
    case ptx_abs: EACH_LANE(l) out[l] = fabs(a[l]); break;
    case ptx_min:
    case ptx_max: EACH_LANE(l) out[l] = extreme(i->op == ptx_max, a[l], b[l]); break;
    case ptx_sqrt: EACH_LANE(l) out[l] = i->approx ? about(sqrt(a[l]), 1) : sqrt(a[l]); break;
    case ptx_rcp: EACH_LANE(l) out[l] = i->approx ? about(1 / a[l], 1) : 1 / a[l]; break;
    case ptx_ex2: EACH_LANE(l) out[l] = a[l] == 0 ? 1 : about(exp2(a[l]), 2); break;
    default: ptx_die(p, 0, "an instruction that floats have not here");
    }
    store_float(p, bits, out);
}

/* --- comparing and choosing --- */

/* The sign of a - b; 2: one is NaN. */
static bool holds(const char *compare, int sign)
{
    const bool unordered = sign == 2, or_unordered = strlen(compare) == 3;
    if (strcmp(compare, "nan") == 0 || strcmp(compare, "num") == 0)
        return unordered == (compare[1] == 'a');
    if (unordered)
        return or_unordered;
    switch (compare[0] << 8 | compare[1]) {
    case 'e' << 8 | 'q': return sign == 0;
    case 'n' << 8 | 'e': return sign != 0;
    case 'l' << 8 | 't': return sign < 0;
    case 'l' << 8 | 'e': return sign <= 0;
    case 'g' << 8 | 't': return sign > 0;
    default: return sign >= 0;
    }
}

static void do_setp(const struct ptx_place *p)
{
    const struct ptx_instr *i = p->instr;
    uint64_t out[PTX_LANES];
    bool of_sign[4]; /* -1, 0, 1, 2 */
    for (int sign = -1; sign <= 2; sign++)
        of_sign[sign + 1] = holds(i->compare, sign);
    if (i->kind.type == PTX_F) {
        double a[PTX_LANES], b[PTX_LANES];
        fetch_float(p, i->in[0], i->kind.bits, a);
        fetch_float(p, i->in[1], i->kind.bits, b);
        EACH_LANE(l)
        out[l] = of_sign[isunordered(a[l], b[l]) ? 3 : 1 + (a[l] > b[l]) - (a[l] < b[l])];
    } else {
        int64_t a[PTX_LANES], b[PTX_LANES];
        fetch_whole(p, i->in[0], i->kind, a);
        fetch_whole(p, i->in[1], i->kind, b);
        const uint64_t turn = i->kind.type == PTX_S ? 1ull << 63 : 0; /* to compare as unsigned */
        EACH_LANE(l)
        {
            const uint64_t x = (uint64_t)a[l] ^ turn, y = (uint64_t)b[l] ^ turn;
            out[l] = of_sign[1 + (x > y) - (x < y)];
        }
    }
    keep(p, i->out[0], out);
}

static void do_selp(const struct ptx_place *p)
{
    const struct ptx_instr *i = p->instr;
    const uint64_t *a = p->rows[i->in[0]], *b = p->rows[i->in[1]], *c = p->rows[i->in[2]];
    int64_t out[PTX_LANES];
    EACH_LANE(l) out[l] = (int64_t)(c[l] ? a[l] : b[l]);
    store_whole(p, i->kind.bits, out);
}

/* --- conversions --- */

static double rounded(const struct ptx_instr *i, double x)
{
    switch (i->round) {
    case PTX_ZERO: return trunc(x);
    case PTX_DOWN: return floor(x);
    case PTX_UP: return ceil(x);
    default: return nearbyint(x);
    }
}

/* Out of range: the nearest number; NaN: 0. */
static int64_t to_whole(const struct ptx_instr *i, double x)
{
    const double y = rounded(i, x);
    const struct ptx_kind k = i->kind;
    const double top = ldexp(1, k.type == PTX_S ? k.bits - 1 : k.bits);
    const double bottom = k.type == PTX_S ? -top : 0;
    if (isnan(y))
        return 0;
    if (y >= top)
        return k.type == PTX_S ? INT64_MAX >> (64 - k.bits) : -1;
    if (y < bottom)
        return (int64_t)bottom;
    return k.type == PTX_S ? (int64_t)y : (int64_t)(uint64_t)y;
}

/* Two floats as halves of a row; the second is the lower. */
static void do_halves(const struct ptx_place *p)
{
    const struct ptx_instr *i = p->instr;
    double a[PTX_LANES], b[PTX_LANES];
    int64_t out[PTX_LANES];
    fetch_float(p, i->in[0], 32, a);
    fetch_float(p, i->in[1], 32, b);
    EACH_LANE(l)
    {
        const float high = (float)a[l], low = (float)b[l];
        out[l] = i->kind.type == PTX_BF16X2 ? (int64_t)(bf16_bits(high) << 16 | bf16_bits(low))
                                            : (int64_t)(f16_bits(high) << 16 | f16_bits(low));
    }
    store_whole(p, 32, out);
}

static void do_cvt(const struct ptx_place *p)
{
    const struct ptx_instr *i = p->instr;
    int64_t x[PTX_LANES];
    double y[PTX_LANES];
    if (i->kind.type == PTX_BF16X2 || i->kind.type == PTX_F16X2) {
        do_halves(p);
        return;
    }
    if (i->from.type == PTX_F)
        fetch_float(p, i->in[0], i->from.bits, y);
    else
        fetch_whole(p, i->in[0], i->from, x);
    if (i->kind.type == PTX_F && i->from.type == PTX_F) {
        if (i->integral)
            EACH_LANE(l) y[l] = rounded(i, y[l]);
        else if (i->round != PTX_NEAREST)
            ptx_die(p, 0, "a rounding that this interpreter has not");
        store_float(p, i->kind.bits, y);
    } else if (i->kind.type == PTX_F) { /* once from 64 bits, not by way of a double */
        if (i->round != PTX_NEAREST)
            ptx_die(p, 0, "a rounding that this interpreter has not");
        EACH_LANE(l)
        {
            const bool is_signed = i->from.type == PTX_S;
            if (i->kind.bits == 32)
                y[l] = is_signed ? (float)x[l] : (float)(uint64_t)x[l];
            else
                y[l] = is_signed ? (double)x[l] : (double)(uint64_t)x[l];
        }
        store_float(p, i->kind.bits, y);
    } else {
        if (i->from.type == PTX_F)
            EACH_LANE(l) x[l] = to_whole(i, y[l]);
        store_whole(p, i->kind.bits, x);
    }
}

/* --- rows cut and put together --- */

static void do_pack(const struct ptx_place *p)
{
    const struct ptx_instr *i = p->instr;
    const int bits = i->kind.bits / i->nin;
    uint64_t out[PTX_LANES] = {0};
    for (int k = 0; k < i->nin; k++)
        EACH_LANE(l)
    out[l] |= p->rows[i->in[k]][l] << (64 - bits) >> (64 - bits - k * bits);
    keep(p, i->out[0], out);
}

static void do_unpack(const struct ptx_place *p)
{
    const struct ptx_instr *i = p->instr;
    const int bits = i->kind.bits / i->nout;
    ptx_row from;
    memcpy(from, p->rows[i->in[0]], sizeof from);
    for (int k = 0; k < i->nout; k++) {
        uint64_t out[PTX_LANES];
        EACH_LANE(l) out[l] = from[l] >> (k * bits) << (64 - bits) >> (64 - bits);
        keep(p, i->out[k], out);
    }
}

void ptx_do_math(const struct ptx_place *p)
{
    const struct ptx_instr *i = p->instr;
    switch (i->op) {
    case ptx_setp: do_setp(p); break;
    case ptx_selp: do_selp(p); break;
    case ptx_cvt: do_cvt(p); break;
    case ptx_pack: do_pack(p); break;
    case ptx_unpack: do_unpack(p); break;
    case ptx_mov:
    case ptx_cvta: do_whole(p); break;
    default:
        if (i->kind.type == PTX_F)
            do_float(p);
        else
            do_whole(p);
        break;
    }
}
