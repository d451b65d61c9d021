/* run/save/saver.c: see saver.h. */
#define _GNU_SOURCE
#include "run/save/saver.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/within.h"
#include "host/call.h"
#include "run/save/copy.h"
#include "run/save/pieces.h"
#include "run/save/write.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct run_saver {
    run_executor *e;
    run_save_pieces pieces;
    char *copy; /* the device's, freed with it; NULL: saves are not beside the steps */
    uint32_t threads;
    char *job_text;
    bool reported_wait;
    run_save_news news;
    /* The save under way. The thread owns `writer`, and the rest until `ended` is set. */
    run_save_writer writer;
    uint64_t step;
    pthread_t thread;
    bool running; /* the thread has to be joined */
    atomic_bool ended;
    uint64_t began_ns, ended_ns;
    weft_status st;
    err_record why;
};

weft_status run_saver_open(run_executor *e, const config *cfg, run_outlock *lock, bool beside,
                           uint32_t sharing, run_saver **saver)
{
    run_saver *s = mem_alloc(sizeof *s);
    *saver = s;
    s->e = e;
    s->job_text = config_dump(cfg);
    s->threads = run_copy_threads(sharing);
    s->writer = (run_save_writer){.job = e->job,
                                  .rank = e->rank,
                                  .ranks = e->plan->spec->ranks,
                                  .keep = {e->set->save_keep, 0},
                                  .out = e->set->out,
                                  .lock = lock,
                                  .job_text = s->job_text,
                                  .timeout = e->set->save_timeout};
    run_save_collect(e, &s->pieces);
    if (!beside || !s->pieces.bytes)
        return WEFT_OK;
    void *copy = NULL;
    weft_status st = PLUGIN_CALL(e->table, host_memory, e->device, s->pieces.bytes, &copy);
    if (st != WEFT_OK) {
        err_context(
            "%.2f GiB of host memory for copies of checkpoints (checkpoint.async = off does "
            "without)",
            (double)s->pieces.bytes / 0x1p30);
        return st;
    }
    s->copy = copy;
    run_copy_touch(s->copy, s->pieces.bytes, s->threads);
    return WEFT_OK;
}

/* --- writing --- */

static void write_now(run_saver *s)
{
    s->st = run_save_write(&s->writer, s->step, s->pieces.out, s->pieces.n);
    err_keep(&s->why);
    s->ended_ns = clock_ns();
    atomic_store(&s->ended, true);
}

static void *write_beside(void *arg)
{
    write_now(arg);
    return NULL;
}

/* The end of a save: its result is this thread's from now on. */
static weft_status take(run_saver *s)
{
    if (s->running)
        pthread_join(s->thread, NULL);
    s->running = false;
    if (s->st != WEFT_OK)
        return err_again(s->st, &s->why);
    if (s->step)
        s->news.complete = s->step;
    s->news.write_ms = (double)(s->ended_ns - s->began_ns) * 1e-6;
    s->step = 0;
    return WEFT_OK;
}

static weft_status save_in_place(run_saver *s)
{
    pool copies = {0};
    weft_status st = run_save_view(s->e, &s->pieces, &copies);
    if (st == WEFT_OK) {
        write_now(s);
        st = take(s);
    }
    pool_free(&copies);
    return st;
}

static weft_status save_beside(run_saver *s)
{
    const uint64_t began = clock_ns();
    weft_status st = run_save_copy(s->e, &s->pieces, s->copy, s->threads);
    s->news.copy_ms = (double)(clock_ns() - began) * 1e-6;
    if (st != WEFT_OK)
        return st;
    const int error = thread_start(&s->thread, "weft-save", write_beside, s);
    s->running = !error;
    if (!error)
        return WEFT_OK;
    log_line(WEFT_LOG_WARN,
             "no thread can be started (%s): step %llu is saved before the run continues",
             strerror(error), (unsigned long long)s->step);
    write_now(s);
    return take(s);
}

weft_status run_saver_finish(run_saver *s)
{
    return !s || (!s->running && s->st == WEFT_OK) ? WEFT_OK : take(s);
}

weft_status run_saver_begin(run_saver *s, uint64_t step, uint64_t spared)
{
    const uint64_t began = clock_ns();
    if (s->running && !atomic_load(&s->ended) && !s->reported_wait && !s->e->rank) {
        s->reported_wait = true; /* once: from then on the metric save_stop_ms says it */
        log_line(WEFT_LOG_INFO,
                 "the save of step %llu waits for that of step %llu, which is still being written: "
                 "a larger checkpoint.every avoids that",
                 (unsigned long long)step, (unsigned long long)s->step);
    }
    weft_status st = run_saver_finish(s);
    if (st != WEFT_OK)
        return st;
    s->step = step;
    s->writer.keep.spared = spared;
    s->began_ns = clock_ns();
    atomic_store(&s->ended, false);
    st = s->copy ? save_beside(s) : save_in_place(s);
    s->news.stop_ms += (double)(clock_ns() - began) * 1e-6;
    return st;
}

weft_status run_saver_look(run_saver *s, run_save_news *out)
{
    weft_status st = WEFT_OK;
    *out = (run_save_news){0};
    if (!s)
        return WEFT_OK;
    if (!s->news.complete && s->running && atomic_load(&s->ended)) /* one in a look */
        st = take(s);
    if (st != WEFT_OK && s->writer.blameless)
        st = WEFT_OK; /* finish() and begin() still fail */
    *out = s->news;
    s->news = (run_save_news){0};
    return st;
}

void run_saver_complete(run_saver *s, double seconds)
{
    if (!s || !s->running)
        return;
    s->running = false;
    if (within_join(s->thread, (uint64_t)(seconds * 1e3)))
        return;
    atomic_store(&s->writer.give_up, true);
    pthread_join(s->thread, NULL);
}

void run_saver_close(run_saver *s)
{
    if (!s)
        return;
    run_save_free(&s->pieces);
    free(s->job_text);
    free(s);
}
