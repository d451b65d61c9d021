/* check/exercise/data.c: the life of a source of samples: open, describe, read, close, for training
 * and for validation.
 *
 * A source reads what its options name. Where the user sets none of them (--set), a source with a
 * text option "train" whose default is empty gets a file: of text first, then of ids (weft/tokens.h
 * has the format). One that reads neither is driven up to the call that says so. */
#define _GNU_SOURCE /* memfd_create */
#include "check/exercise/exercise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <weft/data.h>
#include <weft/tokens.h>

#define ROWS 16u
#define SAMPLES 3u
#define FIELDS 32u
#define IDS 6000u
#define MAX_ROW (64u << 20) /* bytes of a field */

#define CALL(d, t, member, ...) ((d)->where = #member, PLUGIN_GET(t, member, __VA_ARGS__))
#define LENT(d, ...) check_lend_end(&(d)->lend, CALL(d, __VA_ARGS__))

/* --- files: in memory, so nothing has to be removed --- */

static char files[2][32]; /* their paths; "": not written yet */

static void write_file(const char *name, const void *bytes, size_t n, char path[32])
{
    const int fd = memfd_create(name, 0);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        check_fail("no memory for a file of samples");
    snprintf(path, 32, "/proc/self/fd/%d", fd);
}

void check_exercise_files(void)
{
    static const char line[] = "The loom carries a thread across the warp, and back again: %u.\n";
    static char text[16384];
    struct {
        int32_t header[WEFT_TOKENS_HEADER_WORDS];
        uint16_t ids[IDS];
    } tokens = {{(int32_t)WEFT_TOKENS_MAGIC, 1, IDS, 256}, {0}};
    size_t n = 0;
    if (files[0][0])
        return;
    for (uint32_t i = 0; n + sizeof line + 8 < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, line, i);
    for (uint32_t i = 0; i < IDS; i++)
        tokens.ids[i] = (uint16_t)(i * 7 % 251);
    write_file("weft-check-text", text, n, files[0]);
    write_file("weft-check-tokens", &tokens, sizeof tokens, files[1]);
}

/* --- the calls --- */

uint64_t check_exercise_field_bytes(const char *of, const weft_field *f)
{
    uint64_t n = f->dtype == WEFT_U8 ? 1 : 4;
    check_that(f->name && *f->name, "info() of '%s' answers a field without a name", of);
    check_that(
        f->dtype == WEFT_U8 || f->dtype == WEFT_I32 || f->dtype == WEFT_F32,
        "the field '%.63s' of '%s' has the type %u; WEFT_I32, WEFT_U8 and WEFT_F32 are those "
        "of fields",
        f->name, of, f->dtype);
    check_that(f->rank < WEFT_MAX_AXES,
               "the field '%.63s' of '%s' has %u axes; a row has at most %u", f->name, of, f->rank,
               WEFT_MAX_AXES - 1);
    for (uint32_t i = 0; i < f->rank; i++) {
        const int64_t size = f->axes[i].size;
        check_that(
            size > 0 && (uint64_t)size <= MAX_ROW / n,
            "the field '%.63s' of '%s' has the size %lld at axis %u; a row of the checker has "
            "at most %u bytes",
            f->name, of, (long long)size, i, MAX_ROW);
        n *= (uint64_t)size;
    }
    return n;
}

static weft_status describe(check_exercise *d, const weft_data_table *t, weft_dataset *set,
                            uint64_t rows, weft_data_info *out)
{
    struct {
        weft_data_info info;
        uint64_t spare[8]; /* a plugin may write too much */
    } own = {.info = {.struct_size = sizeof own.info}};
    weft_data_info *lent = check_lend_out(&d->lend, &own.info);
    const weft_status st = LENT(d, t, info, set, rows, lent);
    check_lend_filled(&d->lend, &own.info, lent, "weft_data_info");
    *out = own.info;
    if (st == WEFT_OK && (!out->samples || !out->nfields || !out->fields || !out->identity))
        check_fail("info() of '%s' answers %llu samples, %u fields%s", d->of,
                   (unsigned long long)out->samples, out->nfields,
                   out->identity ? "" : ", and no identity");
    return st;
}

static weft_status read_some(check_exercise *d, const weft_data_table *t, weft_dataset *set,
                             const weft_data_info *info, uint64_t rows)
{
    void *out[FIELDS] = {0};
    const uint64_t count = info->samples < SAMPLES ? info->samples : SAMPLES;
    for (uint32_t i = 0; i < info->nfields && i < FIELDS; i++)
        out[i] = mem_alloc(count * rows * check_exercise_field_bytes(d->of, &info->fields[i]) + 1);
    const weft_read_args args = {
        .struct_size = sizeof args,
        .count = count,
        .sequence = rows,
        .nfields = info->nfields,
        .out = check_lend_bytes(&d->lend, out, (size_t)info->nfields * sizeof *out)};
    const weft_status st =
        CHECK_STEP("read", LENT(d, t, read, set, CHECK_LEND(&d->lend, weft_read_args, &args)));
    for (uint32_t i = 0; i < FIELDS; i++)
        free(out[i]);
    return st;
}

static weft_status use_set(check_exercise *d, const weft_data_table *t, weft_dataset *set)
{
    weft_data_info info;
    weft_status st = describe(d, t, set, 0, &info);
    const uint64_t rows = st == WEFT_OK && info.rows ? info.rows : ROWS;
    if (st == WEFT_OK)
        st = describe(d, t, set, rows, &info);
    if (st == WEFT_OK && info.nfields <= FIELDS)
        st = read_some(d, t, set, &info, rows);
    return st;
}

static weft_status open_set(check_exercise *d, const host_component *c, const weft_conf *conf,
                            uint32_t usual, weft_dataset **out)
{
    const weft_data_args args = {
        .struct_size = sizeof args,
        .use = check_lend_value(&d->lend, "the use of a weft_data_args", usual, 77),
        .seed = d->run->seed,
        .conf = conf};
    const weft_data_table *t = c->table;
    *out = NULL;
    return LENT(d, t, open, d->module, CHECK_LEND(&d->lend, weft_data_args, &args), out);
}

/* --- the options --- */

/* Whether a source gets the checker's files. */
static bool takes_file(const host_component *c)
{
    const weft_option *o = check_option(c, "train");
    return o && o->type == WEFT_OPT_STRING && o->dflt && !*o->dflt && !check_options_value("train");
}

const weft_conf *check_exercise_data_conf(check_host *h, const host_component *c, uint32_t number)
{
    if (!number)
        return check_conf(h, c);
    if (!takes_file(c) || number > sizeof files / sizeof *files)
        return NULL;
    h->set_of = c;
    h->set_key = "train";
    h->set_value = files[number - 1];
    h->also_key = check_option(c, "valid") ? "valid" : NULL;
    h->also_value = h->set_value;
    const weft_conf *conf = check_conf(h, c);
    h->set_of = NULL;
    h->also_key = NULL;
    return conf;
}

bool check_exercise_data_none(const host_component *c, uint32_t number, const char *call,
                              weft_status st, const char *why, char out[1024])
{
    char name[128] = "";
    const weft_option *const *o = c->options;
    while (o && *o && (*o)->type != WEFT_OPT_STRING)
        o++;
    const char *key = check_option(c, "train") ? "train" : o && *o ? (*o)->key : NULL;
    const bool refused = st == WEFT_USAGE || st == WEFT_DATA || st == WEFT_IO;
    if ((st != WEFT_OK && !refused) || (!number && strcmp(call, "open") != 0))
        return false;
    if (key && !check_options_value(key))
        snprintf(name, sizeof name, "; name a file of its own format with --set %.64s=FILE", key);
    snprintf(out, 1024, "%s%s: %s() %s%.600s",
             number ? "it reads neither the text file nor the token file of the checker"
                    : "it has no data with these options",
             name, call, refused ? "failed: " : "gives no set", refused ? why : "");
    return true;
}

/* Use the training data of the first options with which there is some, *conf. That is NULL with
 * WEFT_OK where there are none, and d->absent says why. */
static weft_status find_data(check_exercise *d, const host_component *c, const weft_conf **conf)
{
    const weft_data_table *t = c->table;
    const weft_conf *next;
    weft_dataset *set;
    char why[1024];
    *conf = NULL;
    for (uint32_t i = 0; (next = check_exercise_data_conf(d->host, c, i)); i++) {
        check_host_clear(d->host);
        weft_status st = open_set(d, c, next, WEFT_DATA_TRAIN, &set);
        const bool opened = st == WEFT_OK && set;
        if (opened)
            st = use_set(d, t, set);
        PLUGIN_DO(t, close, set);
        if ((opened && st == WEFT_OK) || d->lend.altered ||
            !check_exercise_data_none(c, i, d->where, st, check_exercise_why(d), why)) {
            *conf = next;
            return st;
        }
        if (!*d->absent || st != WEFT_OK)
            memcpy(d->absent, why, sizeof why);
    }
    check_host_clear(d->host);
    return WEFT_OK;
}

weft_status check_exercise_data(check_exercise *d, const host_component *c)
{
    const weft_data_table *t = c->table;
    const weft_conf *conf;
    weft_dataset *set;
    if (d->paper)
        return WEFT_OK;
    check_exercise_files();
    weft_status st = find_data(d, c, &conf);
    if (st != WEFT_OK || !conf)
        return st;
    *d->absent = 0;
    st = open_set(d, c, conf, WEFT_DATA_VALID, &set);
    if (st == WEFT_OK && set)
        st = use_set(d, t, set);
    PLUGIN_DO(t, close, set);
    return st;
}
