/* tokens/text/encode.c: see encode.h. Units stand in a ring: the reader fills the next free one,
 * any thread takes the next that is not begun, and the oldest is written when it is ready. */
#define _GNU_SOURCE
#include "tokens/text/encode.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "tokens/text/unit.h"

#define MAX_THREADS 256u
#define SHOW_TERMINAL_MS 500u
#define SHOW_MS 10000u

typedef struct run {
    const tokens_text_list *list;
    const data_tokenizer *t;
    const tokens_text_options *o;
    tokens_reader *reader;
    tokens_spool *spool;
    uint32_t nthreads, nunits;
    pthread_t *threads;
    tokens_unit *units;            /* [nunits] the ring */
    uint64_t read, begun, written; /* units so far; guarded by the lock */
    bool end;                      /* the threads end */
    pthread_mutex_t lock;
    pthread_cond_t work, ready;
    bool terminal, shown; /* what is shown of the progress */
    uint64_t began_ms, due_ms, every_ms, text_before, done_before;
} run;

/* --- the threads --- */

static void *encode_units(void *arg)
{
    run *r = arg;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!r->end && r->begun == r->read)
            pthread_cond_wait(&r->work, &r->lock);
        if (r->end)
            break;
        tokens_unit *u = &r->units[r->begun++ % r->nunits];
        pthread_mutex_unlock(&r->lock);
        tokens_unit_encode(u, r->t, r->o);
        pthread_mutex_lock(&r->lock);
        u->ready = true;
        pthread_cond_signal(&r->ready);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static uint32_t processors(void)
{
    cpu_set_t mine;
    const int n = sched_getaffinity(0, sizeof mine, &mine) ? 1 : CPU_COUNT(&mine);
    return n < 1 ? 1 : (uint32_t)n;
}

static weft_status begin_threads(run *r)
{
    const uint32_t want = r->o->threads ? r->o->threads : processors();
    const uint32_t n = want < MAX_THREADS ? want : MAX_THREADS;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->work, NULL);
    pthread_cond_init(&r->ready, NULL);
    r->nunits = n > 1 ? 2 * n + 1 : 1;
    r->units = mem_alloc(r->nunits * sizeof *r->units);
    r->threads = mem_alloc(n * sizeof *r->threads);
    for (; n > 1 && r->nthreads < n; r->nthreads++)
        if (pthread_create(&r->threads[r->nthreads], NULL, encode_units, r))
            return err_fail(WEFT_NO_MEMORY, "cannot start thread %u of %u that encode text",
                            r->nthreads + 1, n);
    return WEFT_OK;
}

static void end_threads(run *r)
{
    pthread_mutex_lock(&r->lock);
    r->end = true;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    for (uint32_t i = 0; i < r->nthreads; i++)
        pthread_join(r->threads[i], NULL);
    for (uint32_t i = 0; i < r->nunits; i++)
        tokens_unit_free(&r->units[i]);
    pthread_cond_destroy(&r->work);
    pthread_cond_destroy(&r->ready);
    pthread_mutex_destroy(&r->lock);
    free(r->threads);
    free(r->units);
}

/* --- progress --- */

static void show(run *r, uint64_t text, uint64_t done)
{
    const uint64_t now = clock_ms();
    if (now < r->due_ms)
        return;
    r->due_ms = now + r->every_ms;
    const double s = (double)(now - r->began_ms + 1) * 1e-3;
    const double files = (double)(done - r->done_before), all = (double)r->list->bytes;
    const double left = files > 0 ? (all - (double)done) * s / files : 0;
    char line[160];
    snprintf(line, sizeof line,
             "encoded %.0f of %.0f MB of files, %.1f MB/s of text, ETA %" PRIu64 ":%02u",
             (double)done * 1e-6, all * 1e-6, (double)(text - r->text_before) * 1e-6 / s,
             (uint64_t)left / 60, (unsigned)left % 60);
    if (!r->terminal) {
        log_line(WEFT_LOG_INFO, "%s", line);
        return;
    }
    fprintf(stderr, "\r\033[K%s", line);
    r->shown = true;
}

/* --- units in order --- */

/* Waits for the oldest unit, and writes it. */
static weft_status write_unit(run *r)
{
    tokens_unit *u = &r->units[r->written % r->nunits];
    pthread_mutex_lock(&r->lock);
    while (!u->ready)
        pthread_cond_wait(&r->ready, &r->lock);
    pthread_mutex_unlock(&r->lock);
    r->written++;
    if (u->st != WEFT_OK)
        return err_fail(u->st, "%s", u->why);
    weft_status st = WEFT_OK;
    for (int i = 0; st == WEFT_OK && i < 2; i++)
        if (u->ids[i].n)
            st = tokens_spool_add(r->spool, i, u->ids[i].at, u->ids[i].n);
    if (st == WEFT_OK && u->marks)
        st = tokens_spool_mark(r->spool, &u->place);
    show(r, u->place.text, u->done);
    return st;
}

static weft_status read_unit(run *r, bool *end)
{
    tokens_unit *u = &r->units[r->read % r->nunits];
    u->ready = false;
    const weft_status st = tokens_unit_read(u, r->reader, r->t, r->o);
    *end = !u->n;
    if (st != WEFT_OK || *end)
        return st;
    if (!r->nthreads) {
        tokens_unit_encode(u, r->t, r->o);
        u->ready = true;
        r->read++;
        return WEFT_OK;
    }
    pthread_mutex_lock(&r->lock);
    r->read++;
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
    return WEFT_OK;
}

static weft_status encode_all(run *r)
{
    weft_status st = begin_threads(r);
    for (bool end = false; st == WEFT_OK && !(end && r->written == r->read);)
        if (!end && r->read - r->written < r->nunits)
            st = read_unit(r, &end);
        else
            st = write_unit(r);
    if (r->shown)
        fprintf(stderr, "\r\033[K");
    end_threads(r);
    return st;
}

/* What the result depends on. */
static uint64_t digest(const tokens_text_list *list, const data_tokenizer *t,
                       const tokens_text_options *o, bool valid)
{
    uint64_t h = 1469598103934665603u;
    char line[64];
    for (uint32_t i = 0; i < list->n + 2; i++) {
        const tokens_text_file *f = i < list->n ? &list->at[i] : NULL;
        const char *s = f ? f->path : i == list->n ? t->info.identity : o->field;
        if (f)
            snprintf(line, sizeof line, "|%" PRIu64 " %" PRId64 "|", f->bytes, f->changed);
        else
            snprintf(line, sizeof line, "|%d %d %d|", valid, o->special, o->plain);
        for (; s && *s; s++)
            h = (h ^ (unsigned char)*s) * 1099511628211u;
        for (s = line; *s; s++)
            h = (h ^ (unsigned char)*s) * 1099511628211u;
    }
    return h;
}

weft_status tokens_text_encode(const tokens_text_list *list, const data_tokenizer *t,
                               const tokens_text_options *o, const char *output, bool replace,
                               bool valid, tokens_spool **out, uint64_t *text)
{
    tokens_place from = {0};
    run r = {.list = list, .t = t, .o = o, .terminal = isatty(STDERR_FILENO)};
    weft_status st = tokens_spool_open(output, digest(list, t, o, valid), replace, &from, &r.spool);
    if (st != WEFT_OK)
        return st;
    if (from.text)
        log_line(WEFT_LOG_INFO, "%s goes on after %.1f MB of text", output,
                 (double)from.text * 1e-6);
    st = tokens_reader_open(list, t, valid, o->field, &from, &r.reader);
    if (st == WEFT_OK) {
        r.began_ms = clock_ms();
        r.every_ms = getenv("WEFT_TEST_SPOOL") ? 0 : r.terminal ? SHOW_TERMINAL_MS : SHOW_MS;
        r.due_ms = r.began_ms + (r.terminal ? 2 : 1) * r.every_ms;
        r.text_before = from.text;
        r.done_before = tokens_reader_done(r.reader);
        st = encode_all(&r);
        *text = tokens_reader_text(r.reader);
    }
    tokens_reader_close(r.reader);
    if (st == WEFT_OK)
        *out = r.spool;
    else
        tokens_spool_close(r.spool, st == WEFT_IO || st == WEFT_NO_MEMORY);
    return st;
}
