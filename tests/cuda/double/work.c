/* work.c: streams, events, captures and launches of the double of libcuda.
 *
 * A stream is a queue. Nothing of it runs before somebody waits for it or asks after it, and a
 * question lets only a few pieces of work run, so that a host which reads results too early finds
 * that they are not there. Once a stream waits for a flag there is a thread that runs work as well,
 * for then the host may wait for nothing but flags.
 *
 * As on a GPU, streams share CUDA_DEVICE_MAX_CONNECTIONS queues, 8 if that is not set, which take
 * work in the order in which it was enqueued: a stream that waits holds back those of its queue. */
#define _GNU_SOURCE
#include "double.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { A_FEW = 3 }; /* pieces of work that a question lets run */

struct CUgraph_st {
    struct task *first, **end;
};

struct CUstream_st {
    struct CUstream_st *next;
    struct task *first, **end;
    unsigned long queue;
    struct CUgraph_st *capture; /* NULL: work is enqueued */
};

struct CUevent_st {
    uint64_t recorded, reached; /* numbers of records: enqueued, and run */
    struct timespec at;
    const struct CUgraph_st *capture; /* its last record is part of this; NULL: of none */
    bool timed;
};

static struct CUstream_st *streams;
static struct CUstream_st standard; /* stream NULL */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct CUstream_st *stream_of(CUstream s)
{
    if (!standard.end)
        standard.end = &standard.first;
    return s ? s : &standard;
}

static void append(struct task ***end, struct task *t)
{
    t->next = NULL;
    **end = t;
    *end = &t->next;
}

static struct task *new_task(int kind, uint64_t bytes)
{
    struct task *t = calloc(1, sizeof *t + bytes);
    t->kind = kind;
    t->bytes = bytes;
    return t;
}

/* A capture waits for events of its own alone, and nobody else for those. */
static CUresult enqueue(CUstream handle, struct task *t)
{
    static uint64_t enqueued;
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct CUstream_st *s = stream_of(handle);
    t->order = enqueued++;
    if (t->kind == RECORD)
        t->event->capture = s->capture;
    if (t->kind == AWAIT && t->event->capture != s->capture) {
        r = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        free(t);
    } else if (s->capture) {
        append(&s->capture->end, t);
    } else {
        if (t->kind == RECORD)
            t->number = ++t->event->recorded;
        if (t->kind == AWAIT)
            t->number = t->event->recorded;
        append(&s->end, t);
    }
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult double_submit(CUstream s, void (*run)(const void *payload), const void *payload,
                       uint64_t bytes)
{
    struct task *t = new_task(CALL, bytes);
    t->run = run;
    memcpy(t->payload, payload, bytes);
    return enqueue(s, t);
}

/* --- running what is enqueued --- */

static bool may_run(const struct task *t)
{
    if (t->kind == AWAIT)
        return t->event->reached >= t->number;
    if (t->kind == UNTIL)
        return (int32_t)(__atomic_load_n(t->flag, __ATOMIC_ACQUIRE) - t->value) >= 0;
    return true;
}

static bool is_held_back(const struct CUstream_st *s)
{
    for (const struct CUstream_st *o = streams; o; o = o->next)
        if (s != &standard && o->queue == s->queue && o->first && o->first->order < s->first->order)
            return true;
    return false;
}

/* The first piece of work of a stream, if it may run. Under the lock. */
static bool run_one(struct CUstream_st *s)
{
    struct task *t = s->first;
    if (!t || is_held_back(s) || !may_run(t))
        return false;
    if (t->kind == CALL)
        t->run(t->payload);
    if (t->kind == RECORD) {
        clock_gettime(CLOCK_MONOTONIC, &t->event->at);
        t->event->reached = t->number;
    }
    s->first = t->next;
    if (!s->first)
        s->end = &s->first;
    free(t);
    return true;
}

/* At most `max` pieces of work, from all streams in turn. */
static void run_some(int max)
{
    bool any = true;
    pthread_mutex_lock(&lock);
    double_open_memory();
    while (any && max > 0) {
        any = run_one(stream_of(NULL));
        for (struct CUstream_st *s = streams; s; s = s->next)
            any |= run_one(s);
        max--;
    }
    double_close_memory();
    pthread_mutex_unlock(&lock);
}

static bool is_empty(CUstream s)
{
    pthread_mutex_lock(&lock);
    const bool empty = !stream_of(s)->first;
    pthread_mutex_unlock(&lock);
    return empty;
}

CUresult cuStreamSynchronize(CUstream s)
{
    if (stream_of(s)->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    while (!is_empty(s)) {
        run_some(1000000);
        sched_yield();
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    CUresult r = cuStreamSynchronize(NULL);
    for (struct CUstream_st *s = streams; r == CUDA_SUCCESS && s; s = s->next)
        r = cuStreamSynchronize(s);
    return r;
}

/* A library loads the code of a kernel, which may wait for all streams: not while one is being
 * recorded, and not while one waits for a flag, which may be for ever. */
CUresult double_load_code(void)
{
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    for (const struct CUstream_st *s = streams; s; s = s->next) {
        bool waits = s->capture;
        for (const struct task *t = s->first; t; t = t->next)
            waits = waits || t->kind == UNTIL;
        if (waits)
            r = CUDA_ERROR_ILLEGAL_STATE;
    }
    pthread_mutex_unlock(&lock);
    if (r != CUDA_SUCCESS)
        fprintf(stderr, "a library loads code while a stream is recorded or waits for a flag\n");
    return r;
}

/* --- streams and events --- */

static unsigned long connections(void)
{
    const char *n = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return n && strtoul(n, NULL, 10) > 0 ? strtoul(n, NULL, 10) : 8;
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    static unsigned long made;
    (void)flags;
    (void)priority;
    struct CUstream_st *s = calloc(1, sizeof *s);
    s->end = &s->first;
    pthread_mutex_lock(&lock);
    s->queue = made++ % connections();
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&lock);
    *out = s;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream s)
{
    (void)!cuStreamSynchronize(s);
    pthread_mutex_lock(&lock);
    struct CUstream_st **at = &streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    pthread_mutex_unlock(&lock);
    free(s);
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    *out = calloc(1, sizeof **out);
    (*out)->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent e)
{
    free(e);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent e, CUstream s)
{
    struct task *t = new_task(RECORD, 0);
    t->event = e;
    return enqueue(s, t);
}

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags)
{
    (void)flags;
    struct task *t = new_task(AWAIT, 0);
    t->event = e;
    return enqueue(s, t);
}

CUresult cuEventQuery(CUevent e)
{
    run_some(A_FEW);
    pthread_mutex_lock(&lock);
    const bool there = e->reached >= e->recorded, captured = e->capture;
    pthread_mutex_unlock(&lock);
    return captured ? CUDA_ERROR_CAPTURED_EVENT : there ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent e)
{
    CUresult r = cuEventQuery(e);
    for (; r == CUDA_ERROR_NOT_READY; r = cuEventQuery(e))
        sched_yield();
    return r;
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    if (!from->timed || !to->timed || from->reached == 0 || to->reached == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    *ms = (float)(to->at.tv_sec - from->at.tv_sec) * 1e3f +
          (float)(to->at.tv_nsec - from->at.tv_nsec) * 1e-6f;
    return CUDA_SUCCESS;
}

/* --- flags --- */

static void *run_for_ever(void *none)
{
    for (;;) {
        run_some(A_FEW);
        nanosleep(&(struct timespec){0, 20000}, NULL);
    }
    return none;
}

static void begin_thread(void)
{
    pthread_t t;
    if (pthread_create(&t, NULL, run_for_ever, NULL) == 0)
        pthread_detach(t);
}

CUresult cuStreamWaitValue32(CUstream s, CUdeviceptr flag, cuuint32_t value, unsigned flags)
{
    if (flags != CU_STREAM_WAIT_VALUE_GEQ || !double_is_ours((void *)(uintptr_t)flag))
        return CUDA_ERROR_INVALID_VALUE;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_thread);
    struct task *t = new_task(UNTIL, 0);
    t->flag = (const uint32_t *)(uintptr_t)flag;
    t->value = value;
    return enqueue(s, t);
}

struct write_value {
    uint32_t *flag, value;
};

static void write_value(const void *payload)
{
    const struct write_value *w = payload;
    __atomic_store_n(w->flag, w->value, __ATOMIC_RELEASE);
}

CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr flag, cuuint32_t value, unsigned flags)
{
    const struct write_value w = {(uint32_t *)(uintptr_t)flag, value};
    if (flags != CU_STREAM_WRITE_VALUE_DEFAULT || !double_is_ours(w.flag))
        return CUDA_ERROR_INVALID_VALUE;
    return double_submit(s, write_value, &w, sizeof w);
}

/* --- captures --- */

CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode)
{
    (void)mode;
    if (!s || s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    s->capture = calloc(1, sizeof *s->capture);
    s->capture->end = &s->capture->first;
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *out)
{
    if (!s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    *out = s->capture;
    s->capture = NULL;
    return CUDA_SUCCESS;
}

static struct task *copy_of(const struct task *from)
{
    struct task *t = new_task((int)from->kind, from->bytes);
    memcpy(t, from, sizeof *t + from->bytes);
    return t;
}

CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph g, unsigned long long flags)
{
    struct CUgraph_st *copy = calloc(1, sizeof *copy);
    (void)flags;
    copy->end = &copy->first;
    for (const struct task *t = g->first; t; t = t->next)
        append(&copy->end, copy_of(t));
    *out = (CUgraphExec)copy;
    return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec g, CUstream s)
{
    (void)g;
    (void)s;
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec g, CUstream s)
{
    for (const struct task *t = ((CUgraph)g)->first; t; t = t->next)
        (void)!enqueue(s, copy_of(t));
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph g)
{
    for (struct task *t = g->first, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    free(g);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec g)
{
    return cuGraphDestroy((CUgraph)g);
}
