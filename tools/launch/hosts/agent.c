/* launch/hosts/agent.c: see agent.h.
 *
 * The steps: it says FRAME_HERE, hears what to start until FRAME_MEET, starts the ranks, and then
 * relays until all have ended. Its standard output belongs to the frames, so the ranks write to a
 * pipe instead, which it relays too. */
#define _GNU_SOURCE
#include "launch/hosts/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/sealed.h"
#include "job/decide/agreement.h"
#include "job/wire/key.h"
#include "launch/group.h"
#include "launch/hosts/frame.h"
#include "launch/launch.h"
#include "launch/progress.h"
#include "launch/requests.h"
#include "launch/vigil.h"

#define WORDS_MAX 4096u
#define JOB_BYTES_MAX (16u << 20)
#define LEAVE_MS 5000 /* for the last frames when the ranks have ended */

typedef struct agent {
    launch_frame_link link;
    launch_spawn spawn;
    VEC(char *) words; /* of the ranks' command, without the NULL behind */
    VEC(char) job;     /* the job file, where it is sent */
    char addr[HOST_ADDR_MAX];
    char **argv;
    bool meets, killed;
    int output; /* read end of the ranks' standard output; -1: closed */
    int events; /* epoll: standard input, `output` and signals */
    launch_requests requests;
    launch_group *group;
    launch_progress *progress;
    launch_vigil vigil;
    bool frozen, paused; /* frozen: and said so; paused: the ranks are, by the launcher */
    sigset_t of_ranks;
} agent;

/* --- what the launcher says before the start --- */

static weft_status begin(agent *a, const launch_frame *f)
{
    uint32_t attempt = 0;
    if (f->bytes == sizeof attempt)
        memcpy(&attempt, f->text, sizeof attempt);
    if (!f->rank || f->rank > LAUNCH_MAX || f->code > HOSTS_RANKS_MAX || f->from >= f->code ||
        f->rank > f->code - f->from || attempt > ATTEMPTS_MAX)
        return err_fail(WEFT_USAGE, "the launcher asks for ranks %u to %u of %u", f->from,
                        f->from + f->rank - 1, f->code);
    a->spawn.first = f->from;
    a->spawn.count = f->rank;
    a->spawn.ranks = f->code;
    a->spawn.attempt = attempt;
    return WEFT_OK;
}

static weft_status take_job(agent *a, const launch_frame *f)
{
    if (a->job.n + f->bytes > JOB_BYTES_MAX)
        return err_fail(WEFT_USAGE, "the job file that the launcher sends is larger than 16 MiB");
    for (uint32_t i = 0; i < f->bytes; i++)
        *vec_push(&a->job) = f->text[i];
    return WEFT_OK;
}

static weft_status take_key(agent *a, const launch_frame *f)
{
    if (f->bytes != KEY_BYTES || a->spawn.key_fd >= 0)
        return err_fail(WEFT_USAGE, "the launcher sends no job key");
    a->spawn.key_fd = sealed_make("weft-key", f->text, KEY_BYTES);
    return a->spawn.key_fd < 0
               ? err_fail_errno(WEFT_IO, "cannot hold the job key in a sealed memory file")
               : WEFT_OK;
}

static weft_status listen_at(agent *a, const launch_frame *f)
{
    if (!a->spawn.ranks || f->bytes >= sizeof a->addr || a->spawn.store_fd >= 0)
        return err_fail(WEFT_USAGE, "the launcher does not say where to listen");
    memcpy(a->addr, f->text, f->bytes + 1);
    const weft_status st = launch_spawn_listen(&a->spawn, a->addr);
    if (st == WEFT_OK)
        launch_frame_send(&a->link, FRAME_PORT, 0, 0, a->spawn.port, NULL, 0);
    return st;
}

static weft_status take_variable(const launch_frame *f)
{
    const char *is = strchr(f->text, '=');
    char name[128];
    if (!is || is == f->text || (size_t)(is - f->text) >= sizeof name)
        return WEFT_OK;
    memcpy(name, f->text, (size_t)(is - f->text));
    name[is - f->text] = 0;
    setenv(name, is + 1, 1);
    return WEFT_OK;
}

static weft_status meet(agent *a, const launch_frame *f)
{
    if (!a->spawn.ranks || a->words.n < 2 || f->bytes >= sizeof a->addr || f->code > 65535)
        return err_fail(WEFT_USAGE, "the launcher does not say what to start");
    memcpy(a->addr, f->text, f->bytes + 1);
    a->spawn.addr = a->addr;
    a->spawn.port = (uint16_t)f->code;
    a->meets = true;
    return WEFT_OK;
}

static weft_status prepare(agent *a, const launch_frame *f)
{
    switch (f->kind) {
    case FRAME_BEGIN: return begin(a, f);
    case FRAME_ARGUMENT:
        if (a->words.n < WORDS_MAX)
            *vec_push(&a->words) = strdup(f->text);
        return WEFT_OK;
    case FRAME_VARIABLE: return take_variable(f);
    case FRAME_JOB: return take_job(a, f);
    case FRAME_KEY: return take_key(a, f);
    case FRAME_LISTEN: return listen_at(a, f);
    case FRAME_MEET: return meet(a, f);
    case FRAME_KILL: a->killed = true; return WEFT_OK;
    default: return WEFT_OK;
    }
}

/* --- ranks to launcher --- */

static void on_record(void *user, uint32_t rank, const job_control_record *r)
{
    launch_frame_send(&((agent *)user)->link, FRAME_RECORD, rank, r->rank,
                      r->code | (r->kind << 16), r->text, (uint32_t)strnlen(r->text, CONTROL_TEXT));
}

static void send_step(agent *a, uint32_t rank)
{
    const uint64_t step = launch_progress_of(a->progress, rank);
    const int asked = launch_progress_asked(a->progress);
    if (step || asked)
        launch_frame_send(&a->link, FRAME_STEP, rank, 0, (uint32_t)asked, &step, sizeof step);
}

static void ended(void *user, uint32_t rank, const job_control_record *end)
{
    agent *a = user;
    send_step(a, rank);
    launch_frame_send(&a->link, FRAME_ENDED, rank, rank, end->code,
                      end->kind == CONTROL_KILLED ? "K" : "E", 1);
}

static void gone(void *user, uint32_t rank)
{
    send_step(user, rank);
    launch_frame_send(&((agent *)user)->link, FRAME_GONE, rank, 0, 0, NULL, 0);
}

static void relay_output(agent *a)
{
    char text[FRAME_TEXT];
    ssize_t n;
    while (a->output >= 0 && (n = read(a->output, text, sizeof text)) > 0)
        launch_frame_send(&a->link, FRAME_OUTPUT, 0, 0, 0, text, (uint32_t)n);
}

/* --- launcher to ranks --- */

/* The launcher stops too, and this process does not: it must not count that time as silence. */
static void pass_on(agent *a, int number)
{
    launch_group_signal(a->group, number);
    a->paused = number == SIGSTOP || (a->paused && number != SIGCONT);
    a->vigil = (launch_vigil){.margin_ms = LAUNCH_VIGIL_MARGIN_MS};
}

static void obey(agent *a, const launch_frame *f)
{
    const job_control_record end = {
        .kind = *f->text == 'K' ? CONTROL_KILLED : CONTROL_ENDED, .rank = f->rank, .code = f->code};
    if (f->kind == FRAME_SIGNAL && f->code < 64)
        pass_on(a, (int)f->code);
    else if (f->kind == FRAME_TELL)
        launch_group_tell(a->group, &end);
    else if (f->kind == FRAME_KILL)
        launch_group_kill(a->group, f->code);
}

static void receive_launcher(agent *a)
{
    launch_frame f;
    while (launch_frame_receive(&a->link, &f))
        obey(a, &f);
    if (a->link.broken)
        launch_group_kill(a->group, true);
}

/* A signal of this host, such as SIGTERM when it shuts down, asks the job to stop. Pauses come from
 * the launcher. */
static void take_signal(agent *a)
{
    const launch_request wanted = launch_requests_take(&a->requests);
    if (wanted == REQUEST_PASS)
        pass_on(a, a->requests.asked);
    else if (wanted == REQUEST_KILL)
        pass_on(a, SIGKILL); /* their ends are reported, unlike those of launch_group_kill() */
}

/* --- the steps --- */

/* The address of this host that ssh has reached: the third word of SSH_CONNECTION. */
static void say_here(agent *a)
{
    char address[HOST_ADDR_MAX] = "";
    const char *words = getenv("SSH_CONNECTION");
    if (words)
        sscanf(words, "%*60s %*10s %250s", address);
    launch_frame_send(&a->link, FRAME_HERE, 0, 0, FRAME_PROTOCOL, address,
                      (uint32_t)strlen(address));
}

/* False: the launcher has gone or has called it off. */
static bool wait_for_frames(agent *a, weft_status *st)
{
    launch_frame f;
    *st = WEFT_OK;
    while (*st == WEFT_OK && !a->meets && !a->killed && !a->link.broken) {
        struct epoll_event e;
        epoll_wait(a->events, &e, 1, launch_frame_flush(&a->link) ? 10 : -1);
        while (*st == WEFT_OK && !a->meets && launch_frame_receive(&a->link, &f))
            *st = prepare(a, &f);
    }
    explicit_bzero(&f, sizeof f); /* the key */
    explicit_bzero(a->link.part + a->link.have, sizeof a->link.part - a->link.have);
    return a->meets && *st == WEFT_OK;
}

static bool watch(agent *a, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    return !epoll_ctl(a->events, EPOLL_CTL_ADD, fd, &e);
}

static weft_status take_output(agent *a)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) || fcntl(ends[0], F_SETFL, O_NONBLOCK) || !watch(a, ends[0]) ||
        dup2(ends[1], STDOUT_FILENO) < 0)
        return err_fail_errno(WEFT_IO, "no pipe for the output of ranks");
    close(ends[1]);
    a->output = ends[0];
    return WEFT_OK;
}

static weft_status start(agent *a)
{
    a->argv = mem_alloc((a->words.n + 1) * sizeof *a->argv);
    memcpy(a->argv, a->words.at, a->words.n * sizeof *a->argv);
    a->spawn.argv = a->argv;
    weft_status st = WEFT_OK;
    if (a->job.n && (a->spawn.job_fd = sealed_make("weft-job", a->job.at, a->job.n)) < 0)
        st = err_fail_errno(WEFT_IO, "cannot hold the job file in a sealed memory file");
    if (st == WEFT_OK)
        st = launch_progress_open(a->spawn.ranks, &a->progress);
    if (st == WEFT_OK)
        st = take_output(a);
    if (st == WEFT_OK)
        st = launch_requests_open(&a->requests, true);
    if (st == WEFT_OK && !watch(a, a->requests.fd))
        st = err_fail_errno(WEFT_IO, "the agent cannot watch for signals");
    if (st != WEFT_OK)
        return st;
    a->spawn.progress_fd = launch_progress_fd(a->progress);
    sigemptyset(&a->of_ranks);
    job_agreement_add_signals(&a->of_ranks);
    a->spawn.mask = &a->of_ranks;
    return launch_group_start(&a->spawn, &(launch_group_events){a, on_record, ended, gone},
                              &a->group);
}

/* Ranks of other hosts name those of this one, unless they are frozen too. */
static void say_if_frozen(agent *a)
{
    char text[200];
    if (a->frozen || a->paused || !launch_vigil_frozen(&a->vigil, a->progress, text, sizeof text))
        return;
    a->frozen = true;
    launch_frame_send(&a->link, FRAME_FROZEN, 0, 0, 0, text, (uint32_t)strlen(text));
}

static void stand_by(agent *a)
{
    while (launch_group_alive(a->group)) {
        launch_group_wait(a->group, a->events, launch_frame_flush(&a->link) ? 10 : LAUNCH_VIGIL_MS);
        relay_output(a);
        receive_launcher(a);
        take_signal(a);
        say_if_frozen(a);
    }
    relay_output(a);
    for (const uint64_t until = clock_ms() + LEAVE_MS;
         launch_frame_flush(&a->link) && clock_ms() < until;)
        usleep(1000);
}

int launch_agent_run(void)
{
    agent a = {
        .spawn = {.key_fd = -1, .store_fd = -1, .job_fd = -1, .alive_fd = -1, .progress_fd = -1},
        .output = -1,
        .vigil = {.margin_ms = LAUNCH_VIGIL_MARGIN_MS}};
    weft_status st;
    sigset_t pipes; /* blocked here alone: what is ignored would be so in the ranks too */
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipes, NULL);
    signal(SIGCHLD, SIG_DFL);
    launch_frame_open(&a.link, STDIN_FILENO, fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    a.events = epoll_create1(EPOLL_CLOEXEC);
    watch(&a, STDIN_FILENO);
    say_here(&a);
    bool starts = wait_for_frames(&a, &st);
    if (starts)
        st = start(&a);
    if (st != WEFT_OK) {
        launch_frame_send(&a.link, FRAME_FAILED, 0, 0, 0, err_text(),
                          (uint32_t)strnlen(err_text(), FRAME_TEXT));
        if (a.group)
            launch_group_kill(a.group, true);
    }
    if (a.group)
        stand_by(&a);
    launch_group_free(a.group);
    launch_progress_close(a.progress);
    launch_spawn_close(&a.spawn);
    for (uint32_t i = 0; i < a.words.n; i++)
        free(a.words.at[i]);
    free(a.words.at);
    free(a.job.at);
    free(a.argv);
    launch_frame_flush(&a.link);
    const bool received_all = !a.link.broken;
    launch_frame_close(&a.link);
    return st == WEFT_OK && received_all ? 0 : 1;
}
