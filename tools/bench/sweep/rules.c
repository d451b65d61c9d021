/* bench/sweep/rules.c: conditions on rows: only, skip and baseline (see sweep.h). */
#include "bench/sweep/sweep.h"

#include "base/err.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *bench_sweep_value(const bench_sweep *s, const bench_sweep_row *r, const char *key)
{
    for (uint32_t i = 0; i < s->ncolumns; i++)
        if (!strcmp(s->column[i].key, key))
            return r->value[i];
    return NULL;
}

/* Blanks are ignored. */
static bool same_text(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (isspace((unsigned char)*a))
            a++;
        while (isspace((unsigned char)*b))
            b++;
        if (*a != *b || !*a)
            return *a == *b;
    }
}

static bool is_listed(const bench_sweep *s, uint32_t c, const char *wanted)
{
    const bench_sweep_axis *a = &s->axis[s->column[c].axis];
    for (uint32_t i = 0; i < a->n; i++)
        if (a->choice[i][c] && same_text(a->choice[i][c], wanted))
            return true;
    return false;
}

/* Whether "section.key=value" or "section.key!=value" matches the row. */
static weft_status one_condition(const bench_sweep *s, const char *rule, char *text,
                                 const bench_sweep_row *r, bool *fits)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return config_fail(s->cfg, rule, "'%s' is not section.key=value or section.key!=value",
                           cli_trimmed(text));
    bool differs = equals[-1] == '!';
    const char *wanted = cli_trimmed(equals + 1);
    equals[differs ? -1 : 0] = 0;
    const char *key = cli_trimmed(text);
    uint32_t c = 0;
    while (c < s->ncolumns && strcmp(s->column[c].key, key))
        c++;
    if (c == s->ncolumns)
        return config_fail(s->cfg, rule, "'%s' has no list in [sweep]", key);
    if (!is_listed(s, c, wanted))
        return config_fail(s->cfg, rule, "'%s' is not in the list of %s", wanted, key);
    *fits = *fits && (r->value[c] && same_text(r->value[c], wanted)) != differs;
    return WEFT_OK;
}

weft_status bench_sweep_fits(const bench_sweep *s, const char *key, const char *rule,
                             const bench_sweep_row *r, bool *out)
{
    char name[32];
    snprintf(name, sizeof name, "sweep.%s", key);
    char *text = strdup(rule), *rest = text, *one;
    weft_status st = text ? WEFT_OK : err_fail(WEFT_NO_MEMORY, "no memory for a rule");
    *out = false;
    while (st == WEFT_OK && (one = strsep(&rest, "|;"))) {
        bool fits = true;
        for (char *word; st == WEFT_OK && (word = strsep(&one, "&"));)
            st = one_condition(s, name, word, r, &fits);
        *out |= fits;
    }
    free(text);
    return st;
}
