/* host/watch.c: the watchdog.
 *
 * A plugin that does not return from a call would stop its rank without a word. One thread of each
 * process that has a host looks for such calls. Each thread that calls plugins has a slot (call.h),
 * a stack of its calls in progress, each with a number that is never used again. The watchdog looks
 * at all slots several times within the shortest deadline: a number that it sees again is a call
 * that lasts. So only the watchdog reads the clock, and a call costs a few stores
 * (bench/overhead/calls.c).
 *
 * 1. A tick adds the time since the last one to each call that is still there. A gap counts as at
 *    most a few ticks: a process that was stopped, by a debugger or a signal, was not slow. For a
 *    call that lasts, time in which its thread could run and others had the cores counts a quarter
 *    (base/time/took.h).
 * 2. The deadline depends on the member: calls that open, connect, prepare or close something may
 *    take long for a good reason (run.setup_deadline); all others may not (run.call_deadline).
 * 3. At a site, to which a thread comes again and again, the deadline follows from the longest call
 *    there so far, once it has been seen often enough: WATCH_TIMES times that, run.stuck_after at
 *    least, run.call_deadline at most. Only calls that a look has met are measured, by the same
 *    clock as the deadline; the others are far below run.stuck_after. At a site the core's own
 *    calls have this deadline, too, and a moment more: a plugin that holds them up is named first.
 * 4. Where calls nest, all of them last. The watchdog names the innermost one of a plugin, unless
 *    it is young: then the outer plugin calls in an endless loop.
 * 5. The end is that of a failed rank: the reporter (job/leave.c) tells rank 0 and the launcher,
 *    and the process exits with status 1. Nothing is closed, since closing would wait for the call.
 *
 * A call is noticed up to a tick late. Threads that a plugin starts are not watched. */
#define _GNU_SOURCE
#include "host/watch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "host/call.h"

#define TICK_LEAST_MS 10u
#define TICK_MAX_MS 500u
#define TICKS 10u /* within the shortest deadline */
#define TICKS_AT_SITES 50u
#define LASTS_MS 200u /* a call, before its thread is looked at */
#define GAP 4u        /* ticks that a gap counts as at most */
#define MOMENT 3u     /* ticks: see 3. above */

/* Members that plan: with them a plugin may hold run.planning_mb. */
static const char *const planning[] = {"update", "edit",  "grad", "shard", "infer",
                                       "query",  "flops", "fuse", "probe"};

/* Members that may take long; see 2. above. */
static const char *const slow[] = {
    "open",    "close",  "arena",    "host_memory",       "stream",     "event",      "prepare",
    "release", "create", "destroy",  "register_memory",   "key",        "map",        "connect",
    "ready",   "id",     "describe", "deregister_memory", "disconnect", "import_peer"};

static struct watch {
    pthread_mutex_t gate; /* held by begin, end and fork */
    pthread_mutex_t lock; /* of the members below */
    pthread_cond_t moved;
    host_thread_calls *slots;
    uint64_t call_ms, setup_ms; /* 0: no deadline */
    uint64_t stuck_ms;          /* at sites, at least; 0: the same as elsewhere */
    uint32_t sites;             /* blocks of them */
    host_watch_whereabouts *say;
    const void *ctx;        /* of say() */
    _Atomic uint64_t bytes; /* of planning */
    bool stop;
    host_watch_reporter *reporter;
    uint32_t users; /* under the gate */
    bool running;
    pthread_t thread;
} watch = {.gate = PTHREAD_MUTEX_INITIALIZER,
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .call_ms = 60000,
           .setup_ms = 300000,
           .bytes = UINT64_MAX};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_thread_end;

/* --- slots --- */

static void forget_slot(void *slot)
{
    host_thread_calls *s = slot;
    pthread_mutex_lock(&watch.lock);
    host_thread_calls **at = &watch.slots;
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at)
        *at = s->next;
    s->listed = false;
    pthread_mutex_unlock(&watch.lock);
}

static void before_fork(void)
{
    pthread_mutex_lock(&watch.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&watch.lock);
}

/* Only the thread that forked is left. */
static void in_child(void)
{
    pthread_mutex_unlock(&watch.lock);
    pthread_mutex_init(&watch.gate, NULL);
    watch.slots = host_call_slot.listed ? &host_call_slot : NULL;
    host_call_slot.next = NULL;
    host_call_slot.tid = gettid();
    host_call_slot.looked = false;
    watch.users = 0;
    watch.running = false;
}

static void prepare(void)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watch.moved, &attr);
    pthread_condattr_destroy(&attr);
    pthread_key_create(&at_thread_end, forget_slot);
    pthread_atfork(before_fork, after_fork, in_child);
}

void host_watch_add(void)
{
    host_thread_calls *s = &host_call_slot;
    pthread_once(&once, prepare);
    pthread_setspecific(at_thread_end, s);
    pthread_mutex_lock(&watch.lock);
    s->next = watch.slots;
    s->tid = gettid();
    s->looked = false;
    watch.slots = s;
    s->listed = true;
    pthread_mutex_unlock(&watch.lock);
}

/* --- sites --- */

host_call_site *host_sites_new(uint32_t n)
{
    host_call_site *sites = mem_alloc(((uint64_t)n + 1) * sizeof *sites);
    sites->longest_ms = n; /* the first one is ours */
    pthread_mutex_lock(&watch.lock);
    watch.sites++;
    pthread_cond_signal(&watch.moved); /* shorter ticks */
    pthread_mutex_unlock(&watch.lock);
    return sites + 1;
}

void host_sites_free(host_call_site *sites)
{
    if (!sites)
        return;
    const uintptr_t first = (uintptr_t)sites, end = (uintptr_t)(sites + sites[-1].longest_ms);
    pthread_mutex_lock(&watch.lock);
    for (host_thread_calls *s = watch.slots; s; s = s->next) {
        const uintptr_t at = (uintptr_t)atomic_load_explicit(&s->site, memory_order_relaxed);
        if (at >= first && at < end)
            atomic_store_explicit(&s->site, NULL, memory_order_relaxed);
        for (uint32_t i = 0; i < CALL_DEPTH; i++)
            if ((uintptr_t)s->frame[i].site >= first && (uintptr_t)s->frame[i].site < end)
                s->frame[i].site = NULL;
    }
    watch.sites--;
    pthread_mutex_unlock(&watch.lock);
    free(sites - 1);
}

void host_watch_place(host_watch_whereabouts *say, const void *ctx)
{
    pthread_mutex_lock(&watch.lock);
    watch.say = say;
    watch.ctx = ctx;
    pthread_mutex_unlock(&watch.lock);
}

/* --- looking --- */

static bool is_in(const char *const *list, size_t n, const char *call)
{
    while (n > 0 && strcmp(call, list[n - 1]) != 0)
        n--;
    return n > 0;
}

static bool is_slow(const char *call)
{
    return is_in(slow, sizeof slow / sizeof *slow, call);
}

/* A call as the watchdog has read it, whole. It began and ended between two looks: in the middle.
 */
typedef struct looked {
    const void *key;
    const char *call;
    const host_call_site *site; /* NULL: none */
    uint64_t ms;                /* so far */
    uint64_t max;               /* its deadline; 0: none */
    const char *because;        /* the option that says so */
} looked;

static void set_deadline(looked *l)
{
    const bool often = l->site && !call_site_is_new(l->site);
    l->max = is_slow(l->call) ? watch.setup_ms : watch.call_ms;
    l->because = is_slow(l->call) ? "run.setup_deadline" : "run.call_deadline";
    if (!often || !watch.stuck_ms || !watch.call_ms || is_slow(l->call))
        return;
    uint64_t max = (uint64_t)WATCH_TIMES * l->site->longest_ms;
    max = max > watch.stuck_ms ? max : watch.stuck_ms;
    if (max >= watch.call_ms)
        return;
    l->max = max;
    l->because = "run.stuck_after";
}

/* The milliseconds of a gap that count for the calls of a thread: see 1. above. */
static uint64_t counted(host_thread_calls *s, uint64_t gap)
{
    const uint64_t number = atomic_load_explicit(&s->frame[0].number, memory_order_relaxed);
    const took_thread before = s->took;
    const bool lasts = number && number == s->frame[0].seen && s->frame[0].ms >= LASTS_MS;
    const bool again = lasts && s->looked;
    s->looked = lasts && took_look(s->tid, &s->took);
    return again && s->looked ? took_between(&before, &s->took, gap * 1000000) / 1000000 : gap;
}

static looked look_at(host_thread_calls *s, uint32_t depth, uint64_t gap)
{
    host_call_frame *f = &s->frame[depth];
    const host_call_read read = call_read_frame(s, depth);
    const looked none = {0};
    const bool same = read.number && read.number == f->seen;
    const uint64_t took = f->ms + gap / 2;
    if (!same && f->seen && f->site && took > f->site->longest_ms)
        f->site->longest_ms = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
    f->ms = same ? f->ms + gap : gap / 2;
    f->seen = read.number;
    f->site = read.site;
    if (!read.number)
        return none;
    looked l = {.key = read.key, .call = read.call, .site = read.site, .ms = f->ms};
    set_deadline(&l);
    return l;
}

/* "; it took 0.2 s at most here before", or nothing. */
static void say_before(const looked *l, char *out, size_t size)
{
    out[0] = 0;
    if (l->site && l->site->longest_ms)
        snprintf(out, size, "; such a call took up to %.2g s here before",
                 (double)l->site->longest_ms / 1000);
}

/* The sentence about the call that is to blame, of those that lie within one that is too late. */
static bool blame(const looked *l, uint32_t n, uint64_t age, char *out, size_t size)
{
    char who[1200], before[64];
    for (uint32_t i = n; i-- > 0;) {
        if (l[i].ms * 2 < age || !host_call_describe(l[i].key, l[i].call, who, sizeof who))
            continue;
        say_before(&l[i], before, sizeof before);
        snprintf(out, size,
                 "%s does not return: %.4g s have passed, all that %s allows%s; the plugin hangs "
                 "or is too slow: report it to its author, use another one, or set %s higher (0: "
                 "no limit, for a debugger)",
                 who, (double)(l[i].max ? l[i].max : age) / 1000, l[i].because, before,
                 l[i].because);
        return true;
    }
    return false;
}

/* No plugin is to blame: the core itself, or who holds its thread. */
static bool blame_core(const looked *l, uint64_t moment, char *out, size_t size)
{
    if (!l->site || !l->max || l->ms < l->max + moment)
        return false;
    snprintf(out, size,
             "its thread does not move: %.4g s have passed, all that %s allows, and it is in no "
             "call of a plugin; something holds the thread (a debugger, a file system that does "
             "not answer), or this is an error of weft: set %s to 0 and look with gdb -p",
             (double)l->max / 1000, l->because, l->because);
    return true;
}

static bool is_late(host_thread_calls *s, uint64_t gap, uint64_t tick, char *text, size_t size)
{
    looked l[CALL_DEPTH];
    uint32_t n = 0;
    const looked *late = NULL; /* the outermost call that is too late */
    gap = counted(s, gap);
    for (; n < CALL_DEPTH; n++) {
        l[n] = look_at(s, n, gap);
        if (!s->frame[n].seen)
            break;
        if (!late && l[n].max && l[n].ms >= l[n].max)
            late = &l[n];
    }
    if (!late)
        return false;
    char where[400] = "";
    if (!late->site || !watch.say || !watch.say(watch.ctx, late->site, where, sizeof where))
        where[0] = 0;
    const size_t at = strlen(where);
    const int put = snprintf(text, size, "%s%s", where, at ? ": " : "");
    return blame(l, n, late->ms, text + put, size - (size_t)put) ||
           blame_core(late, MOMENT * tick, text + put, size - (size_t)put);
}

static uint64_t tick_ms(void)
{
    const uint64_t a = watch.call_ms, b = watch.setup_ms;
    const uint64_t least = !a || (b && b < a) ? b : a;
    uint64_t tick = least ? least / TICKS : TICK_MAX_MS;
    if (watch.sites && watch.stuck_ms && a && watch.stuck_ms / TICKS_AT_SITES < tick)
        tick = watch.stuck_ms / TICKS_AT_SITES;
    return tick < TICK_LEAST_MS ? TICK_LEAST_MS : tick > TICK_MAX_MS ? TICK_MAX_MS : tick;
}

/* Until then, or until somebody signals a change. */
static void wait_until(uint64_t ms)
{
    const struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};
    if (!watch.stop)
        pthread_cond_timedwait(&watch.moved, &watch.lock, &t);
}

static void *body(void *unused)
{
    (void)unused;
    char text[1900]; /* a record of job/control/control.h takes 2 KiB */
    bool late = false;
    pthread_mutex_lock(&watch.lock);
    uint64_t last = clock_ms();
    while (!watch.stop && !late) {
        const uint64_t tick = tick_ms();
        wait_until(last + tick);
        const uint64_t now = clock_ms(), gap = now - last < GAP * tick ? now - last : GAP * tick;
        for (host_thread_calls *s = watch.slots; s && !late && !watch.stop; s = s->next)
            late = is_late(s, gap, tick, text, sizeof text);
        last = now;
    }
    pthread_mutex_unlock(&watch.lock);
    if (late)
        host_watch_end_process(text);
    return NULL;
}

/* --- begin and end, under the gate --- */

static void start(void)
{
    watch.stop = false;
    watch.running = !thread_start(&watch.thread, "weft-watch", body, NULL);
    if (!watch.running)
        log_line(WEFT_LOG_WARN, "no thread for the watchdog: calls of plugins have no deadline");
}

static void stop(void)
{
    if (!watch.running)
        return;
    pthread_mutex_lock(&watch.lock);
    watch.stop = true;
    pthread_cond_signal(&watch.moved);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(watch.thread, NULL);
    watch.running = false;
}

void host_watch_begin(void)
{
    pthread_once(&once, prepare);
    pthread_mutex_lock(&watch.gate);
    if (!watch.users++)
        start();
    pthread_mutex_unlock(&watch.gate);
}

void host_watch_end(void)
{
    pthread_mutex_lock(&watch.gate);
    if (!--watch.users)
        stop();
    pthread_mutex_unlock(&watch.gate);
}

pid_t host_watch_fork(void)
{
    pthread_once(&once, prepare);
    pthread_mutex_lock(&watch.gate);
    const bool ran = watch.running;
    stop();
    const pid_t pid = fork();
    if (pid == 0)
        return 0; /* in_child() has made the gate anew */
    if (ran)
        start();
    pthread_mutex_unlock(&watch.gate);
    return pid;
}

void host_watch_report_to(host_watch_reporter *reporter)
{
    pthread_mutex_lock(&watch.lock);
    watch.reporter = reporter;
    pthread_mutex_unlock(&watch.lock);
}

void host_watch_end_process(const char *text)
{
    pthread_mutex_lock(&watch.lock);
    host_watch_reporter *reporter = watch.reporter;
    pthread_mutex_unlock(&watch.lock);
    if (!reporter || !reporter(text))
        log_line(WEFT_LOG_ERROR, "%s", text);
    _exit(1); /* handlers of exit() would wait for the plugin */
}

/* --- limits --- */

static uint64_t milliseconds(double seconds)
{
    return seconds > 0 ? (uint64_t)(seconds * 1000) : 0;
}

uint64_t host_limits_bytes(void)
{
    return atomic_load_explicit(&watch.bytes, memory_order_relaxed);
}

bool host_limits_plans(void)
{
    const char *name, *path, *call = host_call_current(&name, &path);
    return call && is_in(planning, sizeof planning / sizeof *planning, call);
}

/* The pools and arrays of planning have more than they may: base/mem.h. */
static _Noreturn void too_much(uint64_t bytes)
{
    char text[1800], who[1200];
    if (!host_call_describe_current(who, sizeof who))
        snprintf(who, sizeof who, "no call of a plugin");
    snprintf(text, sizeof text,
             "planning takes %llu MiB, more than run.planning_mb allows, during %s; the plugin "
             "asks without end, or the job is large: then set run.planning_mb higher",
             (unsigned long long)(bytes >> 20), who);
    host_watch_end_process(text);
}

void host_limits_set(const config *cfg)
{
    if (!cfg)
        return;
    if (config_check_section(cfg, "run") != WEFT_OK) {
        err_clear();
        return;
    }
    const uint64_t call = milliseconds(config_real(cfg, "run.call_deadline"));
    const uint64_t setup = milliseconds(config_real(cfg, "run.setup_deadline"));
    const uint64_t stuck = milliseconds(config_real(cfg, "run.stuck_after"));
    const uint64_t bytes = (uint64_t)config_int(cfg, "run.planning_mb") << 20;
    pthread_once(&once, prepare);
    pthread_mutex_lock(&watch.lock);
    watch.call_ms = call;
    watch.setup_ms = setup;
    watch.stuck_ms = stuck;
    pthread_cond_signal(&watch.moved);
    pthread_mutex_unlock(&watch.lock);
    atomic_store_explicit(&watch.bytes, bytes, memory_order_relaxed);
    mem_limit(bytes, too_much);
}

uint64_t host_limits_stuck(uint64_t longest_ms)
{
    pthread_mutex_lock(&watch.lock);
    const uint64_t least = watch.call_ms ? watch.stuck_ms : 0, max = WATCH_TIMES * longest_ms;
    pthread_mutex_unlock(&watch.lock);
    return !least || least > max ? least : max;
}

void host_limits_shorten(double seconds)
{
    pthread_mutex_lock(&watch.lock);
    const uint64_t max = milliseconds(seconds);
    if (watch.call_ms > max)
        watch.call_ms = max;
    pthread_mutex_unlock(&watch.lock);
}

void host_limits_lengthen(double seconds)
{
    pthread_mutex_lock(&watch.lock);
    const uint64_t least = milliseconds(seconds);
    if (watch.call_ms && watch.call_ms < least)
        watch.call_ms = least;
    if (watch.setup_ms && watch.setup_ms < least)
        watch.setup_ms = least;
    pthread_mutex_unlock(&watch.lock);
}

double host_limits_call(void)
{
    pthread_mutex_lock(&watch.lock);
    const uint64_t ms = watch.call_ms;
    pthread_mutex_unlock(&watch.lock);
    return (double)ms / 1000;
}
