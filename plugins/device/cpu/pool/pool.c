/* pool.c: see pool.h. */
#define _GNU_SOURCE
#include "pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <weft/pause.h>

#define SPINS 200u        /* looks before the first at the clock */
#define AWAKE_NS 1000000u /* until a waiting thread sleeps */

/* The kernel's switches to other threads are counted over a window; from so many on the core counts
 * as shared. */
#define WINDOW_NS 10000000u
#define SHARED_FROM 2

#define STACK (2ul << 20) /* of a worker, whatever `ulimit -s` says */
#define TEAM_BITS 16      /* of a region's word: its number of threads; above, its number */
#define TEAM_MAX (1 << TEAM_BITS)

#define EXPORT __attribute__((visibility("default")))

/* What threads wait for: `word` changes, and then `tickets`, which sleepers wait for. */
typedef struct signal_word {
    _Atomic uint64_t word;
    _Atomic uint32_t tickets, sleepers;
} signal_word;

typedef struct worker {
    cpu_pool *pool;
    pthread_t thread;
    int32_t number;
} worker;

struct cpu_pool {
    _Alignas(64) signal_word region; /* number and threads of the last region that began */
    _Alignas(64) signal_word left;   /* how many workers have left it */
    _Alignas(64) signal_word passed; /* how many barriers its threads have passed */
    _Alignas(64) _Atomic int32_t at_barrier;
    void (*body)(void *data, int32_t thread, int32_t threads);
    void *data;
    void (*begin)(void *ctx, int32_t thread);
    void *ctx;
    int32_t threads;
    worker workers[];
};

/* The calling thread as OpenMP sees it. */
static _Thread_local struct {
    cpu_pool *pool;       /* serves its regions */
    cpu_pool *within;     /* it is in a region of this pool ... */
    int32_t number, team; /* ... as this one of so many */
    int32_t max;          /* threads that a region may have */
    uint64_t asked;       /* calls of omp_get_max_threads() */
    uint64_t window;      /* core_is_shared(): when the last window began ... */
    long switches;        /* ... with so many switches ... */
    bool shared;          /* ... and what the one before has shown */
} self;

/* --- waiting --- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void announce(signal_word *s)
{
    atomic_fetch_add(&s->tickets, 1);
    if (atomic_load(&s->sleepers))
        syscall(SYS_futex, &s->tickets, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Do others use this thread's core? Then the kernel takes it away again and again while the thread
 * has not finished, and spinning would delay both. */
static bool core_is_shared(uint64_t now)
{
    struct rusage r;
    if (now - self.window >= WINDOW_NS) {
        getrusage(RUSAGE_THREAD, &r);
        self.shared = r.ru_nivcsw - self.switches >= SHARED_FROM;
        self.switches = r.ru_nivcsw;
        self.window = now;
    }
    return self.shared;
}

/* Returns the word once it differs from `old`. */
static uint64_t await_change(signal_word *s, uint64_t old)
{
    const uint64_t since = now_ns();
    uint64_t word, now = since;
    do {
        for (uint32_t i = 0; i < SPINS; i++) {
            if ((word = atomic_load(&s->word)) != old)
                return word;
            weft_pause();
        }
        now = now_ns();
    } while (!core_is_shared(now) && now - since < AWAKE_NS);
    for (;;) {
        const uint32_t ticket = atomic_load(&s->tickets);
        atomic_fetch_add(&s->sleepers, 1); /* before the look: announce() looks the other way */
        if ((word = atomic_load(&s->word)) == old)
            syscall(SYS_futex, &s->tickets, FUTEX_WAIT_PRIVATE, ticket, NULL, NULL, 0);
        atomic_fetch_sub(&s->sleepers, 1);
        if (word != old)
            return word;
    }
}

/* --- regions --- */

static void enter(cpu_pool *p, int32_t number, int32_t team)
{
    self.within = p;
    self.number = number;
    self.team = team;
    p->body(p->data, number, team);
    self.within = NULL;
}

static void *work(void *arg)
{
    const worker *w = arg;
    cpu_pool *p = w->pool;
    p->begin(p->ctx, w->number);
    for (uint64_t word = 0;;) {
        word = await_change(&p->region, word);
        const int32_t team = (int32_t)(word % TEAM_MAX);
        if (!team)
            return NULL; /* the pool closes */
        if (w->number >= team)
            continue;
        enter(p, w->number, team);
        atomic_fetch_add(&p->left.word, 1);
        announce(&p->left);
    }
}

/* A word of 0 threads ends the workers. */
static void begin_region(cpu_pool *p, int32_t team)
{
    const uint64_t number = (atomic_load(&p->region.word) >> TEAM_BITS) + 1;
    atomic_store(&p->region.word, number << TEAM_BITS | (uint64_t)team);
    announce(&p->region);
}

static void run_team(cpu_pool *p, int32_t team)
{
    atomic_store(&p->left.word, 0);
    if (team > 1)
        begin_region(p, team);
    enter(p, 0, team);
    for (uint64_t left = atomic_load(&p->left.word); left + 1 < (uint64_t)team;)
        left = await_change(&p->left, left);
}

EXPORT void cpu_pool_run(cpu_pool *p, void (*body)(void *data, int32_t thread, int32_t threads),
                         void *data)
{
    p->body = body;
    p->data = data;
    run_team(p, p->threads);
}

EXPORT uint64_t cpu_pool_serve(cpu_pool *p, int32_t threads)
{
    self.pool = p;
    self.max = threads;
    return self.asked;
}

/* --- opening and closing --- */

EXPORT void cpu_pool_close(cpu_pool *p)
{
    if (!p)
        return;
    begin_region(p, 0);
    for (int32_t i = 1; i < p->threads; i++)
        pthread_join(p->workers[i].thread, NULL);
    free(p);
}

static int start(cpu_pool *p, const pthread_attr_t *attr)
{
    int error = 0;
    const int32_t threads = p->threads;
    for (p->threads = 1; p->threads < threads && !error; p->threads += !error) {
        worker *w = &p->workers[p->threads];
        *w = (worker){.pool = p, .number = p->threads};
        error = pthread_create(&w->thread, attr, work, w);
    }
    return error;
}

EXPORT int cpu_pool_open(int32_t threads, void (*begin)(void *ctx, int32_t thread), void *ctx,
                         cpu_pool **out)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    const size_t bytes = sizeof(cpu_pool) + (size_t)threads * sizeof(worker);
    cpu_pool *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    pthread_attr_t attr;
    sigset_t none, before;
    if (!p || pthread_attr_init(&attr)) {
        free(p);
        return ENOMEM;
    }
    *p = (cpu_pool){.threads = threads, .begin = begin, .ctx = ctx};
    pthread_attr_setstacksize(&attr, STACK);
    sigfillset(&none); /* signals to the process are for its other threads */
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&none, own[i]);
    pthread_sigmask(SIG_BLOCK, &none, &before);
    const int error = start(p, &attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (error)
        cpu_pool_close(p);
    else
        *out = p;
    return error;
}

/* --- what oneDNN calls --- */

EXPORT int omp_get_max_threads(void)
{
    self.asked++;
    return self.pool && !self.within ? self.max : 1;
}

EXPORT int omp_get_num_threads(void)
{
    return self.within ? self.team : 1;
}

EXPORT int omp_get_thread_num(void)
{
    return self.within ? self.number : 0;
}

EXPORT int omp_in_parallel(void)
{
    return self.within && self.team > 1;
}

struct openmp_region {
    void (*fn)(void *);
    void *data;
};

static void openmp_body(void *data, int32_t thread, int32_t threads)
{
    const struct openmp_region *r = data;
    (void)thread;
    (void)threads;
    r->fn(r->data);
}

/* With fewer threads than asked oneDNN would leave results out. */
static _Noreturn void refuse(void)
{
    static const char text[] = "weft: oneDNN asks for more threads than its device has\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    abort();
}

/* A region of a thread that no pool serves has one thread. */
EXPORT void GOMP_parallel(void (*region)(void *), void *data, unsigned threads, unsigned flags)
{
    cpu_pool *p = self.pool;
    const int32_t team = threads ? (int32_t)threads : omp_get_max_threads();
    struct openmp_region r = {region, data};
    (void)flags;
    if (self.within ? team > 1 : p && team > p->threads)
        refuse();
    if (!p || team <= 1) {
        const int32_t number = self.number, size = self.team;
        self.number = 0;
        self.team = 1;
        region(data);
        self.number = number;
        self.team = size;
        return;
    }
    p->body = openmp_body;
    p->data = &r;
    run_team(p, team);
}

EXPORT void GOMP_barrier(void)
{
    cpu_pool *p = self.within;
    if (!p || self.team <= 1)
        return;
    const uint64_t passed = atomic_load(&p->passed.word);
    if (atomic_fetch_add(&p->at_barrier, 1) + 1 < self.team) {
        (void)await_change(&p->passed, passed);
        return;
    }
    atomic_store(&p->at_barrier, 0);
    atomic_fetch_add(&p->passed.word, 1);
    announce(&p->passed);
}
