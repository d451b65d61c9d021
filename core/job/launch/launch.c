/* job/launch/launch.c: see launch.h.
 *
 * One loop over three kinds of descriptors: the pidfd of each child (it has ended), the control
 * socket of each child (its candidate for the root cause, and text to print) and our own signals.
 * decide/cause.h finds the root cause, since a rank that gives up because of another one may end
 * before that one. After that the other ranks have a second to end. */
#define _GNU_SOURCE
#include "job/launch/launch.h"

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
#include "job/decide/cause.h"
#include "job/launch/alive.h"
#include "job/launch/control.h"
#include "job/launch/spawn.h"
#include "job/stop.h"

#define GRACE_MS 1000
#define STOPPED_MS 10000 /* ranks that stop on request leave together */
#define LOOK_MS 250      /* interval of the checks whether ranks write a core dump ... */
#define LOOK_RANKS 64    /* ... ranks per check, in turn */
#define LOOKS 50         /* checks of a rank that may be dying, a millisecond apart */
#define SAID_MAX 64      /* different messages that are printed */

typedef struct sentence { /* a final message of ranks */
    char *text;
    uint32_t rank, times; /* the first rank that sent it; how many did */
} sentence;

typedef struct rank_state {
    spawn_child child;
    bool spoke;             /* it has named a cause */
    bool confessed;         /* ... itself */
    bool hung;              /* it has closed its control socket */
    sentence *said;         /* its final message; NULL: none */
    bool ended;             /* before we killed it */
    job_control_record end; /* how */
    uint32_t looks;         /* remaining checks whether it is dying */
} rank_state;

typedef struct launch {
    spawn_job spawn;
    uint32_t started, alive;
    rank_state *rank;
    struct pollfd *polls; /* 0: signals; 1: alive; then per rank: pidfd, control socket */
    alive_watch *watch;
    sigset_t caught, before, of_ranks;
    bool stops;           /* the ranks handle requests to stop */
    int signal_fd, asked; /* asked: the signal that was passed on */
    uint64_t asked_at;    /* clock_ms() of it */
    bool stopped;         /* a rank ended because it was asked to */
    job_cause verdict;
    char told[CONTROL_TEXT]; /* what other ranks report about rank `told_rank` */
    uint32_t told_rank;
    uint32_t looks_left; /* total of `looks`; a millisecond each */
    uint32_t next_look;  /* the rank that is checked next */
    uint64_t look_at;
    uint64_t kill_at; /* 0: no failure */
    bool killed;
    sentence said[SAID_MAX];
    uint32_t said_n;
} launch;

bool job_launch_say(const char *text)
{
    return job_control_send(job_control_descriptor(), CONTROL_SAY, 0, 0, text);
}

/* --- signals --- */

/* Except those that our parent ignores (nohup, a shell's background job). */
/* Ranks that handle requests to stop start with these signals blocked, so that none comes too
 * early. */
static weft_status catch_signals(launch *l)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP};
    struct sigaction old, plain = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &plain, NULL);
    sigemptyset(&l->caught);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!sigaction(wanted[i], NULL, &old) && old.sa_handler != SIG_IGN &&
            (wanted[i] != SIGUSR1 || l->stops))
            sigaddset(&l->caught, wanted[i]);
    sigprocmask(SIG_BLOCK, &l->caught, &l->before);
    l->of_ranks = l->before;
    if (l->stops) {
        sigaddset(&l->of_ranks, SIGTERM);
        sigaddset(&l->of_ranks, SIGUSR1);
    }
    l->spawn.mask = &l->of_ranks;
    l->signal_fd = signalfd(-1, &l->caught, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->signal_fd < 0)
        return err_fail_errno(WEFT_IO, "the launcher cannot watch for signals");
    return WEFT_OK;
}

/* Signal each rank's process group. The number of a rank that has not been reaped is not reused. */
static void signal_all(launch *l, int number)
{
    for (uint32_t r = 0; r < l->started; r++)
        if (l->rank[r].child.pid > 0)
            kill(-l->rank[r].child.pid, number);
}

/* A dying rank may be writing a core dump, which SIGKILL would truncate: it is left to end by
 * itself unless it has to end now (`at_once`). */
static void kill_all(launch *l, bool at_once)
{
    l->killed = true;
    for (uint32_t r = 0; r < l->started; r++)
        if (l->rank[r].child.pid > 0 && (at_once || !l->rank[r].ended))
            kill(-l->rank[r].child.pid, SIGKILL);
}

/* The signal repeats the current request. */
static bool is_repeated(launch *l, int number)
{
    bool after = l->asked == SIGUSR1 && (number == SIGUSR1 || number == SIGTERM);
    bool same = l->asked == SIGTERM && number == SIGTERM && clock_ms() - l->asked_at < STOP_SAME_MS;
    if (after && number == SIGTERM) {
        l->asked = number; /* the next signal kills */
        l->asked_at = clock_ms();
    }
    return after || same || (l->asked == SIGTERM && number == SIGUSR1);
}

/* A request to stop goes to the ranks only; their child processes do not handle SIGUSR1. */
static void pass_on(launch *l, int number)
{
    if (number != SIGUSR1)
        signal_all(l, number);
    for (uint32_t r = 0; number == SIGUSR1 && r < l->started; r++)
        if (l->rank[r].child.pid > 0)
            kill(l->rank[r].child.pid, number);
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
    } else if (is_repeated(l, (int)info.ssi_signo)) {
        return;
    } else if (l->asked) {
        l->stopped = false;
        kill_all(l, true);
    } else {
        l->asked = (int)info.ssi_signo;
        l->asked_at = clock_ms();
        pass_on(l, l->asked);
    }
}

/* --- messages of ranks and how ranks end --- */

static void keep_sentence(launch *l, uint32_t rank, const char *text)
{
    sentence *s = l->said;
    while (s < l->said + l->said_n && strcmp(s->text, text) != 0)
        s++;
    char *own = s == l->said + l->said_n && l->said_n < SAID_MAX ? strdup(text) : NULL;
    if (own) {
        *s = (sentence){.text = own, .rank = rank};
        l->said_n++;
    } else if (s == l->said + l->said_n) {
        return;
    }
    s->times++;
    l->rank[rank].said = s;
}

static void print_sentence(const launch *l, const sentence *s)
{
    char own[24];
    int n = snprintf(own, sizeof own, "rank %u", s->rank);
    bool named = !strncmp(s->text, own, (size_t)n) && (s->text[n] == ',' || s->text[n] == ' ');
    named = named || s->times == l->spawn.ranks;
    log_line(WEFT_LOG_ERROR, "%s%s%s", named ? "" : own, named ? "" : ": ", s->text);
}

/* Print all messages, or only `one`. */
static void print_sentences(const launch *l, const sentence *one)
{
    for (uint32_t i = 0; i < l->said_n; i++)
        if (!one || one == &l->said[i])
            print_sentence(l, &l->said[i]);
}

static void hear(launch *l, uint32_t rank)
{
    job_control_record r;
    while (l->rank[rank].child.control >= 0 &&
           job_control_receive(l->rank[rank].child.control, &r) > 0) {
        if (r.kind == CONTROL_SAY) {
            keep_sentence(l, rank, r.text);
        } else if (r.kind == CONTROL_CAUSE && r.rank < l->spawn.ranks && r.code &&
                   r.code <= JOB_CAUSE_SURE) {
            l->rank[rank].spoke = true;
            l->rank[rank].confessed |= r.rank == rank;
            job_cause_add(&l->verdict, r.rank, r.code, clock_ms(), r.text);
            if (r.rank == l->verdict.rank && (!l->told[0] || l->told_rank != r.rank)) {
                snprintf(l->told, sizeof l->told, "%s", r.text);
                l->told_rank = r.rank;
            }
        }
    }
}

static void tell_others(launch *l, const job_control_record *end)
{
    for (uint32_t r = 0; r < l->started; r++)
        if (l->rank[r].child.pidfd >= 0 && r != end->rank)
            job_control_send(l->rank[r].child.control, end->kind, end->rank, end->code, "");
}

static void judge_end(launch *l, uint32_t rank)
{
    rank_state *s = &l->rank[rank];
    char text[160];
    int n = snprintf(text, sizeof text, "rank %u ", rank);
    if (s->end.kind == CONTROL_ENDED && s->end.code == STOP_STATUS) {
        l->stopped = true;
        return;
    }
    job_control_describe_end(&s->end, text + n, sizeof text - (uint32_t)n);
    if (s->end.kind == CONTROL_KILLED)
        job_cause_add(&l->verdict, rank, JOB_CAUSE_SURE, clock_ms(), text);
    else if (s->end.code && !s->spoke)
        job_cause_add(&l->verdict, rank, JOB_CAUSE_ENDED, clock_ms(), text);
}

static void note_end(launch *l, uint32_t rank, const job_control_record *end)
{
    rank_state *s = &l->rank[rank];
    s->ended = true;
    s->end = *end;
    if (s->end.kind == CONTROL_KILLED || !s->end.code || !s->spoke)
        tell_others(l, &s->end); /* its own messages reach them through the store */
    judge_end(l, rank);
}

static void on_end(launch *l, uint32_t rank)
{
    rank_state *s = &l->rank[rank];
    siginfo_t info = {0};
    hear(l, rank);
    kill(-s->child.pid, SIGKILL); /* ends its child processes too */
    waitid(P_PIDFD, (id_t)s->child.pidfd, &info, WEXITED);
    close(s->child.pidfd);
    close(s->child.control);
    s->child = (spawn_child){.pid = -1, .pidfd = -1, .control = -1};
    l->alive--;
    const job_control_record end = {.kind =
                                        info.si_code == CLD_EXITED ? CONTROL_ENDED : CONTROL_KILLED,
                                    .rank = rank,
                                    .code = (uint32_t)info.si_status};
    if (!l->killed && !s->ended)
        note_end(l, rank, &end);
}

static void look_at_one(launch *l, uint32_t rank)
{
    const rank_state *s = &l->rank[rank];
    job_control_record end = {.rank = rank};
    if (s->child.pidfd < 0 || s->ended || l->killed || !job_alive_how_dying(s->child.pid, &end))
        return;
    hear(l, rank);
    note_end(l, rank, &end);
}

/* The kernel reports how a rank dies before it has freed the rank's memory (alive.h). */
static void look_at_dying(launch *l)
{
    uint32_t rank;
    while (job_alive_take(l->watch, &rank))
        l->looks_left = l->rank[rank].looks = LOOKS;
    if (!l->looks_left)
        return;
    l->looks_left--;
    for (uint32_t r = 0; r < l->started; r++) {
        rank_state *s = &l->rank[r];
        if (!s->looks)
            continue;
        s->looks--;
        look_at_one(l, r);
    }
}

/* A rank that writes a core dump sends no heartbeat, and would be taken for frozen. */
static void look_for_dumps(launch *l, uint64_t now)
{
    if (l->killed || now < l->look_at)
        return;
    l->look_at = now + LOOK_MS;
    const uint32_t n = l->started < LOOK_RANKS ? l->started : LOOK_RANKS;
    for (uint32_t i = 0; i < n; i++, l->next_look++) {
        l->next_look %= l->started;
        look_at_one(l, l->next_look);
    }
}

/* --- the loop --- */

static void begin_end(launch *l, uint64_t now)
{
    if (!l->kill_at && job_cause_due(&l->verdict, now))
        l->kill_at = now + GRACE_MS;
    if (!l->kill_at && l->stopped)
        l->kill_at = now + STOPPED_MS;
    uint32_t others = l->alive;
    const rank_state *s = &l->rank[l->verdict.rank];
    if (l->verdict.weight && l->kill_at && s->child.pidfd >= 0 && !s->confessed)
        others--; /* a rank that others report as failed is not waited for */
    if (l->kill_at && l->alive && !l->killed && (now >= l->kill_at || !others))
        kill_all(l, false);
}

static int wait_time(const launch *l, uint64_t now)
{
    if (l->looks_left)
        return 1;
    uint64_t next = l->kill_at ? l->kill_at : l->verdict.weight ? l->verdict.due : l->look_at;
    if (l->killed)
        return -1;
    next = l->look_at < next ? l->look_at : next;
    return next > now ? (int)(next - now) : 0;
}

static void stand_by(launch *l)
{
    uint32_t n = l->started;
    l->polls[0] = (struct pollfd){.fd = l->signal_fd, .events = POLLIN};
    l->polls[1] = (struct pollfd){.fd = job_alive_watch_fd(l->watch), .events = POLLIN};
    while (l->alive) {
        for (uint32_t r = 0; r < n; r++) {
            l->polls[2 + 2 * r] = (struct pollfd){.fd = l->rank[r].child.pidfd, .events = POLLIN};
            l->polls[3 + 2 * r] = (struct pollfd){
                .fd = l->rank[r].hung ? -1 : l->rank[r].child.control, .events = POLLIN};
        }
        poll(l->polls, 2 + 2 * (nfds_t)n, wait_time(l, clock_ms()));
        if (l->polls[0].revents & POLLIN)
            on_signal(l);
        for (uint32_t r = 0; r < n; r++) {
            if (l->polls[3 + 2 * r].revents & POLLIN)
                hear(l, r);
            l->rank[r].hung |= (l->polls[3 + 2 * r].revents & POLLHUP) != 0;
            if (l->polls[2 + 2 * r].revents)
                on_end(l, r);
        }
        look_at_dying(l);
        look_for_dumps(l, clock_ms());
        begin_end(l, clock_ms());
    }
}

/* --- start and end --- */

/* Two descriptors per rank. */
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
    weft_status st = job_spawn_open(&l->spawn);
    l->watch = l->spawn.ranks > 1 ? job_alive_open(l->spawn.ranks) : NULL;
    l->spawn.alive_fd = job_alive_page(l->watch);
    for (uint32_t r = 0; st == WEFT_OK && r < l->spawn.ranks; r++) {
        st = job_spawn_rank(&l->spawn, r, &l->rank[r].child);
        l->started++;
        l->alive += l->rank[r].child.pidfd >= 0;
    }
    job_alive_watch_begin(l->watch);
    job_spawn_close(&l->spawn); /* only the ranks hold them now */
    return st;
}

/* Reap a rank that was started but cannot be watched. */
static void reap_unwatched(launch *l)
{
    for (uint32_t r = 0; r < l->started; r++)
        if (l->rank[r].child.pid > 0 && l->rank[r].child.pidfd < 0)
            waitpid(l->rank[r].child.pid, NULL, 0);
}

static void describe_cause(const launch *l, const rank_state *s, char *out, size_t bytes)
{
    char own[160];
    int n = snprintf(own, sizeof own, "rank %u ", l->verdict.rank);
    bool told = l->told[0] && l->told_rank == l->verdict.rank;
    if (s->ended)
        job_control_describe_end(&s->end, own + n, sizeof own - (uint32_t)n);
    bool words = told && s->said && s->end.kind == CONTROL_ENDED; /* better than a status */
    if (s->ended && !words && (!told || strncmp(l->told, own, strlen(own)) != 0))
        snprintf(out, bytes, "%s", own);
    else
        snprintf(out, bytes, "%s", told ? l->told : l->verdict.text);
}

/* Print the messages of the ranks and how the job ended, and choose the exit status. */
static int conclude(const launch *l, job_launch_end *out)
{
    char why[CONTROL_TEXT];
    const rank_state *s = &l->rank[l->verdict.rank];
    bool failed = l->verdict.weight, by_itself = s->ended && s->end.kind == CONTROL_ENDED;
    uint32_t code = failed && by_itself ? s->end.code : 1;
    int status = code == 2 || code == 77 ? (int)code : 1;
    bool refused = s->said && status != 1;
    describe_cause(l, s, why, sizeof why);
    out->failed = failed && status == 1 && !l->asked && !l->stopped;
    out->rank = l->verdict.rank;
    snprintf(out->why, sizeof out->why, "%.255s", by_itself && s->said ? s->said->text : why);
    print_sentences(l, refused ? s->said : NULL);
    if (!failed && (l->stopped || !l->killed))
        return l->stopped ? STOP_STATUS : 0;
    if (refused || (failed && by_itself && s->said && l->said_n == 1 && !l->asked))
        return status; /* its own message is sufficient */
    if (l->asked && (!failed || !s->ended || by_itself || (int)s->end.code == l->asked))
        log_line(WEFT_LOG_ERROR, "the job was stopped by signal %d", l->asked);
    else if (failed)
        log_line(WEFT_LOG_ERROR, "%s", why);
    return status;
}

static void clear(launch *l)
{
    if (l->signal_fd >= 0)
        close(l->signal_fd);
    for (uint32_t i = 0; i < l->said_n; i++)
        free(l->said[i].text);
    job_alive_close(l->watch);
    free(l->rank);
    free(l->polls);
    sigprocmask(SIG_SETMASK, &l->before, NULL);
}

void job_launch(const job_launch_args *args, job_launch_end *out)
{
    const uint32_t ranks = args->ranks;
    *out = (job_launch_end){.status = 2};
    if (!ranks || ranks > LAUNCH_MAX) {
        log_line(WEFT_LOG_ERROR, "cannot start %u ranks on one machine: 1 to %d can be", ranks,
                 LAUNCH_MAX);
        return;
    }
    launch l = {.spawn = {.ranks = ranks,
                          .argv = args->argv,
                          .attempt = args->attempt,
                          .progress_fd = job_progress_fd(args->progress),
                          .key_fd = -1,
                          .store_fd = -1},
                .stops = args->stops};
    l.rank = mem_alloc(ranks * sizeof *l.rank);
    l.polls = mem_alloc((2 + 2 * (uint64_t)ranks) * sizeof *l.polls);
    raise_limit(ranks);
    weft_status st = catch_signals(&l);
    if (st == WEFT_OK)
        st = start_all(&l);
    if (st != WEFT_OK) {
        log_line(WEFT_LOG_ERROR, "%s", err_text());
        kill_all(&l, true);
        reap_unwatched(&l);
    }
    stand_by(&l);
    out->status = st != WEFT_OK ? 1 : conclude(&l, out);
    clear(&l);
}

int job_launch_ranks(uint32_t ranks, char *const argv[], bool stops)
{
    job_launch_end end;
    job_launch(&(job_launch_args){.ranks = ranks, .argv = argv, .stops = stops}, &end);
    return end.status;
}
