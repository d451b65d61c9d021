/* check/harness/ranks.c: rank processes of a check, or threads. See harness.h.
 *
 * Ranks meet in shared memory: each writes its part and its round, then waits until all have the
 * same round, in short sleeps. Two buffers alternate, so that a rank that is ahead does not
 * overwrite what another still reads.
 *
 * Rank processes end with the process of the check, and by it alone: one that is ended earlier may
 * be in the middle of its sentence. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/time/pressure.h"
#include "check/harness/harness.h"
#include "check/page.h"
#include "check/watch.h"
#include "host/watch.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MAX 16u

typedef struct check_meeting {
    _Atomic uint64_t round[RANKS_MAX];
    _Atomic int32_t process[RANKS_MAX];
    _Atomic uint32_t dies[RANKS_MAX];
    uint64_t until; /* ms */
    unsigned char data[2][RANKS_MAX][CHECK_EXCHANGE];
} check_meeting;

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

void check_rank_exchange(check_rank *k, const void *mine, size_t bytes, void *all)
{
    check_meeting *m = k->meeting;
    const uint64_t round = atomic_load(&m->round[k->rank]) + 1;
    if (bytes > CHECK_EXCHANGE)
        check_fail("a rank gives %zu bytes; %u at most", bytes, CHECK_EXCHANGE);
    if (bytes)
        memcpy(m->data[round & 1][k->rank], mine, bytes);
    atomic_store(&m->round[k->rank], round);
    for (uint32_t i = 0; i < k->ranks; i++) {
        while (atomic_load(&m->round[i]) < round && !atomic_load(&m->dies[i])) {
            if (pressure_ms() > m->until)
                check_fail("rank %u waits for rank %u, which does not arrive: it is still in a "
                           "call of the plugin, or slower than the deadline",
                           k->rank, i);
            nap();
        }
        if (bytes)
            memcpy((char *)all + i * bytes, m->data[round & 1][i], bytes);
    }
}

pid_t check_rank_process(check_rank *k, uint32_t rank)
{
    return atomic_load(&k->meeting->process[rank]);
}

void check_rank_dies(check_rank *k, uint32_t rank)
{
    atomic_store(&k->meeting->dies[rank], 1);
}

_Noreturn static void be_rank(check_rank *k, void (*fn)(check_rank *k), uint32_t seconds)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    atomic_store(&k->meeting->process[k->rank], getpid());
    check_watch(seconds);
    fn(k);
    _exit(0);
}

static void start_ranks(check_run *r, check_meeting *m, uint32_t n, void (*fn)(check_rank *k),
                        void *arg, uint32_t seconds)
{
    for (uint32_t i = 0; i < n; i++) {
        check_rank k = {i, n, r, arg, m};
        const pid_t pid = host_watch_fork();
        if (!pid)
            be_rank(&k, fn, seconds);
        if (pid < 0)
            check_fail("no process for rank %u", i);
        atomic_store(&m->process[i], pid);
    }
}

/* Wait for one rank. Returns whether one has ended. */
static bool end_one(check_meeting *m, uint32_t n)
{
    int status;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    for (uint32_t i = 0; pid > 0 && i < n; i++) {
        if (atomic_load(&m->process[i]) != pid)
            continue;
        atomic_store(&m->process[i], 0);
        if (check_page_is_written()) /* by a rank, for the whole check */
            _exit(1);
        if (status && !atomic_load(&m->dies[i]))
            check_fail("rank %u ended with the wait status 0x%x", i, (unsigned)status);
        return true;
    }
    return false;
}

void *check_shared(uint64_t bytes)
{
    void *p =
        mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        check_fail("no shared memory for a check");
    return p;
}

/* --- ranks that are threads --- */

static bool as_threads;

void check_ranks_set(bool are_threads)
{
    as_threads = are_threads;
}

bool check_ranks_are_threads(void)
{
    return as_threads;
}

typedef struct rank_thread {
    check_rank k;
    void (*fn)(check_rank *k);
    pthread_t thread;
} rank_thread;

static void *be_thread(void *arg)
{
    rank_thread *t = arg;
    t->fn(&t->k);
    return NULL;
}

static void run_threads(check_run *r, check_meeting *m, uint32_t n, void (*fn)(check_rank *k),
                        void *arg)
{
    rank_thread t[RANKS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        t[i] = (rank_thread){.k = {i, n, r, arg, m}, .fn = fn};
        if (pthread_create(&t[i].thread, NULL, be_thread, &t[i]))
            check_fail("no thread for rank %u", i);
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(t[i].thread, NULL);
}

/* --- all --- */

static void run_processes(check_run *r, check_meeting *m, uint32_t n, void (*fn)(check_rank *k),
                          void *arg, uint32_t seconds)
{
    start_ranks(r, m, n, fn, arg, seconds);
    for (uint32_t left = n; left;) {
        if (end_one(m, n)) {
            left--;
            continue;
        }
        if (pressure_ms() > m->until + CHECK_GRACE_MS)
            check_fail("a rank did not end within %u seconds", seconds);
        nap();
    }
}

void check_ranks(check_run *r, uint32_t n, void (*fn)(check_rank *k), void *arg, uint32_t seconds,
                 bool threads)
{
    if (!n || n > RANKS_MAX)
        check_fail("%u ranks for a check; 1 to %u", n, (unsigned)RANKS_MAX);
    check_meeting *m = check_shared(sizeof *m);
    m->until = pressure_ms() + seconds * 1000ull;
    if (threads)
        run_threads(r, m, n, fn, arg);
    else
        run_processes(r, m, n, fn, arg, seconds);
    munmap(m, sizeof *m);
}

int check_fork(void (*fn)(void *arg), void *arg, uint32_t seconds, bool *late)
{
    int status = 0;
    const uint64_t until = pressure_ms() + seconds * 1000ull;
    const pid_t pid = host_watch_fork();
    if (pid < 0)
        check_fail("no process for a part of the check");
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        check_watch(seconds);
        fn(arg);
        _exit(0);
    }
    *late = false;
    while (!waitpid(pid, &status, WNOHANG)) {
        if (pressure_ms() > until && !*late) {
            *late = true;
            kill(pid, SIGKILL);
        }
        nap();
    }
    return status;
}

void check_job_id(char out[33])
{
    static _Atomic uint32_t jobs;
    snprintf(out, 33, "%08x%08x%016llx", (unsigned)getpid(), atomic_fetch_add(&jobs, 1),
             (unsigned long long)clock_ns());
}

void check_fork_probe(const host_component *c, void (*fn)(void *arg), void *arg)
{
    bool late;
    const int status = check_fork(fn, arg, 5, &late);
    if (late || status)
        check_fail("probe() of '%s' %s", c->name,
                   late ? "did not return within 5 seconds" : "ended its process");
}
