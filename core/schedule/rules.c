/* schedule/rules.c: parses [comm] algorithm: which algorithm for which collective of which size.
 *
 *   ring                                            one word: for all
 *   all_reduce:0-64K=doubling, all_reduce=ring      rules KIND[:FROM-TO]=NAME
 *
 * Rules are tried in order; the first one whose collective (* is any) and range match decides; if
 * none matches, auto is used. Sizes are bytes of the larger side, both ends included; a range
 * without TO is unbounded. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/number/check.h"
#include "schedule/algorithm.h"

const sched_rename sched_renames[] = {
    {"direct", "pairwise"}, {"exchange", "one_shot"}, {NULL, NULL}};

typedef struct rule {
    uint32_t kinds; /* SCHED_ON(kind) | ... */
    uint64_t from, to;
    const sched_algorithm *algorithm; /* NULL: auto */
} rule;

/* A piece of the text, without surrounding blanks. */
typedef struct word {
    const char *at;
    int n;
} word;

static word trimmed(const char *at, size_t n)
{
    for (; n && (*at == ' ' || *at == '\t'); n--)
        at++;
    while (n && (at[n - 1] == ' ' || at[n - 1] == '\t'))
        n--;
    return (word){at, (int)(n < 200 ? n : 200)};
}

/* Returns the text before the first `mark` in *before; the rest stays in *w. False: there is no
 * mark. */
static bool split(word *w, char mark, word *before)
{
    const char *found = memchr(w->at, mark, (size_t)w->n);
    if (!found)
        return false;
    *before = trimmed(w->at, (size_t)(found - w->at));
    *w = trimmed(found + 1, (size_t)(w->at + w->n - found - 1));
    return true;
}

static int is(word w, const char *text)
{
    return strlen(text) == (size_t)w.n && memcmp(w.at, text, (size_t)w.n) == 0;
}

/* May a rule name this kind? */
static bool has_rules(uint32_t kind)
{
    return (kind >= WEFT_ALL_REDUCE && kind <= WEFT_ALL_TO_ALL) || kind == WEFT_SHIFT;
}

/* "; did you mean 'ring'?", or nothing. */
static const char *near(word w, const char *const *known, uint32_t n, char out[96])
{
    char text[32];
    snprintf(text, sizeof text, "%.*s", w.n, w.at);
    const char *best = config_nearest(text, known, n);
    out[0] = 0;
    if (best)
        snprintf(out, 96, "; did you mean '%s'?", best);
    return out;
}

static weft_status no_kind(word w)
{
    char all[200] = "", hint[96];
    const char *known[WEFT_SHIFT + 1];
    uint32_t n = 0;
    for (uint32_t k = WEFT_ALL_REDUCE; k <= WEFT_SHIFT; k++) {
        if (!has_rules(k))
            continue;
        size_t used = strlen(all);
        known[n] = sched_kind_word(k);
        snprintf(all + used, sizeof all - used, "%s%s", n ? ", " : "", known[n]);
        n++;
    }
    return err_fail(WEFT_USAGE, "'%.*s' is none of %s, * for any of them%s", w.n, w.at, all,
                    near(w, known, n, hint));
}

static weft_status no_algorithm(word w)
{
    char all[300] = "auto", hint[96];
    const char *known[64] = {"auto"};
    uint32_t n = 1;
    for (uint32_t i = 0; sched_algorithms[i] && n < 64; i++) {
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, ", %s", sched_algorithms[i]->name);
        known[n++] = sched_algorithms[i]->name;
    }
    return err_fail(WEFT_USAGE, "'%.*s' is none of the algorithms %s%s", w.n, w.at, all,
                    near(w, known, n, hint));
}

static weft_status read_name(word w, const sched_algorithm **out)
{
    *out = NULL;
    for (uint32_t i = 0; sched_algorithms[i]; i++)
        if (is(w, sched_algorithms[i]->name))
            *out = sched_algorithms[i];
    return *out || is(w, "auto") ? WEFT_OK : no_algorithm(w);
}

/* "64K" */
static int read_bytes(word w, uint64_t *out)
{
    static const char units[] = "KMG";
    int i = 0;
    for (*out = 0; i < w.n && w.at[i] >= '0' && w.at[i] <= '9'; i++)
        if (!check_mul(*out, 10, out) || !check_add(*out, (uint64_t)(w.at[i] - '0'), out))
            return 0;
    const char *unit = i && i + 1 == w.n ? memchr(units, w.at[i], 3) : NULL;
    if (unit)
        return check_mul(*out, (uint64_t)1 << (10 * (unit - units + 1)), out);
    return i && i == w.n;
}

static weft_status read_range(word w, rule *out)
{
    word from, to = w;
    if (split(&to, '-', &from) && read_bytes(from, &out->from) &&
        (to.n == 0 || read_bytes(to, &out->to)) && out->from <= out->to)
        return WEFT_OK;
    return err_fail(
        WEFT_USAGE,
        "'%.*s' is not a range of sizes; write FROM-TO in bytes, as 0-64K or 1M-64M, or FROM-", w.n,
        w.at);
}

static weft_status read_kind(word w, rule *out)
{
    for (uint32_t k = WEFT_ALL_REDUCE; k <= WEFT_SHIFT; k++)
        if (has_rules(k) && is(w, sched_kind_word(k)))
            out->kinds = SCHED_ON(k);
    if (is(w, "*"))
        out->kinds = UINT32_MAX;
    return out->kinds ? WEFT_OK : no_kind(w);
}

static weft_status cannot(const rule *r, word w)
{
    uint32_t kind = (uint32_t)__builtin_ctz(r->kinds);
    char able[200] = "auto";
    for (uint32_t i = 0; sched_algorithms[i]; i++) {
        size_t used = strlen(able);
        if (sched_algorithms[i]->kinds & r->kinds)
            snprintf(able + used, sizeof able - used, ", %s", sched_algorithms[i]->name);
    }
    return err_fail(WEFT_USAGE, "'%.*s': %s has no %s; use one of: %s", w.n, w.at,
                    r->algorithm->name, sched_kind_word(kind), able);
}

static weft_status read_rule(word whole, rule *out)
{
    word kind, name = whole, range;
    *out = (rule){.to = UINT64_MAX};
    if (!split(&name, '=', &range))
        return err_fail(
            WEFT_USAGE,
            "'%.*s' is not a rule; write KIND=NAME or KIND:FROM-TO=NAME, as all_reduce:0-64K="
            "doubling, or one algorithm alone",
            whole.n, whole.at);
    int ranged = split(&range, ':', &kind);
    weft_status st = read_kind(ranged ? kind : range, out);
    if (st == WEFT_OK && ranged)
        st = read_range(range, out);
    if (st == WEFT_OK)
        st = read_name(name, &out->algorithm);
    int one = out->kinds != UINT32_MAX;
    if (st == WEFT_OK && one && out->algorithm && !(out->algorithm->kinds & out->kinds))
        st = cannot(out, whole);
    return st;
}

/* Parses the next rule of *text. */
static weft_status next_rule(const char **text, rule *out)
{
    size_t n = strcspn(*text, ",");
    word w = trimmed(*text, n);
    *text += (*text)[n] ? n + 1 : n;
    return read_rule(w, out);
}

static int is_one_word(const char *rules)
{
    return !strpbrk(rules, "=,:");
}

weft_status sched_rules_check(const config *c, const char *key, const char *rules)
{
    const sched_algorithm *a;
    rule r;
    char why[512];
    weft_status st = WEFT_OK;
    rules = c ? config_raw(c, key) : rules;
    if (!rules)
        return WEFT_OK;
    int one = is_one_word(rules);
    if (one)
        st = read_name(trimmed(rules, strlen(rules)), &a);
    while (!one && *rules && st == WEFT_OK)
        st = next_rule(&rules, &r);
    snprintf(why, sizeof why, "%s", st != WEFT_OK ? err_text() : "");
    return st != WEFT_OK && c ? config_fail(c, key, "%s", why) : st;
}

const char *sched_rule(const char *rules, const sched_request *r)
{
    uint64_t bytes = r->count * weft_dtype_size(r->dtype);
    rule next;
    if (is_one_word(rules))
        return rules;
    do {
        if (next_rule(&rules, &next) != WEFT_OK) {
            err_clear(); /* sched_rules_check() has reported it */
            return "auto";
        }
        if ((next.kinds & SCHED_ON(r->kind)) && bytes >= next.from && bytes <= next.to)
            return next.algorithm ? next.algorithm->name : "auto";
    } while (*rules);
    return "auto";
}
