/* job/launch.c: see launch.h.
 *
 * One loop over three kinds of descriptors: a child's pidfd (it has ended), its line (whom it
 * blames, what is to be printed) and our own signals. Which failure came first is decided by
 * blame.h, since a rank that gives up because of another one may well end before it. From that
 * moment the others have a second. */
#define _GNU_SOURCE
#include "job/launch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "job/blame.h"
#include "job/control.h"
#include "job/spawn.h"

#define GRACE_MS 1000
#define SAID_MAX 64 /* different sentences that are printed */

typedef struct rank_state {
    spawn_child child;
    bool spoke;         /* it has named a cause        */
    bool confessed;     /* ... itself                  */
    bool hung;          /* it has closed its line      */
    bool ended;         /* before we killed it         */
    control_record end; /* how                         */
} rank_state;

typedef struct launch {
    spawn_job spawn;
    uint32_t started, alive;
    rank_state *rank;
    struct pollfd *polls; /* 0: signals; then two a rank: pidfd, line */
    sigset_t caught, before;
    int signal_fd, asked; /* asked: the signal that was passed on */
    blame verdict;
    char told[CONTROL_TEXT]; /* what the ranks say of rank `told_rank`    */
    uint32_t told_rank;
    uint64_t kill_at; /* 0: nobody has failed                      */
    bool killed;
    char *said[SAID_MAX];
    uint32_t said_n;
} launch;

bool launch_say(const char *text)
{
    return control_send(control_descriptor(), CONTROL_SAY, 0, 0, text);
}

/* --- signals --- */

/* Only those that nobody above us wants ignored (nohup, a shell's background job). */
static weft_status catch_signals(launch *l)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP};
    struct sigaction old, plain = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &plain, NULL);
    sigemptyset(&l->caught);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!sigaction(wanted[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaddset(&l->caught, wanted[i]);
    sigprocmask(SIG_BLOCK, &l->caught, &l->before);
    l->spawn.mask = &l->before;
    l->signal_fd = signalfd(-1, &l->caught, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->signal_fd < 0)
        return fail_errno(WEFT_IO, "the launcher cannot watch for signals");
    return WEFT_OK;
}

/* To each rank's process group. A rank that has not been reaped holds its number. */
static void signal_all(launch *l, int number)
{
    for (uint32_t r = 0; r < l->started; r++)
        if (l->rank[r].child.pid > 0)
            kill(-l->rank[r].child.pid, number);
}

static void kill_all(launch *l)
{
    l->killed = true;
    signal_all(l, SIGKILL);
}

static void on_signal(launch *l)
{
    struct signalfd_siginfo info;
    if (read(l->signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (info.ssi_signo == SIGTSTP) {
        signal_all(l, SIGSTOP);
        raise(SIGSTOP);
        signal_all(l, SIGCONT);
    } else if (l->asked) {
        kill_all(l);
    } else {
        l->asked = (int)info.ssi_signo;
        signal_all(l, l->asked);
    }
}

/* --- what ranks say and how they end --- */

static void print_once(launch *l, uint32_t rank, const char *text)
{
    for (uint32_t i = 0; i < l->said_n; i++)
        if (!strcmp(l->said[i], text))
            return;
    if (l->said_n == SAID_MAX)
        return;
    l->said[l->said_n] = strdup(text);
    if (l->said[l->said_n])
        l->said_n++;
    char own[24];
    int n = snprintf(own, sizeof own, "rank %u", rank);
    bool named = !strncmp(text, own, (size_t)n) && (text[n] == ',' || text[n] == ' ');
    log_line(WEFT_LOG_ERROR, "%s%s%s", named ? "" : own, named ? "" : ": ", text);
}

static void hear(launch *l, uint32_t rank)
{
    control_record r;
    while (l->rank[rank].child.control >= 0 &&
           control_receive(l->rank[rank].child.control, &r) > 0) {
        if (r.kind == CONTROL_SAY) {
            print_once(l, rank, r.text);
        } else if (r.kind == CONTROL_BLAME && r.rank < l->spawn.ranks && r.code &&
                   r.code <= BLAME_SURE) {
            l->rank[rank].spoke = true;
            l->rank[rank].confessed |= r.rank == rank;
            blame_add(&l->verdict, r.rank, r.code, clock_ms(), r.text);
            if (r.rank == l->verdict.rank && (!l->told[0] || l->told_rank != r.rank)) {
                snprintf(l->told, sizeof l->told, "%s", r.text);
                l->told_rank = r.rank;
            }
        }
    }
}

static void tell_others(launch *l, const control_record *end)
{
    for (uint32_t r = 0; r < l->started; r++)
        if (l->rank[r].child.pidfd >= 0 && r != end->rank)
            control_send(l->rank[r].child.control, end->kind, end->rank, end->code, "");
}

static void judge_end(launch *l, uint32_t rank)
{
    rank_state *s = &l->rank[rank];
    char text[160];
    int n = snprintf(text, sizeof text, "rank %u ", rank);
    control_cause(&s->end, text + n, sizeof text - (uint32_t)n);
    if (s->end.kind == CONTROL_KILLED)
        blame_add(&l->verdict, rank, BLAME_SURE, clock_ms(), text);
    else if (s->end.code && !s->spoke)
        blame_add(&l->verdict, rank, BLAME_ENDED, clock_ms(), text);
}

static void on_end(launch *l, uint32_t rank)
{
    rank_state *s = &l->rank[rank];
    siginfo_t info = {0};
    hear(l, rank);
    kill(-s->child.pid, SIGKILL); /* what it has started goes with it */
    waitid(P_PIDFD, (id_t)s->child.pidfd, &info, WEXITED);
    close(s->child.pidfd);
    close(s->child.control);
    s->child = (spawn_child){.pid = -1, .pidfd = -1, .control = -1};
    l->alive--;
    if (l->killed)
        return;
    s->ended = true;
    s->end = (control_record){.kind = info.si_code == CLD_EXITED ? CONTROL_ENDED : CONTROL_KILLED,
                              .rank = rank,
                              .code = (uint32_t)info.si_status};
    if (s->end.kind == CONTROL_KILLED || !s->end.code || !s->spoke)
        tell_others(l, &s->end); /* what it said itself reaches them through the store */
    judge_end(l, rank);
}

/* --- the loop --- */

static void begin_end(launch *l, uint64_t now)
{
    if (!l->kill_at && blame_due(&l->verdict, now))
        l->kill_at = now + GRACE_MS;
    uint32_t others = l->alive;
    const rank_state *s = &l->rank[l->verdict.rank];
    if (l->kill_at && s->child.pidfd >= 0 && !s->confessed)
        others--; /* a rank that others hold to have failed is not waited for */
    if (l->kill_at && l->alive && !l->killed && (now >= l->kill_at || !others))
        kill_all(l);
}

static int wait_time(const launch *l, uint64_t now)
{
    uint64_t next = l->kill_at ? l->kill_at : l->verdict.weight ? l->verdict.due : 0;
    if (!next || l->killed)
        return -1; /* ranks have their own deadlines; we wait for them */
    return next > now ? (int)(next - now) : 0;
}

static void stand_by(launch *l)
{
    uint32_t n = l->started;
    l->polls[0] = (struct pollfd){.fd = l->signal_fd, .events = POLLIN};
    while (l->alive) {
        for (uint32_t r = 0; r < n; r++) {
            l->polls[1 + 2 * r] = (struct pollfd){.fd = l->rank[r].child.pidfd, .events = POLLIN};
            l->polls[2 + 2 * r] = (struct pollfd){
                .fd = l->rank[r].hung ? -1 : l->rank[r].child.control, .events = POLLIN};
        }
        poll(l->polls, 1 + 2 * (nfds_t)n, wait_time(l, clock_ms()));
        if (l->polls[0].revents & POLLIN)
            on_signal(l);
        for (uint32_t r = 0; r < n; r++) {
            if (l->polls[2 + 2 * r].revents & POLLIN)
                hear(l, r);
            l->rank[r].hung |= (l->polls[2 + 2 * r].revents & POLLHUP) != 0;
            if (l->polls[1 + 2 * r].revents)
                on_end(l, r);
        }
        begin_end(l, clock_ms());
    }
}

/* --- beginning and end --- */

/* Two descriptors a rank. */
static void raise_limit(uint32_t ranks)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= 2 * ranks + 64)
        return;
    limit.rlim_cur = limit.rlim_max < 2 * ranks + 64 ? limit.rlim_max : 2 * ranks + 64;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static weft_status start_all(launch *l)
{
    weft_status status = spawn_open(&l->spawn);
    for (uint32_t r = 0; !status && r < l->spawn.ranks; r++) {
        status = spawn_rank(&l->spawn, r, &l->rank[r].child);
        l->started++;
        l->alive += l->rank[r].child.pidfd >= 0;
    }
    spawn_close(&l->spawn); /* the ranks alone hold them now */
    return status;
}

/* A rank that could be started and not watched. */
static void reap_unwatched(launch *l)
{
    for (uint32_t r = 0; r < l->started; r++)
        if (l->rank[r].child.pid > 0 && l->rank[r].child.pidfd < 0)
            waitpid(l->rank[r].child.pid, NULL, 0);
}

static void name_cause(const launch *l, const rank_state *s)
{
    char own[160];
    int n = snprintf(own, sizeof own, "rank %u ", l->verdict.rank);
    bool told = l->told[0] && l->told_rank == l->verdict.rank;
    if (s->ended)
        control_cause(&s->end, own + n, sizeof own - (uint32_t)n);
    if (s->ended && (!told || strncmp(l->told, own, strlen(own)) != 0))
        log_line(WEFT_LOG_ERROR, "%s", own);
    else
        log_line(WEFT_LOG_ERROR, "%s", told ? l->told : l->verdict.text);
}

/* Say how it ended, and with which status. */
static int conclude(const launch *l)
{
    const rank_state *s = &l->rank[l->verdict.rank];
    bool failed = l->verdict.weight, by_itself = s->ended && s->end.kind == CONTROL_ENDED;
    if (!failed && !l->killed)
        return 0;
    if (l->asked && (!failed || !s->ended || by_itself || (int)s->end.code == l->asked))
        log_line(WEFT_LOG_ERROR, "the job was stopped by signal %d", l->asked);
    else if (failed)
        name_cause(l, s);
    uint32_t code = failed && by_itself ? s->end.code : 1;
    return code == 2 || code == 77 ? (int)code : 1;
}

static void clear(launch *l)
{
    if (l->signal_fd >= 0)
        close(l->signal_fd);
    for (uint32_t i = 0; i < l->said_n; i++)
        free(l->said[i]);
    free(l->rank);
    free(l->polls);
    sigprocmask(SIG_SETMASK, &l->before, NULL);
}

int launch_ranks(uint32_t ranks, char *const argv[])
{
    if (!ranks || ranks > LAUNCH_MAX) {
        log_line(WEFT_LOG_ERROR, "cannot start %u ranks on one machine: 1 to %d can be", ranks,
                 LAUNCH_MAX);
        return 2;
    }
    launch l = {.spawn = {.ranks = ranks, .argv = argv, .key_fd = -1, .store_fd = -1}};
    l.rank = mem_alloc(ranks * sizeof *l.rank);
    l.polls = mem_alloc((1 + 2 * (uint64_t)ranks) * sizeof *l.polls);
    raise_limit(ranks);
    weft_status status = catch_signals(&l);
    if (!status)
        status = start_all(&l);
    if (status) {
        log_line(WEFT_LOG_ERROR, "%s", err_text());
        kill_all(&l);
        reap_unwatched(&l);
    }
    stand_by(&l);
    int code = status ? 1 : conclude(&l);
    clear(&l);
    return code;
}
