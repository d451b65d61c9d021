/* launch/hosts/hosts.c: see hosts.h. */
#define _GNU_SOURCE
#include "launch/hosts/hosts.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time/pressure.h"
#include "config/source.h"
#include "job/decide/agreement.h"
#include "job/stop.h"
#include "job/wire/endpoint.h"
#include "job/wire/key.h"
#include "launch/hosts/ssh.h"
#include "launch/requests.h"

#define ANSWER_MS 60000 /* for all agents to answer */
#define LEAVE_MS 5000   /* for an agent to end when its ranks have, for ssh when its agent has */

typedef struct remote { /* a host with ranks */
    launch_host *host;
    launch_ssh ssh;
    bool here;         /* its agent has answered */
    uint32_t alive;    /* ranks that are not gone */
    uint64_t leave_at; /* ssh is killed then, since its output was closed; 0: it was not */
    char addr[HOST_ADDR_MAX];
} remote;

typedef struct hosts {
    const launch_hosts_args *args;
    launch_hosts_end *end;
    launch_outcome *outcome;
    launch_requests requests;
    int asked;              /* the signal that ranks got */
    uint32_t n, here, open; /* here: agents that have answered; open: ssh processes */
    remote *at;             /* [n], in the order of their ranks */
    struct pollfd *polls;   /* 0: signals; then per host: pidfd, link in, link out */
    bool *gone;             /* [ranks] */
    uint8_t *key;
    bool met;    /* the ranks are started */
    bool failed; /* before that: why has been printed */
    uint64_t began, kill_at;
} hosts;

static void send_all(hosts *h, uint32_t kind, uint32_t rank, uint32_t code, const char *text)
{
    for (uint32_t i = 0; i < h->n; i++)
        launch_frame_send(&h->at[i].ssh.link, kind, 0, rank, code, text, (uint32_t)strlen(text));
}

static void kill_all(hosts *h, bool at_once)
{
    launch_outcome_killed(h->outcome, false);
    send_all(h, FRAME_KILL, 0, at_once, "");
    h->kill_at = h->kill_at ? h->kill_at : pressure_ms() + LEAVE_MS;
}

/* The job cannot be started. */
static void refuse(hosts *h, const remote *r, const char *why)
{
    if (!h->failed)
        log_line(WEFT_LOG_ERROR, "host %s, line %u of --hosts: %s", r->host->name, r->host->line,
                 why);
    h->failed = true;
    kill_all(h, true);
}

static void mark_lost(hosts *h, remote *r)
{
    h->end->lost += !r->host->lost;
    r->host->lost = true;
}

/* Ranks cannot be started there. In the first attempt the user has to look at it; later ones, which
 * nobody may be watching, go on without the host. */
static void give_up(hosts *h, remote *r, const char *why)
{
    if (h->args->attempt == 1) {
        refuse(h, r, why);
        return;
    }
    if (!r->host->lost)
        log_line(WEFT_LOG_ERROR, "host %s is lost: %s", r->host->name, why);
    mark_lost(h, r);
    h->failed = true;
    kill_all(h, true);
}

/* --- the start --- */

/* Variables that the ranks get from here; ssh passes none. */
static bool is_passed(const char *setting)
{
    static const char *const begins[] = {"WEFT_", "UCX_", "NCCL_", "OMPI_MCA_"};
    static const char *const ours[] = {
        "WEFT_KEY_FD=",   "WEFT_CONTROL_FD=",  "WEFT_STORE_FD=", "WEFT_JOB_FD=",
        "WEFT_ALIVE_FD=", "WEFT_PROGRESS_FD=", "WEFT_ATTEMPT="};
    bool passed = false;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        passed |= !strncmp(setting, begins[i], strlen(begins[i]));
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        passed &= strncmp(setting, ours[i], strlen(ours[i])) != 0;
    return passed && strlen(setting) <= FRAME_TEXT;
}

static void send_job(remote *r)
{
    char part[FRAME_TEXT];
    const int fd = config_source_descriptor();
    ssize_t n;
    for (off_t at = 0; fd >= 0 && (n = pread(fd, part, sizeof part, at)) > 0; at += n)
        launch_frame_send(&r->ssh.link, FRAME_JOB, 0, 0, 0, part, (uint32_t)n);
}

/* What a host has to know; rank 0's also where to listen. */
static void brief(hosts *h, remote *r)
{
    launch_frame_link *l = &r->ssh.link;
    const launch_hosts_args *a = h->args;
    launch_frame_send(l, FRAME_BEGIN, r->host->first, r->host->count, a->ranks, &a->attempt,
                      sizeof a->attempt);
    for (uint32_t i = 0; a->argv[i]; i++)
        launch_frame_send(l, FRAME_ARGUMENT, 0, 0, 0, a->argv[i], (uint32_t)strlen(a->argv[i]));
    for (char **e = environ; *e; e++)
        if (is_passed(*e))
            launch_frame_send(l, FRAME_VARIABLE, 0, 0, 0, *e, (uint32_t)strlen(*e));
    send_job(r);
    launch_frame_send(l, FRAME_KEY, 0, 0, 0, h->key, KEY_BYTES);
}

/* All agents have answered: rank 0's opens the port. */
static void choose_meeting(hosts *h)
{
    remote *r = &h->at[0];
    if (*r->host->addr || !*r->addr)
        snprintf(r->addr, sizeof r->addr, "%s", *r->host->addr ? r->host->addr : "127.0.0.1");
    for (uint32_t i = 1; i < h->n && job_endpoint_says_loopback(r->addr); i++)
        if (*h->at[i].addr && !job_endpoint_says_loopback(h->at[i].addr)) {
            char why[1024];
            snprintf(why, sizeof why,
                     "rank 0 runs there, at the loopback address %s, which host %s cannot reach: "
                     "name it as other hosts do, or write addr=ADDRESS behind it",
                     r->addr, h->at[i].host->name);
            refuse(h, r, why);
            return;
        }
    launch_frame_send(&r->ssh.link, FRAME_LISTEN, 0, 0, 0, r->addr, (uint32_t)strlen(r->addr));
}

static void on_here(hosts *h, remote *r, const launch_frame *f)
{
    char why[128];
    if (f->code != FRAME_PROTOCOL || f->bytes >= sizeof r->addr || r->here) {
        snprintf(why, sizeof why, "its weft speaks version %u of the agent's protocol, not %u",
                 f->code, FRAME_PROTOCOL);
        refuse(h, r, why);
        return;
    }
    r->here = true;
    memcpy(r->addr, f->text, f->bytes + 1);
    brief(h, r);
    if (++h->here == h->n && !h->failed)
        choose_meeting(h);
}

/* --- frames of agents --- */

static void on_record(hosts *h, uint32_t rank, const launch_frame *f)
{
    job_control_record c = {.kind = f->code >> 16, .rank = f->rank, .code = f->code & 0xffff};
    snprintf(c.text, sizeof c.text, "%.*s", CONTROL_TEXT - 1, f->text);
    launch_outcome_receive(h->outcome, rank, &c);
}

static void on_ended(hosts *h, uint32_t rank, const launch_frame *f)
{
    const job_control_record end = {
        .kind = *f->text == 'K' ? CONTROL_KILLED : CONTROL_ENDED, .rank = rank, .code = f->code};
    if (launch_outcome_end(h->outcome, rank, &end))
        send_all(h, FRAME_TELL, rank, f->code, end.kind == CONTROL_KILLED ? "K" : "E");
}

static void on_gone(hosts *h, remote *r, uint32_t rank)
{
    r->alive -= !h->gone[rank];
    h->gone[rank] = true;
    launch_outcome_gone(h->outcome, rank);
}

static void write_output(const char *text, uint32_t bytes)
{
    while (bytes) {
        const ssize_t n = write(STDOUT_FILENO, text, bytes);
        if (n > 0) {
            text += n;
            bytes -= (uint32_t)n;
        } else if (n < 0 && errno == EAGAIN) { /* whoever shares it has made it so */
            poll(&(struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT}, 1, -1);
        } else if (n == 0 || errno != EINTR) {
            return;
        }
    }
}

static void on_step(hosts *h, const launch_frame *f)
{
    if (f->bytes == sizeof(uint64_t) && h->args->steps)
        memcpy(&h->args->steps[f->from], f->text, sizeof(uint64_t));
    if (!h->asked && f->code < NSIG)
        h->asked = (int)f->code;
}

/* A frame about a rank: `from` is one of the host's. */
static void on_rank(hosts *h, remote *r, const launch_frame *f)
{
    if (f->from - r->host->first >= r->host->count)
        return;
    if (f->kind == FRAME_RECORD)
        on_record(h, f->from, f);
    else if (f->kind == FRAME_ENDED)
        on_ended(h, f->from, f);
    else if (f->kind == FRAME_GONE)
        on_gone(h, r, f->from);
    else if (f->kind == FRAME_STEP)
        on_step(h, f);
}

static void on_frame(hosts *h, remote *r, const launch_frame *f)
{
    if (f->kind == FRAME_HERE) {
        on_here(h, r, f);
    } else if (f->kind == FRAME_PORT && r == &h->at[0] && !h->met && !h->failed) {
        h->met = true;
        send_all(h, FRAME_MEET, 0, f->code, r->addr);
    } else if (f->kind == FRAME_OUTPUT) {
        write_output(f->text, f->bytes);
    } else if (f->kind == FRAME_FROZEN && h->met) {
        launch_outcome_frozen(h->outcome, f->text);
    } else if (f->kind == FRAME_FAILED) {
        give_up(h, r, f->text);
    } else {
        on_rank(h, r, f);
    }
}

/* --- hosts that end --- */

static void lose(hosts *h, remote *r, const char *how)
{
    char why[768];
    const uint32_t first = r->host->first, last = first + r->host->count - 1;
    snprintf(why, sizeof why, "host %s is lost with rank%s %u", r->host->name,
             first == last ? "" : "s", first);
    if (first != last)
        snprintf(why + strlen(why), sizeof why - strlen(why), " to %u", last);
    snprintf(why + strlen(why), sizeof why - strlen(why), ": %s", how);
    for (uint32_t rank = first; rank <= last; rank++)
        if (!h->gone[rank])
            launch_outcome_lost(h->outcome, rank, why);
    mark_lost(h, r);
}

/* Its ssh has ended, or is about to. */
static void drop(hosts *h, remote *r, const char *how)
{
    if (r->host->lost || launch_outcome_is_killed(h->outcome))
        return;
    if (!h->met)
        give_up(h, r, how);
    else if (r->alive)
        lose(h, r, how);
}

/* What came is no frame: what the remote shell printed, before the first one. */
static void on_alien(hosts *h, remote *r)
{
    char how[256];
    const char *text = r->ssh.link.part, *end = text + r->ssh.link.have;
    while (text < end && (*text == '\n' || *text == '\r'))
        text++;
    int n = 0;
    while (text + n < end && text[n] >= ' ' && text[n] <= '~')
        n++;
    if (r->here)
        snprintf(how, sizeof how, "what came through its ssh is not from weft's agent");
    else
        snprintf(how, sizeof how,
                 "its remote shell wrote text of its own before weft began (\"%.*s\"): make "
                 "~/.bashrc there silent for shells that are not interactive",
                 n, text);
    drop(h, r, how);
    kill(-r->ssh.pid, SIGKILL);
}

static void receive(hosts *h, remote *r)
{
    launch_frame f;
    while (launch_frame_receive(&r->ssh.link, &f))
        on_frame(h, r, &f);
    if (r->ssh.link.alien)
        on_alien(h, r);
    else if (r->ssh.link.broken && !r->leave_at)
        r->leave_at = pressure_ms() + LEAVE_MS;
}

static void on_ssh_end(hosts *h, remote *r)
{
    char how[512];
    receive(h, r);
    launch_ssh_end(&r->ssh);
    h->open--;
    launch_ssh_describe(&r->ssh, r->host->name, how, sizeof how);
    drop(h, r, how);
    for (uint32_t rank = r->host->first; rank < r->host->first + r->host->count; rank++)
        on_gone(h, r, rank);
}

/* --- the loop --- */

/* Stop the job's ranks, then this process; the frames have to be out before. */
static void pause_all(hosts *h)
{
    send_all(h, FRAME_SIGNAL, 0, SIGSTOP, "");
    usleep(50000);
    for (uint32_t i = 0; i < h->n; i++)
        launch_frame_flush(&h->at[i].ssh.link);
    launch_requests_pause();
    send_all(h, FRAME_SIGNAL, 0, SIGCONT, "");
}

static void on_signal(hosts *h)
{
    switch (launch_requests_take(&h->requests)) {
    case REQUEST_PAUSE: pause_all(h); break;
    case REQUEST_KILL:
        launch_outcome_killed(h->outcome, true);
        kill_all(h, true);
        break;
    case REQUEST_PASS:
        if (h->met)
            send_all(h, FRAME_SIGNAL, 0, (uint32_t)h->requests.asked, "");
        else
            kill_all(h, true);
        break;
    case REQUEST_NONE: break;
    }
}

/* Agents have not ended in time. One that has not even said that its ranks are gone is on a host
 * that is lost. */
static void leave(hosts *h, uint64_t now)
{
    for (uint32_t i = 0; i < h->n; i++) {
        remote *r = &h->at[i];
        if (r->ssh.pid <= 0)
            continue;
        if (h->met && r->alive && !r->host->lost) {
            log_line(WEFT_LOG_ERROR, "host %s is lost: it does not answer", r->host->name);
            mark_lost(h, r);
        }
        kill(-r->ssh.pid, SIGKILL);
    }
    h->kill_at = now + LEAVE_MS;
}

/* Agents that do not answer, or do not end. */
static void look_at_time(hosts *h, uint64_t now)
{
    const bool late = !h->met && !h->failed && !h->kill_at && now > h->began + ANSWER_MS;
    for (uint32_t i = 0; late && i < h->n; i++)
        if (!h->at[i].here)
            give_up(h, &h->at[i], "ssh has not started weft there for 60 s");
    for (uint32_t i = 0; i < h->n; i++)
        if (h->at[i].leave_at && now >= h->at[i].leave_at && h->at[i].ssh.pid > 0) {
            drop(h, &h->at[i], "its agent has ended, and its ssh does not end");
            kill(-h->at[i].ssh.pid, SIGKILL);
        }
    if (launch_outcome_due(h->outcome, now))
        kill_all(h, false);
    if (h->kill_at && now >= h->kill_at)
        leave(h, now);
}

static int wait_time(const hosts *h, uint64_t now)
{
    const int decision = launch_outcome_wait(h->outcome, now);
    bool looks = !h->met || h->kill_at;
    for (uint32_t i = 0; i < h->n && !looks; i++)
        looks = h->at[i].leave_at && h->at[i].ssh.pid > 0;
    const int max = looks ? 100 : -1;
    return max < 0 || (decision >= 0 && decision < max) ? decision : max;
}

static void stand_by(hosts *h)
{
    while (h->open) {
        struct pollfd *p = h->polls;
        p[0] = (struct pollfd){.fd = h->requests.fd, .events = POLLIN};
        for (uint32_t i = 0; i < h->n; i++) {
            const launch_ssh *s = &h->at[i].ssh;
            const bool writes = s->link.queued > s->link.sent && !s->link.deaf;
            p[1 + 3 * i] = (struct pollfd){.fd = s->pidfd, .events = POLLIN};
            p[2 + 3 * i] =
                (struct pollfd){.fd = s->link.broken ? -1 : s->link.in, .events = POLLIN};
            p[3 + 3 * i] = (struct pollfd){.fd = writes ? s->link.out : -1, .events = POLLOUT};
        }
        poll(p, 1 + 3 * (nfds_t)h->n, wait_time(h, pressure_ms()));
        if (p[0].revents & POLLIN)
            on_signal(h);
        for (uint32_t i = 0; i < h->n; i++) {
            if (p[3 + 3 * i].revents)
                launch_frame_flush(&h->at[i].ssh.link);
            if (p[2 + 3 * i].revents)
                receive(h, &h->at[i]);
            if (p[1 + 3 * i].revents)
                on_ssh_end(h, &h->at[i]);
        }
        look_at_time(h, pressure_ms());
    }
}

/* --- start and end --- */

static weft_status open_hosts(hosts *h)
{
    launch_host_list *l = h->args->hosts;
    launch_host_list_assign(l, h->args->ranks);
    h->at = mem_alloc(l->n * sizeof *h->at);
    h->polls = mem_alloc((1 + 3 * (uint64_t)l->n) * sizeof *h->polls);
    h->gone = mem_alloc(h->args->ranks * sizeof *h->gone);
    weft_status st = launch_requests_open(&h->requests, h->args->stops);
    if (st == WEFT_OK)
        st = job_key_random(h->key, KEY_BYTES);
    for (uint32_t i = 0; st == WEFT_OK && i < l->n; i++) {
        if (!l->at[i].count)
            continue;
        remote *r = &h->at[h->n++];
        *r = (remote){.host = &l->at[i], .alive = l->at[i].count};
        for (uint32_t k = 0; k < r->host->count; k++)
            launch_outcome_place(h->outcome, r->host->first + k, r->host->name);
        st = launch_ssh_start(h->args->ssh, r->host->name, &r->ssh);
        h->open += r->ssh.pidfd >= 0;
    }
    return st;
}

static void conclude(hosts *h, weft_status st)
{
    launch_end *end = &h->end->launch;
    if (st == WEFT_OK && h->met && !h->failed) {
        launch_outcome_conclude(h->outcome, h->requests.asked, h->asked, end);
        return;
    }
    *end = (launch_end){.status = st == WEFT_USAGE ? 2 : 1};
    end->failed = h->end->lost && !h->requests.asked;
    snprintf(end->why, sizeof end->why, "a host was lost before the ranks began");
    if (st != WEFT_OK)
        log_line(WEFT_LOG_ERROR, "%s", err_text());
    else if (h->requests.asked && !h->failed)
        log_line(WEFT_LOG_ERROR, "the job was stopped by signal %d before its ranks began",
                 h->requests.asked);
    if (job_agreement_asks(h->requests.asked))
        end->status = STOP_STATUS;
}

void launch_on_hosts(const launch_hosts_args *args, launch_hosts_end *out)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN}, before;
    *out = (launch_hosts_end){.launch.status = 1};
    hosts h = {.args = args,
               .end = out,
               .outcome = launch_outcome_new(args->ranks),
               .requests = {.fd = -1},
               .key = job_key_alloc(),
               .began = pressure_ms()};
    sigaction(SIGPIPE, &ignored, &before); /* an agent may end while it is written to */
    const weft_status st = open_hosts(&h);
    if (st != WEFT_OK)
        kill_all(&h, true);
    stand_by(&h);
    conclude(&h, st);
    for (uint32_t i = 0; i < h.n; i++)
        launch_ssh_end(&h.at[i].ssh);
    free(h.at);
    free(h.polls);
    free(h.gone);
    job_key_free(h.key);
    launch_outcome_free(h.outcome);
    launch_requests_close(&h.requests);
    sigaction(SIGPIPE, &before, NULL);
}
