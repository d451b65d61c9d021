/* bench/sweep/keys.c: the keys of [sweep] that are no lists (see sweep.h). */
#include "bench/sweep/sweep.h"

#include "base/err.h"

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
    {"baseline", "", "which combination ratios are to, in the same form; empty: the first"},
    {"out", "runs/sweep", "folder for sweep.csv, sweep.json, job files and the runs"},
    {"section.key", "", "values of that key: a list with commas, or with | between the values"},
    {"section", "",
     "bundles, each of which sets several keys: {key = value, ...} | {...}; a key "
     "without a dot is of that section, others are section.key or ranks"},
};
#define OWN_KEYS (sizeof own_keys / sizeof *own_keys)

void bench_sweep_print_keys(FILE *to)
{
    fprintf(to, "| key | default | meaning |\n|---|---|---|\n");
    for (size_t i = 0; i < OWN_KEYS; i++) {
        fprintf(to, "| %s | %s | ", own_keys[i].key, own_keys[i].dflt);
        for (const char *h = own_keys[i].help; *h; h++)
            fprintf(to, *h == '|' ? "\\|" : "%c", *h);
        fprintf(to, " |\n");
    }
}

const char *bench_sweep_own_text(const bench_sweep *s, const char *key)
{
    char name[64];
    snprintf(name, sizeof name, "sweep.%s", key);
    const char *text = config_raw(s->cfg, name);
    for (size_t i = 0; !text && i < OWN_KEYS; i++)
        if (!strcmp(own_keys[i].key, key))
            text = own_keys[i].dflt;
    return text ? text : "";
}

bool bench_sweep_is_own(const char *key)
{
    for (size_t i = 1; i + 2 < OWN_KEYS; i++) /* ranks is a list, and so are the last two */
        if (!strcmp(own_keys[i].key, key))
            return true;
    return false;
}

weft_status bench_sweep_unknown(const char *where, const char *key)
{
    const char *known[OWN_KEYS];
    uint32_t n = 0;
    for (; n + 2 < OWN_KEYS; n++)
        known[n] = own_keys[n].key;
    const char *near = config_nearest(key, known, n);
    return err_fail(WEFT_USAGE, "%s: unknown key '%s' in [sweep]%s%s%s", where, key,
                    near ? "; did you mean '" : "; lists are of section.key, bundles in braces",
                    near ? near : "", near ? "'?" : "");
}
