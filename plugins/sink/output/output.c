/* plugins/sink/output/output.c: see output.h.
 *
 * Records wait in a list, which has at most LIMIT bytes. The thread lets some come together, since
 * waking it is what costs a step most here; then it takes one after the other and writes it without
 * the lock. A write that fails is taken back by cutting the file, so the file has whole records at
 * any time. At the end a write may still hang, on a network folder that does not answer: then the
 * thread is left alone with its output, and no longer has a host to talk to. */
#define _GNU_SOURCE
#include "output.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LIMIT (32u << 20)
#define GATHER_MS 50
#define GATHER_BYTES (1u << 20)
#define SLICE_MS 50 /* of a wait: a process that was stopped has waited for one */
#define SETTLE_SLICES 20u
#define CLOSE_SLICES 80u /* less than a launcher waits for a rank that ends */

typedef struct record {
    struct record *next;
    uint64_t step;
    size_t n;
    uint8_t bytes[];
} record;

struct output {
    const weft_host *host;
    const char *name, *records;
    pthread_t thread;
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t added, written;
    record *first, **last;
    size_t bytes;             /* in the list */
    uint64_t waiting;         /* records in the list or being written */
    uint64_t lost, lost_from; /* since the last that was written, and from which step on */
    bool behind;              /* a wait has ended without an empty list */
    bool removed;             /* the file; the log has said so */
    bool asked;               /* somebody waits for what is in the list */
    bool stop;                /* once the list is empty */
    bool left;                /* the thread is alone */
    int fd;                   /* of the thread, as `end` */
    off_t end;                /* of the last whole record */
};

static void warn(const output *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void warn(const output *o, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (o->host->log)(o->host->ctx, WEFT_LOG_WARN, text);
}

/* A record is lost; under the lock. */
static void lose(output *o, uint64_t step, const char *why)
{
    if (!o->lost++) {
        o->lost_from = step;
        warn(o,
             "%s cannot be written: %s; the run goes on, and %s from step %" PRIu64
             " on are missing until it can",
             o->name, why, o->records, step);
    }
}

/* --- the thread --- */

/* 0, or why not. */
static int write_whole(output *o, const record *r)
{
    for (size_t done = 0; done < r->n;) {
        const ssize_t w = pwrite(o->fd, r->bytes + done, r->n - done, o->end + (off_t)done);
        if (w > 0) {
            done += (size_t)w;
        } else if (w < 0 && errno != EINTR) {
            const int error = errno;
            (void)!ftruncate(o->fd, o->end);
            return error;
        }
    }
    o->end += (off_t)r->n;
    return 0;
}

/* On a network folder this may last as a write may: without the lock. */
static bool is_removed(const output *o)
{
    struct stat info;
    return !fstat(o->fd, &info) && !info.st_nlink;
}

/* What became of a record, and whether the file is gone; under the lock. */
static void note(output *o, const record *r, int error, bool removed)
{
    o->waiting--;
    o->behind &= o->waiting > 0;
    if (o->left)
        return;
    if (error) {
        lose(o, r->step, strerror(error));
    } else if (o->lost && o->lost_from < r->step) { /* others were added before they were lost */
        warn(o,
             "%s is written again from step %" PRIu64 " on; %s since step %" PRIu64
             " that are missing: %" PRIu64,
             o->name, r->step, o->records, o->lost_from, o->lost);
        o->lost = 0;
    }
    if (removed && !o->removed) {
        o->removed = true;
        warn(o,
             "%s was removed while the job runs: its %s up to step %" PRIu64 " and all later "
             "ones are lost",
             o->name, o->records, r->step);
    }
    pthread_cond_broadcast(&o->written);
}

static struct timespec in_ms(uint32_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += (long)ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* The next record, at once where there are some; NULL: there will be none. */
static record *take(output *o)
{
    if (!o->first) {
        o->asked = false;
        while (!o->first && !o->stop)
            pthread_cond_wait(&o->added, &o->lock);
        const struct timespec until = in_ms(GATHER_MS);
        while (!o->asked && !o->stop && o->bytes < GATHER_BYTES &&
               !pthread_cond_timedwait(&o->added, &o->lock, &until))
            continue;
    }
    record *r = o->first;
    if (r) {
        o->first = r->next;
        o->last = o->first ? o->last : &o->first;
        o->bytes -= r->n;
    }
    return r;
}

static void free_all(output *o)
{
    close(o->fd);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->added);
    pthread_cond_destroy(&o->written);
    free(o);
}

static void *body(void *arg)
{
    output *o = arg;
    pthread_setname_np(pthread_self(), "weft-sink");
    pthread_mutex_lock(&o->lock);
    for (record *r; (r = take(o));) {
        pthread_mutex_unlock(&o->lock);
        const int error = write_whole(o, r);
        const bool removed = is_removed(o);
        pthread_mutex_lock(&o->lock);
        note(o, r, error, removed);
        free(r);
    }
    const bool left = o->left;
    pthread_mutex_unlock(&o->lock);
    if (left)
        free_all(o);
    return NULL;
}

/* --- its users --- */

output *output_open(const weft_host *host, int fd, off_t end, const char *name, const char *records,
                    weft_status *st)
{
    sigset_t all, before;
    pthread_condattr_t clock;
    output *o = malloc(sizeof *o);
    int error = ENOMEM;
    if (o) {
        *o = (output){.host = host, .name = name, .records = records, .fd = fd, .end = end};
        o->last = &o->first;
        pthread_mutex_init(&o->lock, NULL);
        pthread_condattr_init(&clock);
        pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        pthread_cond_init(&o->added, &clock);
        pthread_cond_init(&o->written, &clock);
        pthread_condattr_destroy(&clock);
        sigfillset(&all); /* signals are the job's */
        pthread_sigmask(SIG_BLOCK, &all, &before);
        error = pthread_create(&o->thread, NULL, body, o);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!error)
        return o;
    char why[256];
    snprintf(why, sizeof why, "no thread that writes %s: %s", name, strerror(error));
    *st = (host->fail)(host->ctx, WEFT_IO, why);
    if (o)
        free_all(o);
    else
        close(fd);
    return NULL;
}

void output_add(output *o, uint64_t step, const void *bytes, size_t n)
{
    record *r = bytes ? malloc(sizeof *r + n) : NULL;
    pthread_mutex_lock(&o->lock);
    if (!r || o->bytes + n > LIMIT) {
        lose(o, step, r ? "its folder does not answer" : strerror(ENOMEM));
        free(r);
    } else {
        const bool wake = !o->first || o->bytes + n >= GATHER_BYTES;
        *r = (record){.step = step, .n = n};
        memcpy(r->bytes, bytes, n);
        *o->last = r;
        o->last = &r->next;
        o->bytes += n;
        o->waiting++;
        if (wake)
            pthread_cond_signal(&o->added);
    }
    pthread_mutex_unlock(&o->lock);
}

/* Wait until nothing is waiting, for so many slices at most; under the lock. */
static bool settle(output *o, uint32_t slices)
{
    o->asked = true;
    pthread_cond_signal(&o->added);
    for (; o->waiting && slices; slices--) {
        const struct timespec until = in_ms(SLICE_MS);
        while (o->waiting && !pthread_cond_timedwait(&o->written, &o->lock, &until))
            continue;
    }
    return !o->waiting;
}

void output_settle(output *o)
{
    pthread_mutex_lock(&o->lock);
    o->behind = o->behind || !settle(o, SETTLE_SLICES);
    pthread_mutex_unlock(&o->lock);
}

void output_close(output *o)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    const bool whole = settle(o, CLOSE_SLICES);
    if (!whole)
        warn(o,
             "%s cannot be written: its folder does not answer, or is slow; %s that are lost: "
             "%" PRIu64,
             o->name, o->records, o->waiting + o->lost);
    while (!whole && o->first) { /* only the thread's own is left */
        record *r = o->first;
        o->first = r->next;
        free(r);
    }
    o->last = &o->first;
    o->left = !whole;
    o->stop = true;
    const pthread_t thread = o->thread;
    pthread_cond_signal(&o->added);
    pthread_mutex_unlock(&o->lock);
    if (!whole) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    free_all(o);
}
