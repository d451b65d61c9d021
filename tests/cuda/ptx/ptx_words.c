/* ptx_words.c: see ptx.h. */
#include "ptx.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ptx_refuse(const struct ptx_text *t, const char *word, const char *why)
{
    fprintf(stderr, "%s:%d: \"%s\" %s\n", t->path, t->line, word, why);
    abort();
}

static void skip_space(struct ptx_text *t)
{
    for (;; t->at++) {
        if (strncmp(t->at, "//", 2) == 0)
            t->at += strcspn(t->at, "\n");
        if (*t->at == '\n')
            t->line++;
        else if (*t->at == '\0' || !isspace((unsigned char)*t->at))
            return;
    }
}

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || (c != '\0' && strchr("_$%.", c));
}

void ptx_next(struct ptx_text *t, char word[PTX_WORD])
{
    skip_space(t);
    const char *from = t->at;
    if (*from == '-' || in_name(*from))
        while (in_name(*++t->at))
            ;
    else if (*from != '\0')
        t->at++;
    const size_t n = (size_t)(t->at - from);
    if (n >= PTX_WORD)
        ptx_refuse(t, "a name", "is too long");
    memcpy(word, from, n);
    word[n] = '\0';
}

void ptx_expect(struct ptx_text *t, const char *word)
{
    char next[PTX_WORD];
    ptx_next(t, next);
    if (strcmp(next, word) != 0)
        ptx_refuse(t, next, "stands where something else was expected");
}

bool ptx_number(const char *word, uint64_t *out)
{
    char *end;
    if (word[0] == '0' && (word[1] == 'f' || word[1] == 'd'))
        *out = strtoull(word + 2, &end, 16);
    else if (word[0] == '-')
        *out = (uint64_t)strtoll(word, &end, 0);
    else if (isdigit((unsigned char)word[0]))
        *out = strtoull(word, &end, 0);
    else
        return false;
    return *end == '\0' || strcmp(end, "U") == 0;
}

bool ptx_kind_of(const char *word, struct ptx_kind *out)
{
    static const struct {
        const char *name;
        struct ptx_kind kind;
    } kinds[] = {
        {"bf16x2", {PTX_BF16X2, 32}}, {"f16x2", {PTX_F16X2, 32}}, {"pred", {PTX_PRED, 1}},
        {"f16", {PTX_F, 16}},         {"f32", {PTX_F, 32}},       {"f64", {PTX_F, 64}},
        {"b8", {PTX_B, 8}},           {"b16", {PTX_B, 16}},       {"b32", {PTX_B, 32}},
        {"b64", {PTX_B, 64}},         {"u8", {PTX_U, 8}},         {"u16", {PTX_U, 16}},
        {"u32", {PTX_U, 32}},         {"u64", {PTX_U, 64}},       {"s8", {PTX_S, 8}},
        {"s16", {PTX_S, 16}},         {"s32", {PTX_S, 32}},       {"s64", {PTX_S, 64}},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strcmp(word, kinds[k].name) == 0) {
            *out = kinds[k].kind;
            return true;
        }
    return false;
}

/* --- what stands behind the first point --- */

static bool is_compare(const char *s)
{
    static const char *const all[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                      "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(s, all[i]) == 0)
            return true;
    return false;
}

static bool set_space(const char *s, struct ptx_instr *i)
{
    static const char *const names[] = {"", "param", "global", "shared", "local"};
    for (int k = PTX_PARAM; k <= PTX_LOCAL; k++)
        if (strcmp(s, names[k]) == 0) {
            i->space = (enum ptx_space)k;
            return true;
        }
    return false;
}

/* rn, rz, rm, rp; with an i: to a whole number. */
static bool set_round(const char *s, struct ptx_instr *i)
{
    static const char modes[] = "nzmp";
    if (s[0] != 'r' || s[1] == '\0' || !strchr(modes, s[1]))
        return false;
    i->round = (enum ptx_round)(strchr(modes, s[1]) - modes);
    i->integral = s[2] == 'i';
    return s[i->integral ? 3 : 2] == '\0';
}

static bool set_flag(const char *s, struct ptx_instr *i)
{
    if (strcmp(s, "ftz") == 0)
        i->ftz = true;
    else if (strcmp(s, "sat") == 0)
        i->sat = true;
    else if (strcmp(s, "approx") == 0)
        i->approx = true;
    else if (strcmp(s, "wide") == 0)
        i->wide = true;
    else if (strcmp(s, "warp") == 0)
        i->warp = true;
    else if (strcmp(s, "v2") == 0 || strcmp(s, "v4") == 0)
        i->vector = s[1] - '0';
    else if (is_compare(s))
        memcpy(i->compare, s, strlen(s) + 1);
    else /* what needs no saying here */
        return (i->op == ptx_cvta && strcmp(s, "to") == 0) || strcmp(s, "uni") == 0 ||
               (i->op == ptx_shfl && strcmp(s, "bfly") == 0) || strcmp(s, "sync") == 0 ||
               ((i->op == ptx_mul || i->op == ptx_mad) && strcmp(s, "lo") == 0) ||
               (i->op == ptx_ld && strcmp(s, "nc") == 0);
    return true;
}

static enum ptx_op op_of(const struct ptx_text *t, const char *name)
{
    static const char names[][5] = {
        "abs", "add",  "and",  "bar",  "bfi", "bra", "call", "cvt", "cvta", "div",  "ex2", "fma",
        "ld",  "mad",  "max",  "min",  "mov", "mul", "neg",  "not", "or",   "prmt", "rcp", "rem",
        "ret", "selp", "setp", "shfl", "shl", "shr", "sqrt", "st",  "sub",  "xor",
    };
    _Static_assert(sizeof names / sizeof *names == ptx_pack, "a name for each instruction");
    for (int op = 0; op < ptx_pack; op++)
        if (strcmp(name, names[op]) == 0)
            return (enum ptx_op)op;
    ptx_refuse(t, name, "is an instruction that this interpreter does not know");
}

void ptx_mnemonic(const struct ptx_text *t, const char *word, struct ptx_instr *i)
{
    char copy[PTX_WORD], *rest = copy;
    struct ptx_kind kind;
    int kinds = 0;
    snprintf(copy, sizeof copy, "%s", word);
    i->op = op_of(t, strsep(&rest, "."));
    i->vector = i->op == ptx_ld || i->op == ptx_st;
    while (rest) {
        const char *part = strsep(&rest, ".");
        if (ptx_kind_of(part, &kind)) {
            if (kinds++ == 0)
                i->kind = kind;
            i->from = kind;
        } else if (!set_space(part, i) && !set_round(part, i) && !set_flag(part, i))
            ptx_refuse(t, word, "has a part that this interpreter does not know");
    }
}
