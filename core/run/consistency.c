/* run/consistency.c: see consistency.h. Every rank fetches the settings of rank 0 before the
 * exchange, so that each can name a difference even after another rank has left. */
#include "run/consistency.h"
#include "run/state/start.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/number/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether it is a cost by which algorithms are selected. Costs must be equal on all ranks, whatever
 * file they come from. Defaults are skipped, because a machine may lack a transport. */
static bool is_cost(const config *c, const char *section, const char *key)
{
    char name[260];
    snprintf(name, sizeof name, "%s.%s", section, key);
    for (const weft_option *const *o = config_link_options(); *o; o++)
        if (!strcmp((*o)->key, key))
            return !strncmp(section, "comm.", 5) && config_given(c, name);
    return false;
}

static bool of_a_machine(const char *section, const char *key)
{
    if (!strcmp(section, "comm") && !strcmp(key, "tuned"))
        return true; /* a path; the contents of the file are compared */
    bool own = !strcmp(section, "device") || !strcmp(section, "log") || !strcmp(section, "data") ||
               !strcmp(section, "tokenizer") ||
               (strchr(section, '.') && strncmp(section, "optim.", 6)); /* data: by its identity */
    return own || (!strcmp(section, "run") && (!strcmp(key, "key") || !strcmp(key, "plugins") ||
                                               !strcmp(key, "listen") || !strcmp(key, "address")));
}

/* The settings that must be equal on all ranks, one "section.key = value" per line; the caller
 * frees it. */
static char *shared_settings(const config *c)
{
    char *dump = config_dump(c), section[128] = "", key[128], *rest;
    mem_text out;
    mem_text_begin(&out);
    for (char *line = strtok_r(dump, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "[%127[^]]]", section) == 1)
            continue;
        if (sscanf(line, "%127[^ =]", key) == 1 &&
            (!of_a_machine(section, key) || is_cost(c, section, key)))
            fprintf(out.to, "%s.%s\n", section, line);
    }
    free(dump);
    return mem_text_end(&out);
}

/* What each rank reads, a line "USE data: SOURCE: IDENTITY" each; the caller frees it. */
static char *list_data(const run_prepared *j)
{
    const data_set *const sets[] = {&j->train, &j->valid};
    static const char *const use[] = {"training", "validation"};
    mem_text out;
    mem_text_begin(&out);
    for (int i = 0; i < 2; i++)
        fprintf(out.to, "%s data: %s: %s\n", use[i], sets[i]->set ? sets[i]->source->name : "none",
                sets[i]->set ? sets[i]->info.identity : "");
    return mem_text_end(&out);
}

/* Whether the key of the first line is among the keys of `lines`. */
static bool has_key_of(const char *line, const char *lines)
{
    size_t n = strcspn(line, "=");
    for (; *lines; lines += strcspn(lines, "\n"), lines += *lines != 0)
        if (!strncmp(lines, line, n))
            return true;
    return !*line;
}

/* Move both texts to the first line in which they differ. */
static void skip_equal(const char **x, const char **y)
{
    size_t a = strcspn(*x, "\n");
    while (a && a == strcspn(*y, "\n") && !memcmp(*x, *y, a + 1)) {
        *x += a + 1;
        *y += a + 1;
        a = strcspn(*x, "\n");
    }
}

/* The order of keys is fixed, so the first lines that differ are the difference. */
static weft_status name_setting(uint32_t rank, const char *mine, const char *zero)
{
    skip_equal(&mine, &zero);
    const size_t a = strcspn(mine, "\n"), b = strcspn(zero, "\n");
    if (!has_key_of(mine, zero))
        return err_fail(WEFT_USAGE,
                        "rank %u has %.*s, which rank 0 lacks: give every rank the same job", rank,
                        a < 200 ? (int)a : 200, mine);
    if (!has_key_of(zero, mine))
        return err_fail(WEFT_USAGE,
                        "rank %u lacks %.*s, which rank 0 has: give every rank the same job", rank,
                        b < 200 ? (int)b : 200, zero);
    return err_fail(WEFT_USAGE,
                    "rank %u has %.*s where rank 0 has %.*s: give every rank the same job", rank,
                    a < 200 ? (int)a : 200, mine, b < 200 ? (int)b : 200, zero);
}

/* The lines of list_data() are as many on all ranks. */
static weft_status name_data(uint32_t rank, const char *mine, const char *zero)
{
    skip_equal(&mine, &zero);
    const size_t a = strcspn(mine, "\n"), b = strcspn(zero, "\n"), use = strcspn(mine, ":");
    return err_fail(WEFT_USAGE,
                    "rank %u has other %.*s than rank 0: its [data] gives%.*s, that of rank 0%.*s",
                    rank, (int)use, mine, (int)(a - use - (a > use)), mine + use + (a > use),
                    b > use ? (int)(b - use - 1) : 0, b > use ? zero + use + 1 : "");
}

/* The files of plugins in use, a line "plugin ID DIGEST PATH" each; the caller frees it. */
static weft_status list_files(const run_prepared *j, char **out, uint64_t *mark)
{
    const host_file *files;
    uint32_t n = 0;
    mem_text text;
    mem_text_begin(&text);
    weft_status st = host_used_files(j->host, true, &files, &n);
    *mark = DIGEST_BEGIN;
    for (uint32_t i = 0; st == WEFT_OK && i < n; i++) {
        fprintf(text.to, "plugin %s %s %s\n", files[i].id, files[i].digest, files[i].path);
        digest_mix(mark, files[i].id, strlen(files[i].id) + 1);
        digest_mix(mark, files[i].digest, sizeof files[i].digest);
    }
    *out = mem_text_end(&text);
    return st;
}

static char *list_parts(const plan_set *set)
{
    char stage[32] = "";
    mem_text text;
    mem_text_begin(&text);
    for (uint32_t i = 0; i < set->n; i++) {
        if (set->n > 1)
            snprintf(stage, sizeof stage, "stage %u: ", i);
        plan_print_parts(&set->at[i], stage, text.to);
    }
    return mem_text_end(&text);
}

/* One line of list_files(). */
typedef struct file_line {
    char id[WEFT_MAX_NAME + 1], digest[65], path[1025];
} file_line;

static const char *read_line(const char *at, file_line *out)
{
    *out = (file_line){{0}, {0}, {0}};
    sscanf(at, "plugin %64s %64s %1024[^\n]", out->id, out->digest, out->path);
    at += strcspn(at, "\n");
    return at + (*at != 0);
}

static weft_status name_file(uint32_t rank, const char *mine, const char *zero)
{
    file_line a, b;
    do {
        mine = read_line(mine, &a);
        zero = read_line(zero, &b);
    } while (*a.id && !strcmp(a.id, b.id) && !strcmp(a.digest, b.digest));
    if (strcmp(a.id, b.id))
        return err_fail(WEFT_USAGE,
                        "rank %u uses the plugin %s (%s) where rank 0 uses %s (%s): install the "
                        "same plugins on every machine",
                        rank, *a.id ? a.id : "none", a.path, *b.id ? b.id : "none", b.path);
    return err_fail(WEFT_USAGE,
                    "rank %u and rank 0 have loaded different files of the plugin %s: SHA-256 %s "
                    "(%s) on rank %u, %s (%s) on rank 0; install the same build on every machine",
                    rank, a.id, a.digest, a.path, rank, b.digest, b.path);
}

static weft_status name_part(uint32_t rank, const char *mine, const char *zero)
{
    skip_equal(&mine, &zero);
    const size_t a = strcspn(mine, "\n");
    const int n = a > 17 ? (int)a - 17 : 0; /* without the digest */
    return err_fail(WEFT_USAGE,
                    "rank %u has another plan than rank 0, which differs first in %.*s: both must "
                    "run the same program and plugins",
                    rank, n ? n : 20, n ? mine : "the number of stages");
}

enum { SETTINGS, DATA, FILES, PARTS, SHEETS };

/* The texts that ranks other than 0 fetch of rank 0, in the order in which they are compared. */
static const struct {
    const char *key;
    weft_status (*name)(uint32_t rank, const char *mine, const char *zero); /* the difference */
    const char *others; /* what all ranks say of the one that differs and names it */
} sheets[SHEETS] = {
    {"settings", name_setting, "has other settings than rank 0, and reports which"},
    {"data", name_data, "has other data than rank 0, and reports which"},
    {"plugin files", name_file, "has loaded other plugin files than rank 0, and reports which"},
    {"parts of the plan", name_part,
     "has another plan than rank 0, and reports where they differ: both must run the same program "
     "and plugins"},
};

typedef struct notes {
    uint64_t resume, of[SHEETS]; /* digests */
} notes;

/* `mine` and `zero` are there when `r` is this rank, else NULL. */
static weft_status compare(uint32_t r, const notes *has, const notes *first, char *const *mine,
                           char *const *zero)
{
    static const char *const words[] = {"without --resume", "with --resume", "with --resume=auto",
                                        "with --resume=force"};
    if (has->resume != first->resume)
        return err_fail(WEFT_USAGE, "rank %u was started %s and rank 0 %s: start all ranks alike",
                        r, words[has->resume & 3], words[first->resume & 3]);
    for (uint32_t i = 0; i < SHEETS; i++)
        if (has->of[i] != first->of[i])
            return mine ? sheets[i].name(r, mine[i], zero[i])
                        : err_fail(WEFT_USAGE, "rank %u %s", r, sheets[i].others);
    return WEFT_OK;
}

static weft_status compare_all(job *meeting, const job_identity *who, const notes *own,
                               char *const *mine, char *const *zero)
{
    notes *all = mem_alloc(who->ranks * sizeof *all);
    weft_status st = job_exchange(meeting, "agree", own, sizeof *own, all);
    if (st == WEFT_OK)
        st = compare(who->rank, own, all, mine, zero);
    for (uint32_t r = 1; st == WEFT_OK && r < who->ranks; r++)
        st = compare(r, &all[r], all, NULL, NULL);
    free(all);
    return st;
}

/* Rank 0 puts a text into the store, and the others fetch it. */
static weft_status share(job *j, const job_identity *who, const run_settings *set, const char *name,
                         const char *mine, char **zero)
{
    uint64_t bytes = 0;
    void *got = NULL;
    if (!who->rank)
        return job_put(j, name, mine, strlen(mine) + 1);
    weft_status st = job_get(j, name, set->join_timeout, &got, &bytes);
    *zero = got;
    if (st == WEFT_OK && (!bytes || (*zero)[bytes - 1]))
        st = err_fail(WEFT_DATA, "rank 0 sent %s that are not text", name);
    return st;
}

weft_status run_check_consistency(const run_prepared *mine, job *j, const job_identity *who,
                                  run_resume_mode resume)
{
    weft_status st = resume == TRAIN_AFRESH ? run_start_check(mine) : WEFT_OK;
    if (st != WEFT_OK || !j)
        return st;
    char *own[SHEETS] = {shared_settings(mine->cfg), list_data(mine), NULL,
                         list_parts(&mine->plans)};
    char *zero[SHEETS] = {0};
    notes has = {.resume = resume, .of[PARTS] = mine->plans.digest};
    digest_mix(&has.of[SETTINGS], own[SETTINGS], strlen(own[SETTINGS]));
    digest_mix(&has.of[DATA], own[DATA], strlen(own[DATA]));
    st = list_files(mine, &own[FILES], &has.of[FILES]);
    for (uint32_t i = 0; st == WEFT_OK && i < SHEETS; i++)
        st = share(j, who, &mine->set, sheets[i].key, own[i], &zero[i]);
    if (st == WEFT_OK)
        st = compare_all(j, who, &has, own, zero);
    for (uint32_t i = 0; i < SHEETS; i++) {
        free(zero[i]);
        free(own[i]);
    }
    return st;
}
