/* launch/group.c: see group.h. */
#define _GNU_SOURCE
#include "launch/group.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "launch/dying.h"

#define LOOK_MS 250   /* interval of the checks whether ranks write a core dump ... */
#define LOOK_RANKS 64 /* ... ranks per check, in turn */
#define LOOKS 50      /* checks of a rank that may be dying, a millisecond apart */

typedef struct member {
    launch_child child;
    bool hung;      /* it has closed its control socket */
    bool ended;     /* its end has been reported */
    uint32_t looks; /* remaining checks whether it is dying */
} member;

struct launch_group {
    launch_group_events to;
    uint32_t first, n, alive; /* n: that have been started */
    bool killed;
    member *at;           /* [n], rank `first` and so on */
    struct pollfd *polls; /* 0: own; 1: alive; then per rank: pidfd, control socket */
    launch_dying *watch;
    uint32_t looks_left; /* a millisecond each */
    uint32_t next_look;  /* the rank that is checked next */
    uint64_t look_at;
};

uint32_t launch_group_alive(const launch_group *g)
{
    return g->alive;
}

void launch_group_tell(launch_group *g, const job_control_record *r)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->at[i].child.pidfd >= 0 && g->first + i != r->rank)
            job_control_send(g->at[i].child.control, r->kind, r->rank, r->code, r->text);
}

void launch_group_signal(launch_group *g, int number)
{
    const bool alone = number == SIGUSR1 || number == SIGXCPU;
    for (uint32_t i = 0; i < g->n; i++)
        if (g->at[i].child.pid > 0)
            kill(alone ? g->at[i].child.pid : -g->at[i].child.pid, number);
}

void launch_group_kill(launch_group *g, bool at_once)
{
    g->killed = true;
    for (uint32_t i = 0; i < g->n; i++)
        if (g->at[i].child.pid > 0 && (at_once || !g->at[i].ended))
            kill(-g->at[i].child.pid, SIGKILL);
}

/* --- what ranks say and how they end --- */

static void receive(launch_group *g, uint32_t i)
{
    job_control_record r;
    while (g->at[i].child.control >= 0 && job_control_receive(g->at[i].child.control, &r) > 0)
        g->to.on_record(g->to.user, g->first + i, &r);
}

static void report_end(launch_group *g, uint32_t i, const job_control_record *end)
{
    if (g->killed || g->at[i].ended)
        return;
    g->at[i].ended = true;
    g->to.ended(g->to.user, g->first + i, end);
}

static void on_end(launch_group *g, uint32_t i)
{
    member *m = &g->at[i];
    siginfo_t info = {0};
    receive(g, i);
    kill(-m->child.pid, SIGKILL); /* ends its child processes too */
    waitid(P_PIDFD, (id_t)m->child.pidfd, &info, WEXITED);
    close(m->child.pidfd);
    close(m->child.control);
    m->child = (launch_child){.pid = -1, .pidfd = -1, .control = -1};
    g->alive--;
    const job_control_record end = {.kind =
                                        info.si_code == CLD_EXITED ? CONTROL_ENDED : CONTROL_KILLED,
                                    .rank = g->first + i,
                                    .code = (uint32_t)info.si_status};
    report_end(g, i, &end);
    g->to.gone(g->to.user, g->first + i);
}

static void look_at_one(launch_group *g, uint32_t i)
{
    const member *m = &g->at[i];
    job_control_record end = {.rank = g->first + i};
    if (m->child.pidfd < 0 || m->ended || g->killed || !launch_dying_how(m->child.pid, &end))
        return;
    receive(g, i);
    report_end(g, i, &end);
}

/* The kernel reports how a rank dies before it has freed the rank's memory (dying.h). */
static void look_at_dying(launch_group *g)
{
    uint32_t rank;
    while (launch_dying_take(g->watch, &rank))
        g->looks_left = g->at[rank - g->first].looks = LOOKS;
    if (!g->looks_left)
        return;
    g->looks_left--;
    for (uint32_t i = 0; i < g->n; i++) {
        if (!g->at[i].looks)
            continue;
        g->at[i].looks--;
        look_at_one(g, i);
    }
}

/* A rank that writes a core dump sends no heartbeat, and would be taken for frozen. */
static void look_for_dumps(launch_group *g, uint64_t now)
{
    if (g->killed || !g->n || now < g->look_at)
        return;
    g->look_at = now + LOOK_MS;
    const uint32_t n = g->n < LOOK_RANKS ? g->n : LOOK_RANKS;
    for (uint32_t i = 0; i < n; i++, g->next_look++) {
        g->next_look %= g->n;
        look_at_one(g, g->next_look);
    }
}

/* --- the loop --- */

static int wait_time(const launch_group *g, int ms)
{
    const uint64_t now = clock_ms();
    if (g->looks_left)
        return 1;
    if (g->killed)
        return ms;
    const int look = g->look_at > now ? (int)(g->look_at - now) : 0;
    return ms < 0 || look < ms ? look : ms;
}

bool launch_group_wait(launch_group *g, int own, int ms)
{
    struct pollfd *p = g->polls;
    p[0] = (struct pollfd){.fd = own, .events = POLLIN};
    p[1] = (struct pollfd){.fd = launch_dying_fd(g->watch), .events = POLLIN};
    for (uint32_t i = 0; i < g->n; i++) {
        const launch_child *c = &g->at[i].child;
        p[2 + 2 * i] = (struct pollfd){.fd = c->pidfd, .events = POLLIN};
        p[3 + 2 * i] = (struct pollfd){.fd = g->at[i].hung ? -1 : c->control, .events = POLLIN};
    }
    if (poll(p, 2 + 2 * (nfds_t)g->n, wait_time(g, ms)) < 0)
        return false;
    for (uint32_t i = 0; i < g->n; i++) {
        if (p[3 + 2 * i].revents & POLLIN)
            receive(g, i);
        g->at[i].hung |= (p[3 + 2 * i].revents & POLLHUP) != 0;
        if (p[2 + 2 * i].revents)
            on_end(g, i);
    }
    look_at_dying(g);
    look_for_dumps(g, clock_ms());
    return p[0].revents != 0;
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

weft_status launch_group_start(launch_spawn *s, const launch_group_events *e, launch_group **out)
{
    launch_group *g = mem_alloc(sizeof *g);
    *g = (launch_group){.to = *e, .first = s->first};
    *out = g;
    g->at = mem_alloc(s->count * sizeof *g->at);
    g->polls = mem_alloc((2 + 2 * (uint64_t)s->count) * sizeof *g->polls);
    raise_limit(s->count);
    g->watch = s->ranks > 1 ? launch_dying_open(s->ranks, s->first, s->count) : NULL;
    s->alive_fd = launch_dying_page(g->watch);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < s->count; i++) {
        if (st == WEFT_OK) {
            st = launch_spawn_rank(s, s->first + i, &g->at[i].child);
            g->n++;
        }
        g->alive += st == WEFT_OK;
        if (st != WEFT_OK)
            e->gone(e->user, s->first + i);
    }
    launch_dying_begin(g->watch);
    launch_spawn_close(s); /* only the ranks hold them now */
    return st;
}

/* A rank that was started but cannot be watched has to be reaped. */
void launch_group_free(launch_group *g)
{
    if (!g)
        return;
    for (uint32_t i = 0; i < g->n; i++) {
        if (g->at[i].child.pid <= 0)
            continue;
        kill(-g->at[i].child.pid, SIGKILL);
        waitpid(g->at[i].child.pid, NULL, 0);
    }
    launch_dying_close(g->watch);
    free(g->at);
    free(g->polls);
    free(g);
}
