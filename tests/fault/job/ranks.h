/* tests/fault/job/ranks.h: a job of forked processes, without a launcher.
 *
 * Each rank joins with a key file and runs a body; what it ends with (status and err_text()) comes
 * back through a pipe, with the time. Include after setjmp.h, stdarg.h and stdlib.h. */
#ifndef TESTS_FAULT_RANKS_H
#define TESTS_FAULT_RANKS_H

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "job/job.h"
#include "job/stop.h"
#include "job/wire/key.h"
#include "key_file.h"
#include "loopback.h"
#include "patience.h"

#include <cmocka.h> /* last: it has a macro called fail */

#define RANKS_WAIT_MS 200000 /* for what comes at once, or after some seconds */

#ifndef RANKS_MAX
#define RANKS_MAX 8
#endif

/* Returns what the rank leaves the job with; the record stands in err_text(). */
typedef weft_status (*rank_body)(job *j, uint32_t rank, uint32_t ranks);

typedef struct rank_report {
    weft_status join, body;
    bool left_well;
    int stopped;       /* job_stop_declared() */
    uint64_t ended_ms; /* clock_ms(); the same clock in all processes */
    char text[1024];
} rank_report;

typedef struct ranks {
    uint32_t n;
    pid_t pid[RANKS_MAX];
    int out[RANKS_MAX];
    rank_report report[RANKS_MAX];
    char key[64], other_key[80], addr[64];
    uint16_t port;
    int ready[2]; /* a byte from each rank that is at work */
    double frozen_after, join_timeout;
    uint32_t liar;                /* this rank has the other key; RANKS_MAX: none */
    uint32_t world[RANKS_MAX];    /* what each takes for the number of ranks */
    uint32_t claim[RANKS_MAX];    /* ... and for its own */
    uint64_t launch[RANKS_MAX];   /* job_identity.launch */
    const char *listen, *address; /* of job_options, for rank 0 alone */
    int level;                    /* of the log */
} ranks;

static int ranks_ready_fd = -1; /* in a rank */

/* In a rank: all of them have met, and this one is at work. */
static inline weft_status ranks_at_work(job *j)
{
    weft_status st = job_exchange(j, "start", NULL, 0, NULL);
    if (st == WEFT_OK && write(ranks_ready_fd, "r", 1) != 1)
        abort();
    return st;
}

/* Wait until `n` ranks are at work. */
static inline void ranks_wait_ready(ranks *r, uint32_t n)
{
    char byte;
    for (uint32_t i = 0; i < n; i++) {
        struct pollfd p = {.fd = r->ready[0], .events = POLLIN};
        if (poll(&p, 1, RANKS_WAIT_MS) != 1 || read(r->ready[0], &byte, 1) != 1)
            fail_msg("only %u of %u ranks are at work", i, n);
    }
    usleep(50000); /* most of them are in their next wait; the verdict does not depend on it */
}

/* --- what the ranks wait for: the test says so --- */

static int ranks_told[2]; /* a pipe */

static inline void ranks_prepare_to_tell(void)
{
    if (pipe2(ranks_told, O_CLOEXEC))
        abort();
}

static inline void ranks_tell(void)
{
    if (write(ranks_told[1], "t", 1) != 1)
        abort();
}

static inline void ranks_end_telling(void)
{
    close(ranks_told[0]);
    close(ranks_told[1]);
}

/* In a rank: until the test has told all of them, or one of them fails. */
static inline weft_status ranks_until_told(job *j)
{
    struct pollfd p = {.fd = ranks_told[0], .events = POLLIN}; /* nobody reads it */
    weft_status st;
    while ((st = job_failure(j)) == WEFT_OK && poll(&p, 1, 5) < 1)
        continue;
    return st;
}

static inline void ranks_prepare(ranks *r, uint32_t n)
{
    *r = (ranks){
        .n = n, .frozen_after = 5, .join_timeout = 120, .liar = RANKS_MAX, .level = WEFT_LOG_ERROR};
    snprintf(r->addr, sizeof r->addr, "127.0.0.1");
    r->port = loopback_port();
    if (pipe2(r->ready, O_CLOEXEC))
        abort();
    snprintf(r->key, sizeof r->key, "/tmp/weft-fault-%d.key", getpid());
    snprintf(r->other_key, sizeof r->other_key, "%s.other", r->key);
    unlink(r->key);
    unlink(r->other_key);
    key_file_write(r->key);
    key_file_write(r->other_key);
    for (uint32_t i = 0; i < RANKS_MAX; i++) {
        r->world[i] = n;
        r->claim[i] = i;
    }
}

static inline int ranks_child(const ranks *r, uint32_t me, rank_body body, int out)
{
    ranks_ready_fd = r->ready[1];
    alarm(290); /* whatever a test does, nothing of it stays behind */
    log_setup(r->level, (int)me);
    job_identity who = {.rank = r->claim[me],
                        .ranks = r->world[me],
                        .local_rank = r->claim[me],
                        .local_ranks = r->world[me],

                        .launched = true,
                        .launch = r->launch[me],
                        .port = r->port};
    snprintf(who.addr, sizeof who.addr, "%s", r->addr);
    job_options opt = {.key_file = me == r->liar ? r->other_key : r->key,
                       .frozen_after = r->frozen_after,
                       .join_timeout = r->join_timeout,
                       .listen = me ? NULL : r->listen,
                       .address = me ? NULL : r->address};
    rank_report report = {0};
    job *j = NULL;
    report.join = job_join(&who, &opt, &j);
    if (report.join == WEFT_OK) {
        err_clear();
        report.body = body(j, me, r->n);
        char text[1024];
        snprintf(text, sizeof text, "%s", err_text());
        report.left_well = job_leave(j, report.body, text);
        job_free(j);
    }
    report.ended_ms = clock_ms();
    report.stopped = job_stop_declared();
    snprintf(report.text, sizeof report.text, "%s", err_text());
    return write(out, &report, sizeof report) == (ssize_t)sizeof report ? 0 : 1;
}

static inline void ranks_start_one(ranks *r, uint32_t me, rank_body body)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        abort();
    r->pid[me] = fork();
    if (r->pid[me] == 0) {
        close(ends[0]);
        _exit(ranks_child(r, me, body, ends[1]));
    }
    close(ends[1]);
    r->out[me] = ends[0];
}

static inline void ranks_start(ranks *r, rank_body body)
{
    for (uint32_t i = 0; i < r->n; i++)
        ranks_start_one(r, i, body);
}

static inline bool ranks_is_admitted(pid_t pid)
{
    char path[300], name[32];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *e; tasks && !found && (e = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/comm", pid, e->d_name);
        FILE *f = fopen(path, "re");
        found = f && fgets(name, sizeof name, f) && !strcmp(name, "weft-job\n");
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

/* Until rank 0 has admitted the process of another rank: then that has the thread of the job. */
static inline void ranks_wait_admitted(const ranks *r, uint32_t i)
{
    while (!kill(r->pid[i], 0) && !ranks_is_admitted(r->pid[i]))
        usleep(1000);
}

/* Collect rank `i`; its wait status, or -1 when it takes longer than `ms`. */
static inline int ranks_wait(ranks *r, uint32_t i, int ms)
{
    struct pollfd p = {.fd = r->out[i], .events = POLLIN};
    int status = -1;
    if (poll(&p, 1, ms) == 1) {
        memset(&r->report[i], 0, sizeof r->report[i]);
        if (read(r->out[i], &r->report[i], sizeof r->report[i]) < 0)
            abort();
        waitpid(r->pid[i], &status, 0);
        r->pid[i] = 0;
    }
    return status;
}

static inline void ranks_end(ranks *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->pid[i] > 0) {
            kill(r->pid[i], SIGKILL);
            waitpid(r->pid[i], NULL, 0);
        }
        close(r->out[i]);
    }
    close(r->ready[0]);
    close(r->ready[1]);
    unlink(r->key);
    unlink(r->other_key);
}

static inline void ranks_expect_text(const ranks *r, uint32_t i, uint32_t victim, const char *word)
{
    char name[32];
    snprintf(name, sizeof name, "rank %u ", victim);
    if (!strstr(r->report[i].text, name) || !strstr(r->report[i].text, word))
        fail_msg("rank %u says '%s'; expected '%s' and '%s'", i, r->report[i].text, name, word);
}

/* All but `victim` and `other` end with WEFT_PEER and the victim's name, which usually takes `ms`
 * from now at most. */
static inline void ranks_name_one_of_two(ranks *r, uint32_t victim, uint32_t other,
                                         const char *word, uint64_t ms)
{
    uint64_t began = clock_ms();
    for (uint32_t i = 0; i < r->n; i++) {
        if (i == victim || i == other)
            continue;
        assert_int_equal(ranks_wait(r, i, RANKS_WAIT_MS), 0);
        assert_int_equal(r->report[i].join, WEFT_OK);
        assert_int_equal(r->report[i].body, WEFT_PEER);
        assert_false(r->report[i].left_well);
        ranks_expect_text(r, i, victim, word);
        if (r->report[i].ended_ms > began + patience(ms))
            fail_msg("rank %u needed %d ms to learn of rank %u", i,
                     (int)(r->report[i].ended_ms - began), victim);
    }
}

static inline void ranks_name_victim(ranks *r, uint32_t victim, const char *word, uint64_t ms)
{
    ranks_name_one_of_two(r, victim, victim, word, ms);
}

/* All ranks end well. */
static inline void ranks_expect_well(ranks *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        int status = ranks_wait(r, i, RANKS_WAIT_MS);
        const rank_report *p = &r->report[i];
        if (status || p->join || p->body || !p->left_well)
            fail_msg("rank %u: wait %d, join %d, body %d, left %d: %s", i, status, p->join, p->body,
                     p->left_well, p->text);
    }
}

#endif
