/* world.c: see world.h. All state of the process is in `the`: MPI is global, and so is this. */
#define _GNU_SOURCE
#include "world.h"
#include "parts.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OFF, STARTING, UP, BROKEN };
enum { SPINS = 200, NAP_NS = 20000, FINALIZE_SECONDS = 600 };

static struct {
    atomic_int state, failed, asleep, stuck;
    const mpi_api *mpi;
    MPI_Comm everyone, farewells;
    int wanted, granted, rank, ranks, finalizes;
    char why[MPI_MAX_ERROR_STRING + 100];
    pthread_t thread;
    pid_t pid;
    pthread_mutex_t calls;  /* held during a call of MPI, where it wants one at a time */
    pthread_mutex_t jobs;   /* guards the queue */
    pthread_cond_t changed; /* of the queue, or of a job's `done` */
    mpi_job *first, *last;
    mpi_poller *pollers; /* the MPI thread's */
} the = {.calls = PTHREAD_MUTEX_INITIALIZER, .jobs = PTHREAD_MUTEX_INITIALIZER};

const mpi_api *mpi_library(void)
{
    return the.mpi;
}

MPI_Comm mpi_everyone(void)
{
    return the.everyone;
}

MPI_Comm mpi_farewells(void)
{
    return the.farewells;
}

int mpi_granted(void)
{
    return the.granted;
}

bool mpi_is_up(void)
{
    return atomic_load(&the.state) == UP;
}

void mpi_give_up(void)
{
    atomic_store(&the.failed, 1);
}

weft_status mpi_says(const weft_host *h, weft_status code, const char *what, int error)
{
    char why[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    the.mpi->Error_string(error, why, &n);
    mpi_give_up();
    return mpi_fail(h, code, "%s: %s", what, why);
}

/* --- whose turn it is --- */

bool mpi_enter(void)
{
    if (atomic_load(&the.state) != UP || the.granted < MPI_THREAD_SERIALIZED)
        return false;
    return the.granted > MPI_THREAD_SERIALIZED || !pthread_mutex_trylock(&the.calls);
}

void mpi_leave(void)
{
    if (the.granted == MPI_THREAD_SERIALIZED)
        pthread_mutex_unlock(&the.calls);
}

void mpi_add_poller(mpi_poller *p)
{
    p->next = the.pollers;
    the.pollers = p;
}

void mpi_remove_poller(mpi_poller *p)
{
    for (mpi_poller **at = &the.pollers; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            return;
        }
}

void mpi_nudge(void)
{
    if (!atomic_load(&the.asleep))
        return;
    pthread_mutex_lock(&the.jobs);
    pthread_cond_broadcast(&the.changed);
    pthread_mutex_unlock(&the.jobs);
}

/* --- the MPI thread --- */

/* Open MPI installs handlers of signals; they are the host's. */
static void init_between_handlers(int *error)
{
    struct sigaction before[32];
    for (int s = 1; s < 32; s++)
        sigaction(s, NULL, &before[s]);
    *error = the.mpi->Init_thread(NULL, NULL, the.wanted, &the.granted);
    for (int s = 1; s < 32; s++)
        if (s != SIGKILL && s != SIGSTOP)
            sigaction(s, &before[s], NULL);
}

static int initialize(void)
{
    const mpi_api *m = the.mpi;
    int on = 0, error = m->Initialized(&on);
    if (error == MPI_SUCCESS && !on) {
        init_between_handlers(&error);
        the.finalizes = error == MPI_SUCCESS;
    }
    if (error == MPI_SUCCESS)
        error = m->Query_thread(&the.granted);
    if (error == MPI_SUCCESS)
        error = m->Comm_set_errhandler(m->world, m->errors_return);
    if (error == MPI_SUCCESS)
        error = m->Comm_rank(m->world, &the.rank);
    if (error == MPI_SUCCESS)
        error = m->Comm_size(m->world, &the.ranks);
    if (error == MPI_SUCCESS)
        error = m->Comm_dup(m->world, &the.everyone);
    if (error == MPI_SUCCESS)
        error = m->Comm_set_errhandler(the.everyone, m->errors_return);
    if (error == MPI_SUCCESS)
        error = m->Comm_dup(the.everyone, &the.farewells); /* with its handler of errors */
    return error;
}

static void start(void)
{
    const int error = initialize();
    int n = 0;
    if (error != MPI_SUCCESS) {
        the.mpi->Error_string(error, the.why, &n);
        mpi_give_up();
    }
    if (the.granted > the.wanted) /* less than MPI can, because the user said so */
        the.granted = the.wanted;
    atomic_store(&the.state, error == MPI_SUCCESS ? UP : BROKEN);
}

static mpi_job *take_job(void)
{
    pthread_mutex_lock(&the.jobs);
    mpi_job *job = the.first;
    if (job) {
        the.first = job->next;
        the.last = the.first ? the.last : NULL;
    }
    pthread_mutex_unlock(&the.jobs);
    return job;
}

static void do_job(mpi_job *job)
{
    pthread_mutex_lock(&the.calls);
    job->run(job->arg);
    pthread_mutex_unlock(&the.calls);
    pthread_mutex_lock(&the.jobs);
    atomic_store(&job->done, 1);
    pthread_cond_broadcast(&the.changed);
    pthread_mutex_unlock(&the.jobs);
}

static enum mpi_motion poll_all(void)
{
    enum mpi_motion all = MPI_IDLE;
    for (mpi_poller *p = the.pollers; p; p = p->next) {
        const enum mpi_motion one = p->poll(p->arg);
        all = one > all ? one : all;
    }
    return all;
}

/* Until a job or a nudge comes. Who posts looks at `asleep` after posting, and this thread polls
 * after it has set it: so one of the two sees the other. */
static void sleep_until_asked(void)
{
    atomic_store(&the.asleep, 1);
    pthread_mutex_lock(&the.jobs);
    if (poll_all() == MPI_IDLE && !the.first)
        pthread_cond_wait(&the.changed, &the.jobs);
    pthread_mutex_unlock(&the.jobs);
    atomic_store(&the.asleep, 0);
}

static void *mpi_thread(void *unused)
{
    (void)unused;
    start();
    for (unsigned idle = 0;;) {
        mpi_job *job = take_job();
        if (job) {
            do_job(job);
            continue;
        }
        switch (poll_all()) {
        case MPI_IDLE: sleep_until_asked(); break;
        case MPI_MOVED: idle = 0; break;
        case MPI_WAITS:
            if (++idle > SPINS)
                nanosleep(&(struct timespec){0, NAP_NS}, NULL);
            else
                sched_yield();
        }
    }
    return NULL;
}

void mpi_ask(mpi_job *job)
{
    job->next = NULL;
    atomic_store(&job->done, 0);
    pthread_mutex_lock(&the.jobs);
    *(the.last ? &the.last->next : &the.first) = job;
    the.last = job;
    pthread_cond_broadcast(&the.changed);
    pthread_mutex_unlock(&the.jobs);
}

/* Until something has changed; false: a second has passed. In seconds a stop of the process counts
 * as one at most. */
static bool wait_a_second(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    return pthread_cond_timedwait(&the.changed, &the.jobs, &until) == 0;
}

bool mpi_ask_and_wait(mpi_job *job, double seconds)
{
    double passed = 0;
    mpi_ask(job);
    pthread_mutex_lock(&the.jobs);
    while (!atomic_load(&job->done) && passed < seconds && !atomic_load(&the.stuck))
        passed += wait_a_second() ? 0 : 1;
    const bool done = atomic_load(&job->done);
    pthread_mutex_unlock(&the.jobs);
    if (!done)
        atomic_store(&the.stuck, 1);
    return done;
}

/* --- beginning and end --- */

static void finalize(void *unused)
{
    int over = 0;
    (void)unused;
    the.mpi->Finalized(&over);
    if (!over)
        the.mpi->Finalize();
}

/* A forked child that exits has no MPI thread. */
static void at_exit(void)
{
    static mpi_job job = {.run = finalize};
    if (getpid() == the.pid && atomic_load(&the.state) == UP && !atomic_load(&the.failed) &&
        the.finalizes)
        (void)mpi_ask_and_wait(&job, FINALIZE_SECONDS);
}

static int level_of(const char *word)
{
    return !strcmp(word, "funneled")     ? MPI_THREAD_FUNNELED
           : !strcmp(word, "serialized") ? MPI_THREAD_SERIALIZED
                                         : MPI_THREAD_MULTIPLE;
}

/* Waits with a limit count by a clock that nobody sets. */
static void make_condition(void)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&the.changed, &attr);
    pthread_condattr_destroy(&attr);
}

static bool start_thread(void)
{
    sigset_t all, before;
    make_condition();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = !pthread_create(&the.thread, NULL, mpi_thread, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_detach(the.thread);
    return started;
}

weft_status mpi_world_begin(const weft_host *h, const weft_conf *conf)
{
    const weft_status st = mpi_launched(h);
    int off = OFF;
    if (st != WEFT_OK)
        return st;
    the.mpi = mpi_load(h, conf->text(conf->ctx, "library"));
    if (!the.mpi)
        return WEFT_ABSENT;
    if (!atomic_compare_exchange_strong(&the.state, &off, STARTING))
        return WEFT_OK;
    the.pid = getpid();
    the.wanted = level_of(conf->text(conf->ctx, "threads"));
    if (!start_thread() || atexit(at_exit)) {
        atomic_store(&the.state, BROKEN);
        return mpi_fail(h, WEFT_NO_MEMORY, "no thread for MPI");
    }
    return WEFT_OK;
}

weft_status mpi_world_ready(const weft_host *h, uint32_t rank, uint32_t ranks)
{
    const int state = atomic_load(&the.state);
    if (state == OFF || state == STARTING)
        return mpi_fail(h, WEFT_BUSY,
                        "MPI_Init_thread() has not returned: it waits until all "
                        "ranks have called it");
    if (state == BROKEN)
        return mpi_fail(h, WEFT_IO, "MPI cannot be initialized: %s", the.why);
    if ((uint32_t)the.rank != rank || (ranks && (uint32_t)the.ranks != ranks)) {
        mpi_give_up();
        return mpi_fail(h, WEFT_USAGE,
                        "this is rank %u of the job and rank %d of the %d in MPI_COMM_WORLD: the "
                        "launcher belongs to another MPI than the library (comm.mpi.library), or "
                        "the job was started by two launchers",
                        rank, the.rank, the.ranks);
    }
    return WEFT_OK;
}
