/* cli/bench/sweep/input.c: [sweep] to rows (see sweep.h).
 *
 * A list is separated by commas, or by '|' (or ';') where values have commas themselves. The rows
 * are all choices of one value a list, the last list fastest. Of these `only` keeps those that one
 * of its alternatives fits, then `skip` drops those that one of its own fits. */
#include "cli/bench/sweep/sweep.h"

#include "base/err.h"
#include "cli/cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct own_key {
    const char *key, *dflt, *help;
} own_keys[] = {
    {"ranks", "", "numbers of ranks; left out: what the sizes of the mesh axes multiply to"},
    {"repeats", "3", "runs of each combination, one round after the other; 1 to 100"},
    {"warmup", "2", "first steps of a run, which are not measured; 0 to 10000"},
    {"steps", "8", "measured steps of a run; 1 to 1000000"},
    {"deadline", "600", "seconds that a run may last; 1 to 86400"},
    {"reference", "on", "on: losses are compared with those of one rank; off: they are not"},
    {"only", "", "combinations to keep: section.key=value & section.key!=value | ..."},
    {"skip", "", "combinations to leave out, in the same form"},
    {"out", "runs/sweep", "folder for sweep.csv, sweep.json, job files and the runs"},
    {"section.key", "", "values of that key: a list with commas, or with | between the values"},
};

void cli_sweep_print_keys(FILE *to)
{
    fprintf(to, "| key | default | meaning |\n|---|---|---|\n");
    for (size_t i = 0; i < sizeof own_keys / sizeof *own_keys; i++) {
        fprintf(to, "| %s | %s | ", own_keys[i].key, own_keys[i].dflt);
        for (const char *h = own_keys[i].help; *h; h++)
            fprintf(to, *h == '|' ? "\\|" : "%c", *h);
        fprintf(to, " |\n");
    }
}

static const char *own_text(const sweep *s, const char *key)
{
    char name[64];
    snprintf(name, sizeof name, "sweep.%s", key);
    const char *text = config_raw(s->cfg, name);
    for (size_t i = 0; !text && i < sizeof own_keys / sizeof *own_keys; i++)
        if (!strcmp(own_keys[i].key, key))
            text = own_keys[i].dflt;
    return text ? text : "";
}

static bool is_own(const char *key)
{
    for (size_t i = 1; i < sizeof own_keys / sizeof *own_keys; i++) /* ranks is an axis */
        if (!strcmp(own_keys[i].key, key))
            return true;
    return false;
}

static weft_status own_number(const sweep *s, const char *key, uint64_t min, uint64_t max,
                              uint64_t *out)
{
    char name[64];
    snprintf(name, sizeof name, "sweep.%s", key);
    if (cli_number(own_text(s, key), min, max, out))
        return WEFT_OK;
    return config_fail(s->cfg, name, "'%s' is not a whole number from %llu to %llu",
                       own_text(s, key), (unsigned long long)min, (unsigned long long)max);
}

/* --- lists --- */

static char *trimmed(char *word)
{
    while (isspace((unsigned char)*word))
        word++;
    size_t n = strlen(word);
    while (n && isspace((unsigned char)word[n - 1]))
        word[--n] = 0;
    return word;
}

static const char *separators(const char *text)
{
    return strpbrk(text, "|;") ? "|;" : ",";
}

static weft_status take_list(sweep *s, const char *key, const char *text, const char *where)
{
    uint32_t at = 0;
    while (at < s->naxes && strcmp(s->axis[at].key, key))
        at++; /* a list on the command line replaces that of the file */
    if (at == SWEEP_AXES)
        return err_fail(WEFT_USAGE, "%s: more than %d lists in [sweep]", where, SWEEP_AXES);
    sweep_axis *a = &s->axis[at];
    s->naxes += at == s->naxes;
    *a = (sweep_axis){.key = pool_text(&s->pool, key), .where = pool_text(&s->pool, where)};
    a->value = pool_array(&s->pool, strlen(text) + 1, sizeof *a->value);
    char *rest = pool_text(&s->pool, text);
    const char *sep = separators(text);
    for (char *word; (word = strsep(&rest, sep));) {
        word = trimmed(word);
        if (!*word && !rest && a->n)
            continue; /* "tp, dp |": one value with a comma */
        for (uint32_t i = 0; i < a->n; i++)
            if (!strcmp(a->value[i], word))
                return err_fail(WEFT_USAGE, "%s: '%s' appears twice in the list of %s", where, word,
                                key);
        if (!*word)
            return err_fail(WEFT_USAGE, "%s: the list of %s has a value without a letter", where,
                            key);
        a->value[a->n++] = word;
    }
    return WEFT_OK;
}

static weft_status check_ranks(const sweep *s)
{
    uint64_t n;
    for (uint32_t a = 0; a < s->naxes; a++)
        for (uint32_t i = 0; !strcmp(s->axis[a].key, SWEEP_RANKS) && i < s->axis[a].n; i++)
            if (!cli_number(s->axis[a].value[i], 1, 1024, &n))
                return err_fail(WEFT_USAGE, "%s: '%s' is not a number of ranks from 1 to 1024",
                                s->ranks ? "-n" : config_where(s->cfg, "sweep." SWEEP_RANKS),
                                s->axis[a].value[i]);
    return WEFT_OK;
}

/* Keys that the sweep sets itself. */
static const char *const taken[] = {
    "run.out",          "run.steps",    "run.key",         "train.eval_every",
    "checkpoint.every", "log.progress", "log.trace_steps", NULL};

static weft_status take_entry(sweep *s, const config_line *e)
{
    char key[128];
    bool plain = !strcmp(e->section, "sweep");
    if (!plain && strncmp(e->section, "sweep.", 6))
        return WEFT_OK;
    snprintf(key, sizeof key, "%s%s%s", plain ? "" : e->section + 6, plain ? "" : ".", e->key);
    if (is_own(key) && strcmp(key, "section.key"))
        return WEFT_OK;
    if (!strcmp(key, SWEEP_RANKS) && s->ranks)
        return WEFT_OK; /* -n says it */
    if (strcmp(key, SWEEP_RANKS) && !strchr(key, '.')) {
        const char *known[sizeof own_keys / sizeof *own_keys];
        uint32_t n = 0;
        for (; n < sizeof own_keys / sizeof *own_keys; n++)
            known[n] = own_keys[n].key;
        const char *near = config_nearest(key, known, n);
        return err_fail(WEFT_USAGE, "%s: unknown key '%s' in [sweep]%s%s%s", e->where, key,
                        near ? "; did you mean '" : "; lists are of section.key", near ? near : "",
                        near ? "'?" : "");
    }
    for (uint32_t i = 0; taken[i]; i++)
        if (!strcmp(taken[i], key))
            return err_fail(WEFT_USAGE, "%s: %s is set by the sweep itself", e->where, key);
    return take_list(s, key, e->value, e->where);
}

/* Column heads: the last word of the key, unless two keys end alike. */
static void name_columns(sweep *s)
{
    for (uint32_t i = 0; i < s->naxes; i++) {
        const char *dot = strrchr(s->axis[i].key, '.');
        const char *word = dot ? dot + 1 : s->axis[i].key;
        uint32_t same = 0;
        for (uint32_t k = 0; k < s->naxes; k++) {
            dot = strrchr(s->axis[k].key, '.');
            same += !strcmp(dot ? dot + 1 : s->axis[k].key, word);
        }
        s->axis[i].head = same > 1 ? s->axis[i].key : word;
    }
}

/* --- rules --- */

const char *cli_sweep_value(const sweep *s, const sweep_row *r, const char *key)
{
    for (uint32_t i = 0; i < s->naxes; i++)
        if (!strcmp(s->axis[i].key, key))
            return r->value[i];
    return NULL;
}

/* Whether "section.key=value" or "section.key!=value" matches the row. Blanks are ignored. */
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

static weft_status one_condition(const sweep *s, const char *rule, char *text, const sweep_row *r,
                                 bool *fits)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return config_fail(s->cfg, rule, "'%s' is not section.key=value or section.key!=value",
                           trimmed(text));
    bool differs = equals[-1] == '!';
    const char *wanted = trimmed(equals + 1);
    equals[differs ? -1 : 0] = 0;
    const char *key = trimmed(text), *has = cli_sweep_value(s, r, key);
    bool listed = false;
    for (uint32_t i = 0; i < s->naxes; i++)
        for (uint32_t k = 0; !strcmp(s->axis[i].key, key) && k < s->axis[i].n; k++)
            listed |= same_text(s->axis[i].value[k], wanted);
    if (!has)
        return config_fail(s->cfg, rule, "'%s' has no list in [sweep]", key);
    if (!listed)
        return config_fail(s->cfg, rule, "'%s' is not in the list of %s", wanted, key);
    *fits = *fits && same_text(has, wanted) != differs;
    return WEFT_OK;
}

/* Whether one of the alternatives matches. */
static weft_status rule_fits(const sweep *s, const char *key, const sweep_row *r, bool *out)
{
    char name[32];
    snprintf(name, sizeof name, "sweep.%s", key);
    char *text = strdup(own_text(s, key)), *rest = text, *one;
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

static weft_status wanted(const sweep *s, const sweep_row *r, bool *out)
{
    bool fits = true;
    weft_status st = WEFT_OK;
    *out = true;
    if (*own_text(s, "only"))
        st = rule_fits(s, "only", r, &fits);
    *out = fits;
    if (st == WEFT_OK && *own_text(s, "skip")) {
        st = rule_fits(s, "skip", r, &fits);
        *out = *out && !fits;
    }
    return st;
}

static weft_status make_rows(sweep *s)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->naxes; i++)
        n = n > SWEEP_ROWS ? n : n * s->axis[i].n;
    if (n > SWEEP_ROWS)
        return err_fail(WEFT_USAGE, "%s: the lists of [sweep] make more than %d combinations",
                        s->ini, SWEEP_ROWS);
    for (uint64_t i = 0; i < n; i++) {
        sweep_row r = {.worst = -1};
        uint64_t at = i;
        for (uint32_t a = s->naxes; a-- > 0; at /= s->axis[a].n)
            r.value[a] = s->axis[a].value[at % s->axis[a].n];
        bool keep;
        weft_status st = wanted(s, &r, &keep);
        if (st != WEFT_OK)
            return st;
        s->left_out += !keep;
        r.number = s->rows.n + 1;
        if (keep)
            *vec_push(&s->rows) = r;
    }
    return s->rows.n ? WEFT_OK
                     : err_fail(WEFT_USAGE, "%s: only and skip leave nothing to run", s->ini);
}

static weft_status read_own(sweep *s)
{
    weft_status st = own_number(s, "repeats", 1, 100, &s->repeats);
    if (st == WEFT_OK)
        st = own_number(s, "warmup", 0, 10000, &s->warmup);
    if (st == WEFT_OK)
        st = own_number(s, "steps", 1, 1000000, &s->steps);
    if (st == WEFT_OK)
        st = own_number(s, "deadline", 1, 86400, &s->deadline);
    const char *compare = own_text(s, "reference");
    s->compare = !strcmp(compare, "on");
    if (st == WEFT_OK && !s->compare && strcmp(compare, "off"))
        st = config_fail(s->cfg, "sweep.reference", "'%s' is neither on nor off", compare);
    s->out = own_text(s, "out");
    if (st == WEFT_OK && !*s->out)
        st = config_fail(s->cfg, "sweep.out", "is empty: name a folder");
    return st;
}

weft_status cli_sweep_read(sweep *s, const char *ini, const char *const *overrides, uint32_t n)
{
    s->ini = ini;
    weft_status st = config_load(ini, overrides, n, &s->cfg);
    config_line e;
    bool any = false;
    for (uint32_t i = 0; st == WEFT_OK && config_line_at(s->cfg, i, &e); i++) {
        any |= !strncmp(e.section, "sweep", 5);
        st = e.stale ? WEFT_OK : take_entry(s, &e);
    }
    if (st == WEFT_OK && !any)
        st = err_fail(
            WEFT_USAGE,
            "%s has no section [sweep], which lists the keys to vary; add it, or give the lists "
            "here, for example sweep.parallel.strategy=dp,tp",
            ini);
    if (st == WEFT_OK && s->ranks)
        st = take_list(s, SWEEP_RANKS, pool_printf(&s->pool, "%u", s->ranks), "-n");
    if (st == WEFT_OK)
        st = check_ranks(s);
    if (st == WEFT_OK)
        st = read_own(s);
    name_columns(s);
    return st != WEFT_OK ? st : make_rows(s);
}

void cli_sweep_free(sweep *s)
{
    for (uint32_t i = 0; i < s->rows.n; i++) {
        free(s->rows.at[i].sample);
        free(s->rows.at[i].loss);
    }
    for (uint32_t i = 0; i < s->references.n; i++) {
        free(s->references.at[i].row.sample);
        free(s->references.at[i].row.loss);
    }
    free(s->rows.at);
    free(s->references.at);
    pool_free(&s->pool);
    config_destroy(s->cfg);
}
