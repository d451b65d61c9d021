/* job/wire/resolve.c: see resolve.h. */
#define _GNU_SOURCE
#include "job/wire/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/awake.h"
#include "job/identity/slurm.h"
#include "job/wire/endpoint.h"

#define FIRST_PAUSE_MS 100 /* after a lookup that failed; doubles ... */
#define LAST_PAUSE_MS                                                                              \
    2000                 /* ... up to this, since name servers keep such an answer for seconds     \
                          */
#define ROUND_MS 50      /* between two rounds of attempts to connect */
#define ANEW_MS 1000     /* until the name is resolved anew; doubles ... */
#define ANEW_MAX_MS 8000 /* ... up to this */
#define SAY_MS 5000      /* until the first line about waiting; the intervals double */

#define NOT_YET "does not lead to an address yet"

/* --- one lookup, in a thread --- */

typedef struct job_lookup {
    atomic_int users;  /* the thread and the caller: the last one frees it */
    atomic_bool ready; /* what follows `done` is complete */
    int done;          /* an eventfd */
    char name[256], port[8];
    char instead[256]; /* Slurm's address of the node `name`, which does not resolve; "": none */
    bool asks;         /* ... is wanted */
    int code, error;   /* of getaddrinfo(), and errno */
    bool named;
    struct addrinfo *list;
} job_lookup;

static void release(job_lookup *l)
{
    if (atomic_fetch_sub(&l->users, 1) > 1)
        return;
    if (l->list)
        freeaddrinfo(l->list);
    close(l->done);
    free(l);
}

static int resolve(job_lookup *l, int flags)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    l->code = getaddrinfo(l->name, l->port, &hints, &l->list);
    l->error = errno;
    if (l->code)
        l->list = NULL;
    return l->code;
}

static void *look_up(void *arg)
{
    job_lookup *l = arg;
    const uint64_t one = 1;
    if (resolve(l, 0) && l->asks &&
        job_slurm_node_address(l->name, l->instead, sizeof l->instead)) {
        snprintf(l->name, sizeof l->name, "%s", l->instead);
        (void)resolve(l, 0);
    }
    atomic_store(&l->ready, true);
    (void)!write(l->done, &one, sizeof one);
    release(l);
    return NULL;
}

/* An address needs no lookup; a name is looked up in a thread. */
static weft_status begin(job_resolver *r)
{
    const job_identity *who = r->who;
    job_lookup *l = mem_alloc(sizeof *l);
    char names[JOB_MEETING_TEXT];
    const uint64_t one = 1;
    snprintf(l->name, sizeof l->name, "%s", who->addr);
    snprintf(l->port, sizeof l->port, "%u", who->port);
    l->asks = who->node && !r->asked;
    r->asked |= l->asks;
    l->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_init(&l->users, 2);
    int error = l->done < 0 ? errno : 0;
    if (!error && resolve(l, AI_NUMERICHOST)) {
        l->named = true;
        error = thread_start(NULL, "weft-lookup", look_up, l);
    } else if (!error) {
        atomic_store(&l->users, 1);
        atomic_store(&l->ready, true);
        error = write(l->done, &one, sizeof one) == (ssize_t)sizeof one ? 0 : errno;
    }
    if (error) {
        atomic_store(&l->users, 1);
        release(l);
        return err_fail(WEFT_IO, "no thread to resolve %s with: %s", job_resolver_names(who, names),
                        strerror(error));
    }
    r->pending = l;
    return WEFT_OK;
}

/* --- until it resolves --- */

const char *job_resolver_names(const job_identity *who, char out[JOB_MEETING_TEXT])
{
    snprintf(out, JOB_MEETING_TEXT, "%s%s",
             who->node ? "the step's first node " : "MASTER_ADDR=", who->addr);
    return out;
}

static const char *reason(const job_lookup *l)
{
    return l->code == EAI_SYSTEM ? strerror(l->error) : gai_strerror(l->code);
}

/* A name server that starts, or has not heard of the name yet, gives all of these. */
static bool may_pass(const job_lookup *l)
{
    return l->code == EAI_NONAME || l->code == EAI_AGAIN || l->code == EAI_NODATA ||
           l->code == EAI_FAIL || l->code == EAI_SYSTEM;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool is_time(job_resolver *r)
{
    const uint64_t now = awake_ms();
    if (now < r->say || now >= r->deadline)
        return false;
    r->say = now + (now - r->began);
    return true;
}

static double seconds_since(uint64_t began)
{
    return (double)(awake_ms() - began) / 1000;
}

static void say_late(job_resolver *r, const char *what, const char *why)
{
    char names[JOB_MEETING_TEXT];
    if (is_time(r))
        log_line(WEFT_LOG_WARN, "after %.0f s %s %s: %s; it is tried until %.0f s have passed",
                 seconds_since(r->began), job_resolver_names(r->who, names), what, why,
                 (double)(r->deadline - r->began) / 1000);
}

/* Wait for the lookup. WEFT_BUSY: the time is over. Whoever has a list speaks of what is wrong with
 * it. */
static weft_status await(job_resolver *r, const job_lookup *l, uint64_t until)
{
    weft_status st;
    while ((st = r->wait(r->ctx, l->done, r->list ? until : earlier(r->say, until))) == WEFT_BUSY &&
           awake_ms() < until)
        say_late(r, NOT_YET, "no answer");
    return st == WEFT_OK && !atomic_load(&l->ready) ? WEFT_BUSY : st;
}

static void drop_list(job_resolver *r)
{
    if (r->list)
        freeaddrinfo(r->list);
    r->list = NULL;
    r->at = NULL;
}

static void drop_pending(job_resolver *r)
{
    if (r->pending)
        release(r->pending);
    r->pending = NULL;
}

static weft_status fail_late(const job_resolver *r, uint32_t tries, const char *why)
{
    if (r->who->node)
        return err_fail(
            WEFT_PEER,
            "the step's first node %s did not lead to an address within %.0f s, in %u tr%s: %s; "
            "SLURM_STEP_NODELIST names it, no name server or /etc/hosts of this node knows it, and "
            "neither SLURM_NODE_ALIASES nor `scontrol show node` has a NodeAddr of it: set "
            "MASTER_ADDR to an address of rank 0's node on all ranks",
            r->who->addr, seconds_since(r->began), tries, tries == 1 ? "y" : "ies", why);
    return err_fail(
        WEFT_PEER,
        "MASTER_ADDR=%s did not lead to an address within %.0f s, in %u tr%s: %s; check the name "
        "and the DNS server of this machine (on Kubernetes: the headless Service, and `subdomain` "
        "of the pods), or give it longer with [run] join_timeout",
        r->who->addr, seconds_since(r->began), tries, tries == 1 ? "y" : "ies", why);
}

/* Begin a lookup, or continue one. WEFT_BUSY: not yet; `why` says why. */
static weft_status try_until(job_resolver *r, uint64_t until, char *why, size_t bytes)
{
    char names[JOB_MEETING_TEXT];
    weft_status st = r->pending ? WEFT_OK : begin(r);
    if (st != WEFT_OK)
        return st;
    st = await(r, r->pending, until);
    snprintf(why, bytes, "no answer");
    if (st != WEFT_OK)
        return st; /* it goes on */
    job_lookup *l = r->pending;
    if (!l->code) {
        drop_list(r);
        r->at = r->list = l->list;
        r->named = l->named;
        l->list = NULL;
        if (*l->instead)
            log_line(WEFT_LOG_INFO,
                     "the step's first node %s is no name here; its NodeAddr in Slurm is %s",
                     r->who->addr, l->instead);
    } else if (may_pass(l)) {
        snprintf(why, bytes, "%s", reason(l));
        st = WEFT_BUSY;
    } else {
        st = err_fail(WEFT_USAGE, "%s does not lead to an address: %s",
                      job_resolver_names(r->who, names), reason(l));
    }
    drop_pending(r);
    return st;
}

/* Ranks differ, so that a thousand of them do not ask at the same moment. */
static uint64_t spread(const job_resolver *r, uint32_t pause)
{
    return pause + (uint64_t)pause * (r->who->rank % 16) / 32;
}

weft_status job_resolver_start(job_resolver *r)
{
    char why[128] = "", names[JOB_MEETING_TEXT];
    uint32_t tries = 0, pause = FIRST_PAUSE_MS;
    weft_status st;
    r->began = awake_ms();
    r->say = r->began + earlier((r->deadline - r->began) / 4, SAY_MS);
    if (!job_endpoint_is_name(r->who->addr) && !strchr(r->who->addr, ':'))
        return err_fail(WEFT_USAGE,
                        "%s does not lead to an address: it has a character that no name has",
                        job_resolver_names(r->who, names));
    while (tries++, (st = try_until(r, r->deadline, why, sizeof why)) == WEFT_BUSY) {
        say_late(r, NOT_YET, why);
        const weft_status over =
            r->wait(r->ctx, -1, earlier(awake_ms() + spread(r, pause), r->deadline));
        if (over != WEFT_BUSY)
            return over;
        if (awake_ms() >= r->deadline)
            return fail_late(r, tries, why);
        pause = pause < LAST_PAUSE_MS / 2 ? 2 * pause : LAST_PAUSE_MS;
    }
    if (st == WEFT_OK && tries > 1)
        log_line(WEFT_LOG_INFO, "%s leads to an address after %.1f s",
                 job_resolver_names(r->who, names), seconds_since(r->began));
    r->pause = ANEW_MS;
    r->again = awake_ms() + spread(r, r->pause);
    return st;
}

/* --- the search for rank 0 --- */

/* The pause between two rounds; and the name is resolved anew, beside the attempts to connect. One
 * that is gone meanwhile keeps its old addresses. */
static weft_status pause_round(job_resolver *r)
{
    char why[128];
    const uint64_t until = awake_ms() + ROUND_MS;
    weft_status st = WEFT_BUSY;
    if (awake_ms() >= r->again) {
        st = try_until(r, until, why, sizeof why);
        if (!r->pending) { /* it has an answer */
            r->pause = r->pause < ANEW_MAX_MS / 2 ? 2 * r->pause : ANEW_MAX_MS;
            r->again = awake_ms() + spread(r, r->pause);
        }
    }
    if (st == WEFT_OK || st == WEFT_BUSY || st == WEFT_USAGE)
        st = r->wait(r->ctx, -1, until);
    return st == WEFT_BUSY ? WEFT_OK : st;
}

weft_status job_resolver_next(job_resolver *r, const struct addrinfo **out)
{
    weft_status st = WEFT_OK;
    if (!r->list) {
        st = job_resolver_start(r);
    } else if (r->at->ai_next) {
        r->at = r->at->ai_next;
    } else {
        if (is_time(r))
            log_line(WEFT_LOG_WARN, "after %.0f s rank 0 is not reached at %s port %u yet: %s",
                     seconds_since(r->began), r->who->addr, r->who->port, err_text());
        st = pause_round(r);
        r->at = r->list;
    }
    *out = r->at;
    return st;
}

weft_status job_resolver_again(job_resolver *r, const char *why)
{
    char text[128];
    if (!r->named || awake_ms() >= r->deadline)
        return WEFT_BUSY;
    say_late(r, "is of no use yet", why);
    weft_status st = r->wait(r->ctx, -1, earlier(awake_ms() + spread(r, r->pause), r->deadline));
    if (st != WEFT_BUSY)
        return st;
    st = try_until(r, r->deadline, text, sizeof text);
    return st == WEFT_BUSY ? WEFT_OK : st;
}

void job_resolver_end(job_resolver *r)
{
    drop_list(r);
    drop_pending(r);
}
