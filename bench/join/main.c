/* bench/join/main.c: how long many ranks take to join a job, and what their heartbeats cost rank 0.
 *
 *   join_bench RANKS [SECONDS [THREADS]]
 *
 * All ranks run on this machine, each a process that does nothing but keep in touch, or THREADS of
 * them in a process. They are started first and let go together. Prints a line of CSV:
 *
 *   ranks
 *   join_s         from that moment until rank 0 knows that all have joined
 *   all_s          ... until every rank knows it
 *   join_cpu_s     processor time of rank 0 until then
 *   others_cpu_s   ... of all others together
 *   settle_s       ... until a heartbeat of each has reached its watcher: 3 s are waited
 *   share          processor time of rank 0 over SECONDS (10), of one core, from 6 s after that
 *   others_share   ... of all other ranks together
 *   rank0_mib      resident memory of rank 0 at the end
 *
 * Nothing else should run on the machine. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "job/job.h"
#include "job/wire/tls.h"

enum { SETTLE_S = 6 };

typedef struct shared {
    _Atomic uint64_t last_ms; /* when the last rank knew that all have joined */
    _Atomic uint32_t ready, failed, measured;
    uint64_t began_ms, joined_ms;
    double cpu_joined, cpu_begin, cpu_end, others_begin, others_end;
    uint64_t kib;
} shared;

static shared *s;
static uint32_t ranks, seconds = 10;
static char key[64];
static uint16_t port;
static int go[2], over[2];

static double cpu_of(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void await_end_of(int fd)
{
    char byte;
    (void)!read(fd, &byte, 1);
}

static job *join(uint32_t rank)
{
    job_identity who = {
        .rank = rank, .ranks = ranks, .local_ranks = ranks, .launched = true, .port = port};
    const job_options opt = {.key_file = key, .join_timeout = 120};
    job *j = NULL;
    snprintf(who.addr, sizeof who.addr, "127.0.0.1");
    if (job_join(&who, &opt, &j) != WEFT_OK) {
        if (!atomic_fetch_add(&s->failed, 1))
            fprintf(stderr, "after %.1f s, rank %u: %s\n",
                    (double)(clock_ms() - s->began_ms) / 1000, rank, err_text());
    }
    return j;
}

static void *client(void *arg)
{
    atomic_fetch_add(&s->ready, 1);
    await_end_of(go[0]);
    job *j = join((uint32_t)(uintptr_t)arg);
    const uint64_t now = clock_ms();
    uint64_t before = atomic_load(&s->last_ms);
    while (before < now && !atomic_compare_exchange_weak(&s->last_ms, &before, now))
        continue;
    if (j)
        await_end_of(over[0]);
    if (j && !job_leave(j, WEFT_OK, NULL) && !atomic_fetch_add(&s->failed, 1))
        fprintf(stderr, "after %.1f s, joined after %.1f s: %s\n",
                (double)(clock_ms() - s->began_ms) / 1000,
                (double)(s->joined_ms - s->began_ms) / 1000, err_text());
    job_free(j);
    return NULL;
}

static void clients(uint32_t first, uint32_t n)
{
    pthread_t *thread = calloc(n, sizeof *thread);
    close(go[1]);
    close(over[1]);
    for (uint32_t i = 1; i < n; i++)
        if (pthread_create(&thread[i], NULL, client, (void *)(uintptr_t)(first + i)))
            abort();
    client((void *)(uintptr_t)first);
    for (uint32_t i = 1; i < n; i++)
        pthread_join(thread[i], NULL);
    free(thread);
}

/* Rank 0, in a process of its own. */
static void serve(void)
{
    close(go[1]);
    await_end_of(go[0]);
    job *j = join(0);
    s->joined_ms = clock_ms();
    s->cpu_joined = cpu_of(RUSAGE_SELF);
    sleep(SETTLE_S);
    s->cpu_begin = cpu_of(RUSAGE_SELF);
    sleep(seconds);
    s->cpu_end = cpu_of(RUSAGE_SELF);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    s->kib = (uint64_t)u.ru_maxrss;
    while (!atomic_load(&s->measured))
        usleep(1000);
    close(over[1]);
    if (j && !job_leave(j, WEFT_OK, NULL))
        fprintf(stderr, "rank 0: %s\n", err_text());
    job_free(j);
}

static uint16_t free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) || getsockname(fd, (struct sockaddr *)&a, &n))
        abort();
    close(fd);
    return ntohs(a.sin_port);
}

static bool write_key(void)
{
    const int fd = open(key, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 && dprintf(fd, "%064d\n", getpid()) == 65 && !close(fd);
}

static void prepare(void)
{
    job_tls_context *warm; /* what OpenSSL does once, it does before the processes begin */
    s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(key, sizeof key, "/tmp/weft-join-%d.key", getpid());
    unlink(key);
    log_setup(WEFT_LOG_ERROR, -1);
    if (s == MAP_FAILED || pipe2(go, O_CLOEXEC) || pipe2(over, O_CLOEXEC) || !write_key() ||
        job_tls_context_open(&warm) != WEFT_OK)
        abort();
    job_tls_context_close(warm);
    port = free_port();
}

/* Processor time of all ranks but rank 0, as the scheduler counts it. */
static double others_cpu(const pid_t *pid, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 1; i < n; i++) {
        char path[64];
        unsigned long long ns = 0;
        snprintf(path, sizeof path, "/proc/%d/task", pid[i]);
        DIR *d = opendir(path);
        for (struct dirent *e; d && (e = readdir(d));) {
            snprintf(path, sizeof path, "/proc/%d/task/%.16s/schedstat", pid[i], e->d_name);
            FILE *f = *e->d_name == '.' ? NULL : fopen(path, "re");
            if (f && fscanf(f, "%llu", &ns) == 1)
                sum += (double)ns * 1e-9;
            if (f)
                fclose(f);
        }
        if (d)
            closedir(d);
    }
    return sum;
}

static _Noreturn void end_all(const pid_t *pid, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        kill(pid[i], SIGKILL);
    unlink(key);
    fprintf(stderr, "%u of %u ranks have failed\n", atomic_load(&s->failed), ranks);
    exit(1);
}

int main(int argc, char **argv)
{
    ranks = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    seconds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : seconds;
    const uint32_t threads = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 1;
    if (ranks < 2 || !threads) {
        fprintf(stderr, "usage: join_bench RANKS [SECONDS [THREADS]]\n");
        return 2;
    }
    prepare();
    pid_t *pid = calloc(ranks + 1, sizeof *pid);
    uint32_t n = 1;
    for (uint32_t first = 1; first < ranks; first += threads, n++)
        if (!(pid[n] = fork())) {
            clients(first, ranks - first < threads ? ranks - first : threads);
            _exit(0);
        }
    while (atomic_load(&s->ready) < ranks - 1)
        usleep(1000);
    if (!(pid[0] = fork())) {
        serve();
        _exit(0);
    }
    close(over[1]);
    usleep(200000);
    const double others_before = others_cpu(pid, n);
    s->began_ms = clock_ms();
    close(go[1]);
    while (!s->joined_ms && !atomic_load(&s->failed))
        usleep(1000);
    if (atomic_load(&s->failed))
        end_all(pid, n);
    const double others_joined = others_cpu(pid, n) - others_before;
    while (!s->cpu_begin && !atomic_load(&s->failed))
        usleep(1000);
    s->others_begin = others_cpu(pid, n);
    while (!s->cpu_end && !atomic_load(&s->failed))
        usleep(1000);
    if (atomic_load(&s->failed))
        end_all(pid, n);
    s->others_end = others_cpu(pid, n);
    atomic_store(&s->measured, 1);
    while (wait(NULL) > 0)
        continue;
    unlink(key);
    printf("ranks,join_s,all_s,join_cpu_s,others_cpu_s,share,others_share,rank0_mib\n"
           "%u,%.2f,%.2f,%.2f,%.2f,%.4f,%.4f,%.0f\n",
           ranks, (double)(s->joined_ms - s->began_ms) / 1000,
           (double)(atomic_load(&s->last_ms) - s->began_ms) / 1000, s->cpu_joined, others_joined,
           (s->cpu_end - s->cpu_begin) / seconds, (s->others_end - s->others_begin) / seconds,
           (double)s->kib / 1024);
    return atomic_load(&s->failed) ? 1 : 0;
}
