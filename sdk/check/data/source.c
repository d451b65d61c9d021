/* check/data/source.c: what a source hands out. See data.h. */
#include "check/data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY_ROWS 333u /* of a sample, where the data has enough for two */
#define ROWS 16u
#define SAMPLES 8u
#define FIELDS 32u
#define FAR 1000000007u /* number of a late sample of training */
#define ZONE 64u        /* bytes behind a field that are not to be written */
#define MARK 0xa5

static check_host lent;

/* A set that is open. */
typedef struct source {
    check_run *run;
    const host_component *c;
    const weft_data_table *table;
    void *module;
    const weft_conf *conf;
    uint32_t use;
    weft_dataset *set;
    weft_data_info info;
    uint64_t rows;
    const char *call; /* the last one, "read" */
} source;

/* One field's memory each: `count` samples and a zone behind. */
typedef struct batch {
    unsigned char *field[FIELDS];
    uint64_t bytes[FIELDS]; /* of a sample */
} batch;

/* --- sets --- */

static weft_status open_set(source *s)
{
    const weft_data_args args = {
        .struct_size = sizeof args, .use = s->use, .seed = s->run->seed, .conf = s->conf};
    s->set = NULL;
    s->call = "open";
    weft_status st = PLUGIN_GET(s->table, open, s->module, &args, &s->set);
    if (st != WEFT_OK || !s->set)
        return st;
    s->call = "info";
    s->info = (weft_data_info){.struct_size = sizeof s->info};
    st = PLUGIN_GET(s->table, info, s->set, 0, &s->info);
    for (uint32_t i = s->info.rows ? 1 : 0; st == WEFT_OK && i < 2; i++) {
        s->rows = s->info.rows ? s->info.rows : i ? ROWS : MANY_ROWS;
        s->info = (weft_data_info){.struct_size = sizeof s->info};
        st = PLUGIN_GET(s->table, info, s->set, s->rows, &s->info);
        if (st == WEFT_OK && s->info.samples >= 2)
            return st;
        if (st == WEFT_USAGE && !i) /* the data is too short for this */
            st = WEFT_OK;
        check_host_clear(&lent);
    }
    return st;
}

static void close_set(source *s)
{
    PLUGIN_DO(s->table, close, s->set);
    s->set = NULL;
}

/* --- reading --- */

static void begin(const source *s, uint64_t count, batch *b)
{
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < s->info.nfields; i++) {
        b->bytes[i] = s->rows * check_exercise_field_bytes(s->c->name, &s->info.fields[i]);
        b->field[i] = mem_alloc(b->bytes[i] * count + ZONE);
        memset(b->field[i], MARK, b->bytes[i] * count + ZONE);
    }
}

static void end(batch *b)
{
    for (uint32_t i = 0; i < FIELDS; i++)
        free(b->field[i]);
}

/* `count` samples from `first` on to sample `at` of the batch; `wanted`: one bit a field. */
static weft_status read_some(source *s, batch *b, uint64_t at, uint64_t first, uint64_t count,
                             uint32_t wanted)
{
    void *out[FIELDS] = {0};
    for (uint32_t i = 0; i < s->info.nfields; i++)
        out[i] = wanted >> i & 1 ? b->field[i] + b->bytes[i] * at : NULL;
    const weft_read_args args = {.struct_size = sizeof args,
                                 .first = first,
                                 .count = count,
                                 .sequence = s->rows,
                                 .nfields = s->info.nfields,
                                 .out = out};
    s->call = "read";
    return PLUGIN_GET(s->table, read, s->set, &args);
}

static void read_to(source *s, batch *b, uint64_t at, uint64_t first, uint64_t count,
                    uint32_t wanted)
{
    const weft_status st = read_some(s, b, at, first, count, wanted);
    if (st != WEFT_OK)
        check_fail("read() of '%s' returned %s for %llu samples from %llu on, of %llu: %s",
                   s->c->name, check_status(st), (unsigned long long)count,
                   (unsigned long long)first, (unsigned long long)s->info.samples, lent.why);
}

static uint64_t samples_of(const source *s)
{
    return s->use == WEFT_DATA_VALID && s->info.samples < SAMPLES ? s->info.samples : SAMPLES;
}

/* With the first options with which there is data that can be read; false: none, and `why` says so.
 */
static bool find_set(source *s, char why[1024])
{
    weft_status st = WEFT_OK;
    batch b;
    for (uint32_t i = 0; (s->conf = check_exercise_data_conf(&lent, s->c, i)); i++) {
        check_host_clear(&lent);
        st = open_set(s);
        if (s->info.nfields > FIELDS)
            check_not_applicable("'%s' has more than %u fields", s->c->name, FIELDS);
        if (st == WEFT_OK && s->set) {
            begin(s, samples_of(s), &b);
            st = read_some(s, &b, 0, 0, samples_of(s), UINT32_MAX);
            end(&b);
            if (st == WEFT_OK)
                return true;
        }
        if (!check_exercise_data_none(s->c, i, s->call, st, lent.why, why))
            check_fail("a lawful call failed: %s() of '%s' returned %s: %s", s->call, s->c->name,
                       check_status(st), lent.why);
        close_set(s);
    }
    return false;
}

static void each(check_run *r, void (*fn)(source *s))
{
    const weft_manifest *m = check_manifest(r);
    char why[1024];
    check_exercise_files();
    for (uint32_t i = 0; i < r->n; i++) {
        source s = {.run = r, .c = r->components[i], .table = r->components[i]->table};
        if (strcmp(s.c->iface, "weft.data/1"))
            continue;
        check_host_begin(&lent, "the host");
        if (check_open(m, &lent, &s.module) != WEFT_OK)
            check_fail("open() failed: %s", lent.why);
        s.use = WEFT_DATA_TRAIN;
        if (find_set(&s, why)) {
            fn(&s);
            close_set(&s);
            s.use = WEFT_DATA_VALID;
            if (open_set(&s) == WEFT_OK && s.set)
                fn(&s);
        } else {
            check_absent("no sample of '%s' was read: %s", s.c->name, why);
        }
        close_set(&s);
        check_close(m, s.module);
        check_host_end(&lent);
    }
}

/* --- samples --- */

/* The first sample in which a field differs, or `count`. */
static uint64_t differs(const source *s, const batch *a, const batch *b, uint64_t count)
{
    for (uint64_t k = 0; k < count; k++)
        for (uint32_t i = 0; i < s->info.nfields; i++)
            if (memcmp(a->field[i] + k * b->bytes[i], b->field[i] + k * b->bytes[i], b->bytes[i]) !=
                0)
                return k;
    return count;
}

static void must_agree(const source *s, const batch *a, const batch *b, const char *how)
{
    const uint64_t count = samples_of(s), k = differs(s, a, b, count);
    check_that(k == count, "sample %llu of '%s' for %s has other values %s", (unsigned long long)k,
               s->c->name, s->use == WEFT_DATA_VALID ? "validation" : "training", how);
}

static void samples(source *s)
{
    const uint64_t count = samples_of(s);
    batch first, other;
    begin(s, count, &first);
    read_to(s, &first, 0, 0, count, UINT32_MAX);
    begin(s, count, &other);
    for (uint64_t k = count; k-- > 0;)
        read_to(s, &other, k, k, 1, UINT32_MAX);
    must_agree(s, &first, &other, "when it is read by itself, behind later samples");
    end(&other);
    begin(s, count, &other);
    if (s->use == WEFT_DATA_TRAIN)
        read_to(s, &other, 0, FAR, 1, UINT32_MAX);
    char identity[1024];
    weft_dataset *before = s->set; /* open, so that the other one lies elsewhere */
    snprintf(identity, sizeof identity, "%s", s->info.identity);
    if (open_set(s) != WEFT_OK || !s->set)
        check_fail("open() of '%s' succeeds, and then it fails or gives no set: %s", s->c->name,
                   lent.why);
    read_to(s, &other, 0, 0, count, UINT32_MAX);
    must_agree(s, &first, &other, "in a set that is opened again with the same options and seed");
    check_that(*identity && !strncmp(identity, s->info.identity, sizeof identity - 1),
               "'%s' is '%.400s', and opened again with the same options '%.400s'", s->c->name,
               identity, s->info.identity);
    PLUGIN_DO(s->table, close, before);
    end(&other);
    end(&first);
}

void check_data_samples(check_run *r)
{
    each(r, samples);
}

/* --- fields --- */

static void look_behind(const source *s, const batch *b, uint64_t count, uint32_t wanted)
{
    for (uint32_t i = 0; i < s->info.nfields; i++) {
        const uint64_t from = wanted >> i & 1 ? b->bytes[i] * count : 0;
        for (uint64_t k = from; k < b->bytes[i] * count + ZONE; k++)
            check_that(b->field[i][k] == MARK,
                       "read() of '%s' writes byte %llu of the field '%s', which has %llu",
                       s->c->name, (unsigned long long)k, s->info.fields[i].name,
                       (unsigned long long)from);
    }
}

static void look_at_ids(const source *s, const batch *b, uint64_t count)
{
    for (uint32_t i = 0; s->info.vocab && i < s->info.nfields; i++) {
        const int32_t *ids = (const int32_t *)(const void *)b->field[i];
        for (uint64_t k = 0;
             s->info.fields[i].dtype == WEFT_I32 && k < b->bytes[i] / sizeof *ids * count; k++)
            check_that(ids[k] >= 0 && (uint32_t)ids[k] < s->info.vocab,
                       "read() of '%s' writes %d to the field '%s'; ids are below %u", s->c->name,
                       (int)ids[k], s->info.fields[i].name, s->info.vocab);
    }
}

static void fields(source *s)
{
    const uint64_t count = samples_of(s);
    batch all, some;
    begin(s, count, &all);
    read_to(s, &all, 0, 0, count, UINT32_MAX);
    look_behind(s, &all, count, UINT32_MAX);
    look_at_ids(s, &all, count);
    for (uint32_t i = 0; i < s->info.nfields; i++) {
        begin(s, count, &some);
        read_to(s, &some, 0, 0, count, 1u << i);
        look_behind(s, &some, count, 1u << i);
        check_that(!memcmp(all.field[i], some.field[i], all.bytes[i] * count),
                   "the field '%s' of '%s' has other values when no other field is asked for",
                   s->info.fields[i].name, s->c->name);
        end(&some);
    }
    end(&all);
}

void check_data_fields(check_run *r)
{
    each(r, fields);
}
