/* bench/sweep/lists.c: the lists of [sweep] to columns and choices (see sweep.h).
 *
 * A list is separated by commas, or by '|' (or ';') where values have commas themselves. A list of
 * bundles has values {key = value, key = value}, each of which sets several keys at once; a key
 * without a dot is of the section that the list is named after. What has no '=' belongs to the
 * value before it: {strategy = tp, dp, tp = 2} sets strategy to "tp, dp". */
#include "bench/sweep/sweep.h"

#include "base/err.h"

#include <string.h>

/* Keys that the sweep sets itself. */
static const char *const taken[] = {
    "run.out",          "run.steps",    "run.key",         "train.eval_every",
    "checkpoint.every", "log.progress", "log.trace_steps", NULL};

static weft_status check_key(const char *key, const char *where)
{
    for (uint32_t i = 0; taken[i]; i++)
        if (!strcmp(taken[i], key))
            return err_fail(WEFT_USAGE, "%s: %s is set by the sweep itself", where, key);
    return WEFT_OK;
}

static bool is_bundles(const char *text)
{
    return text[strspn(text, " \t")] == '{';
}

weft_status bench_sweep_take_list(bench_sweep *s, const char *name, const char *text,
                                  const char *where)
{
    uint32_t at = 0;
    while (at < s->naxes && strcmp(s->axis[at].name, name))
        at++; /* a list on the command line replaces that of the file */
    if (at == SWEEP_AXES)
        return err_fail(WEFT_USAGE, "%s: more than %d lists in [sweep]", where, SWEEP_AXES);
    s->naxes += at == s->naxes;
    s->axis[at] = (bench_sweep_axis){.name = pool_text(&s->pool, name),
                                     .text = pool_text(&s->pool, text),
                                     .where = pool_text(&s->pool, where)};
    return WEFT_OK;
}

weft_status bench_sweep_take(bench_sweep *s, const config_line *e)
{
    char key[128];
    bool plain = !strcmp(e->section, "sweep");
    if (!plain && strncmp(e->section, "sweep.", 6))
        return WEFT_OK;
    snprintf(key, sizeof key, "%s%s%s", plain ? "" : e->section + 6, plain ? "" : ".", e->key);
    if (bench_sweep_is_own(key))
        return WEFT_OK;
    if (!strcmp(key, SWEEP_RANKS) && s->ranks)
        return WEFT_OK; /* -n says it */
    if (strcmp(key, SWEEP_RANKS) && !strchr(key, '.') && !is_bundles(e->value))
        return bench_sweep_unknown(e->where, key);
    weft_status st = check_key(key, e->where);
    return st == WEFT_OK ? bench_sweep_take_list(s, key, e->value, e->where) : st;
}

/* --- columns --- */

/* The column of a key that the list `axis` sets. */
static weft_status find_column(bench_sweep *s, const char *key, uint32_t axis, uint32_t *out)
{
    const bench_sweep_axis *a = &s->axis[axis];
    uint32_t c = 0;
    while (c < s->ncolumns && strcmp(s->column[c].key, key))
        c++;
    if (c == SWEEP_COLUMNS)
        return err_fail(WEFT_USAGE, "%s: the lists of [sweep] set more than %d keys", a->where,
                        SWEEP_COLUMNS);
    if (c < s->ncolumns && s->column[c].axis != axis)
        return err_fail(WEFT_USAGE, "%s: %s is set by the list of %s (%s) as well: one of the two",
                        a->where, key, s->axis[s->column[c].axis].name,
                        s->axis[s->column[c].axis].where);
    if (c == s->ncolumns) {
        s->column[c] = (bench_sweep_column){.key = pool_text(&s->pool, key), .axis = axis};
        s->ncolumns++;
    }
    *out = c;
    return WEFT_OK;
}

static uint64_t count_of(const char *text, const char *any)
{
    uint64_t n = 1;
    for (; *text; text++)
        n += strchr(any, *text) != NULL;
    return n;
}

static weft_status parse_values(bench_sweep *s, uint32_t axis)
{
    bench_sweep_axis *a = &s->axis[axis];
    uint32_t c;
    weft_status st = find_column(s, a->name, axis, &c);
    const char *sep = strpbrk(a->text, "|;") ? "|;" : ",";
    char *rest = pool_text(&s->pool, a->text);
    a->choice = pool_array(&s->pool, count_of(a->text, sep), sizeof *a->choice);
    for (char *word; st == WEFT_OK && (word = strsep(&rest, sep));) {
        word = cli_trimmed(word);
        if (!*word && !rest && a->n)
            continue; /* "tp, dp |": one value with a comma */
        for (uint32_t i = 0; i < a->n; i++)
            if (!strcmp(a->choice[i][c], word))
                return err_fail(WEFT_USAGE, "%s: '%s' appears twice in the list of %s", a->where,
                                word, a->name);
        if (!*word)
            return err_fail(WEFT_USAGE, "%s: the list of %s has a value without a letter", a->where,
                            a->name);
        a->choice[a->n++][c] = word;
    }
    return st;
}

/* --- bundles --- */

/* "strategy = tp": the length of the key before the '='; 0: it is no key, but more of a value. */
static size_t key_length(const char *piece)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_.-";
    size_t n = strspn(piece, letters);
    return n && piece[n + strspn(piece + n, " \t")] == '=' ? n : 0;
}

static weft_status set_key(bench_sweep *s, uint32_t axis, const char **choice, const char *piece,
                           size_t length, uint32_t *column)
{
    const bench_sweep_axis *a = &s->axis[axis];
    const char *equals = strchr(piece, '=');
    const bool whole = memchr(piece, '.', length) || !strncmp(piece, SWEEP_RANKS "=", length + 1) ||
                       (length == strlen(SWEEP_RANKS) && !memcmp(piece, SWEEP_RANKS, length));
    const char *key = pool_printf(&s->pool, "%s%s%.*s", whole ? "" : a->name, whole ? "" : ".",
                                  (int)length, piece);
    weft_status st = check_key(key, a->where);
    if (st == WEFT_OK && !strcmp(key, SWEEP_RANKS) && s->ranks)
        st = err_fail(WEFT_USAGE, "%s: a bundle sets ranks, and so does -n: one of the two",
                      a->where);
    if (st == WEFT_OK)
        st = find_column(s, key, axis, column);
    if (st == WEFT_OK && choice[*column])
        st = err_fail(WEFT_USAGE, "%s: a bundle of %s sets %s twice", a->where, a->name, key);
    if (st == WEFT_OK)
        choice[*column] = cli_trimmed(pool_text(&s->pool, equals + 1));
    return st;
}

/* What is between { and }. */
static weft_status parse_bundle(bench_sweep *s, uint32_t axis, char *inside)
{
    bench_sweep_axis *a = &s->axis[axis];
    const char **choice = a->choice[a->n++];
    uint32_t column = 0, keys = 0;
    weft_status st = WEFT_OK;
    for (char *piece; st == WEFT_OK && (piece = strsep(&inside, ","));) {
        piece = cli_trimmed(piece);
        const size_t length = key_length(piece);
        if (length) {
            st = set_key(s, axis, choice, piece, length, &column);
            keys++;
        } else if (!keys || !*piece) {
            return err_fail(WEFT_USAGE, "%s: '%s' in a bundle of %s is not key = value", a->where,
                            piece, a->name);
        } else {
            choice[column] = pool_printf(&s->pool, "%s, %s", choice[column], piece);
        }
    }
    for (uint32_t c = 0; st == WEFT_OK && c < s->ncolumns; c++)
        if (choice[c] && !*choice[c])
            st = err_fail(WEFT_USAGE, "%s: a bundle of %s has no value for %s", a->where, a->name,
                          s->column[c].key);
    return st;
}

static weft_status parse_bundles(bench_sweep *s, uint32_t axis)
{
    bench_sweep_axis *a = &s->axis[axis];
    char *at = pool_text(&s->pool, a->text);
    weft_status st = WEFT_OK;
    a->choice = pool_array(&s->pool, count_of(a->text, "{"), sizeof *a->choice);
    while (st == WEFT_OK) {
        at += strspn(at, " \t,|;");
        if (!*at)
            break;
        char *end = strchr(at, '}');
        if (*at != '{' || !end || memchr(at + 1, '{', (size_t)(end - at)))
            return err_fail(WEFT_USAGE,
                            "%s: the bundles of %s are {key = value, ...} | {key = value, ...}, "
                            "and '%.40s' is none",
                            a->where, a->name, at);
        *end = 0;
        st = parse_bundle(s, axis, at + 1);
        at = end + 1;
    }
    return st;
}

/* Column heads: the last word of the key, unless two keys end alike. */
static void name_columns(bench_sweep *s)
{
    for (uint32_t i = 0; i < s->ncolumns; i++) {
        const char *dot = strrchr(s->column[i].key, '.');
        const char *word = dot ? dot + 1 : s->column[i].key;
        uint32_t same = 0;
        for (uint32_t k = 0; k < s->ncolumns; k++) {
            dot = strrchr(s->column[k].key, '.');
            same += !strcmp(dot ? dot + 1 : s->column[k].key, word);
        }
        s->column[i].head = same > 1 ? s->column[i].key : word;
    }
}

static bool is_varied(const bench_sweep_axis *a, uint32_t c)
{
    for (uint32_t i = 1; i < a->n; i++) {
        const char *x = a->choice[0][c], *y = a->choice[i][c];
        if (!x != !y || (x && strcmp(x, y) != 0))
            return true;
    }
    return false;
}

weft_status bench_sweep_parse_lists(bench_sweep *s)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < s->naxes && st == WEFT_OK; i++)
        st = is_bundles(s->axis[i].text) ? parse_bundles(s, i) : parse_values(s, i);
    if (st != WEFT_OK)
        return st;
    for (uint32_t c = 0; c < s->ncolumns; c++)
        s->column[c].varies = is_varied(&s->axis[s->column[c].axis], c);
    name_columns(s);
    return WEFT_OK;
}
