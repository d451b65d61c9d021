/* launch/outcome.c: see outcome.h. */
#define _GNU_SOURCE
#include "launch/outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time/pressure.h"
#include "job/decide/cause.h"
#include "job/stop.h"

#define GRACE_MS 1000
#define STOPPED_MS 10000 /* ranks that stop on request leave together */
#define SAID_MAX 64      /* different messages that are printed */

typedef struct sentence { /* a final message of ranks */
    char *text;
    uint32_t rank, times; /* the first rank that sent it; how many did */
} sentence;

typedef struct rank_state {
    bool spoke;     /* it has named a cause */
    bool confessed; /* ... itself */
    bool ended;     /* before we killed it */
    bool gone;      /* its process no longer exists */
    bool lost;      /* with its host, which the text about it names */
    uint32_t exit;  /* the status that it has announced; 0: none */
    sentence *said; /* its final message; NULL: none */
    struct {
        uint32_t kind, code; /* as in a job_control_record */
    } end;
    const char *host; /* NULL: this machine */
} rank_state;

struct launch_outcome {
    uint32_t ranks, alive;
    rank_state *rank;
    job_cause decision;
    char reported[CONTROL_TEXT]; /* what other ranks report about rank `reported_rank` */
    uint32_t reported_rank;
    bool stopped;     /* a rank ended because it was asked to */
    bool frozen;      /* all ranks are */
    uint64_t kill_at; /* 0: no failure */
    bool killed;
    sentence said[SAID_MAX];
    uint32_t said_n;
};

launch_outcome *launch_outcome_new(uint32_t ranks)
{
    launch_outcome *o = mem_alloc(sizeof *o);
    o->ranks = o->alive = ranks;
    o->rank = mem_alloc(ranks * sizeof *o->rank);
    return o;
}

void launch_outcome_free(launch_outcome *o)
{
    if (!o)
        return;
    for (uint32_t i = 0; i < o->said_n; i++)
        free(o->said[i].text);
    free(o->rank);
    free(o);
}

void launch_outcome_place(launch_outcome *o, uint32_t rank, const char *host)
{
    o->rank[rank].host = host;
}

/* --- messages of ranks --- */

static void keep_sentence(launch_outcome *o, uint32_t rank, const char *text)
{
    sentence *s = o->said;
    while (s < o->said + o->said_n && strcmp(s->text, text) != 0)
        s++;
    char *own = s == o->said + o->said_n && o->said_n < SAID_MAX ? strdup(text) : NULL;
    if (own) {
        *s = (sentence){.text = own, .rank = rank};
        o->said_n++;
    } else if (s == o->said + o->said_n) {
        return;
    }
    s->times++;
    o->rank[rank].said = s;
}

/* Sentences of any rank and of plugins come as text alone; one that begins with its rank needs no
 * second "rank 3". Nothing else depends on it. */
static void print_sentence(const launch_outcome *o, const sentence *s)
{
    char own[24];
    int n = snprintf(own, sizeof own, "rank %u", s->rank);
    bool named = !strncmp(s->text, own, (size_t)n) && (s->text[n] == ',' || s->text[n] == ' ');
    named = named || s->times == o->ranks;
    log_line(WEFT_LOG_ERROR, "%s%s%s", named ? "" : own, named ? "" : ": ", s->text);
}

/* Print all messages, or only `one`. */
static void print_sentences(const launch_outcome *o, const sentence *one)
{
    for (uint32_t i = 0; i < o->said_n; i++)
        if (!one || one == &o->said[i])
            print_sentence(o, &o->said[i]);
}

void launch_outcome_receive(launch_outcome *o, uint32_t rank, const job_control_record *r)
{
    if (r->kind == CONTROL_SAY) {
        keep_sentence(o, rank, r->text);
    } else if (r->kind == CONTROL_STATUS && r->code < 256) {
        o->rank[rank].exit = r->code;
    } else if (r->kind == CONTROL_CAUSE && r->rank < o->ranks && r->code &&
               r->code <= JOB_CAUSE_SURE) {
        o->rank[rank].spoke = true;
        o->rank[rank].confessed |= r->rank == rank;
        job_cause_add(&o->decision, r->rank, r->code, pressure_ms(), r->text);
        if (r->rank == o->decision.rank && (!o->reported[0] || o->reported_rank != r->rank)) {
            snprintf(o->reported, sizeof o->reported, "%s", r->text);
            o->reported_rank = r->rank;
        }
    }
}

/* --- how ranks end --- */

/* "rank 3 was killed by signal 9 (SIGKILL)". */
static void describe_end(const rank_state *s, uint32_t rank, char *out, size_t bytes)
{
    const job_control_record end = {.kind = s->end.kind, .code = s->end.code};
    char how[160];
    job_control_describe_end(&end, how, sizeof how);
    snprintf(out, bytes, "rank %u %s", rank, how);
}

static void add_host(const rank_state *s, char *text, size_t bytes)
{
    const size_t n = strlen(text);
    if (s->host && !s->lost)
        snprintf(text + n, bytes - n, "; host %s", s->host);
}

static void classify_end(launch_outcome *o, uint32_t rank)
{
    rank_state *s = &o->rank[rank];
    char text[192];
    if (s->end.kind == CONTROL_ENDED && s->end.code == STOP_STATUS) {
        o->stopped = true;
        return;
    }
    describe_end(s, rank, text, sizeof text);
    if (s->end.kind == CONTROL_KILLED)
        job_cause_add(&o->decision, rank, JOB_CAUSE_SURE, pressure_ms(), text);
    else if (s->end.code && !s->spoke)
        job_cause_add(&o->decision, rank, JOB_CAUSE_ENDED, pressure_ms(), text);
}

bool launch_outcome_end(launch_outcome *o, uint32_t rank, const job_control_record *end)
{
    rank_state *s = &o->rank[rank];
    if (o->killed || s->ended)
        return false;
    s->ended = true;
    s->end.kind = end->kind;
    s->end.code = end->code;
    classify_end(o, rank);
    /* its own messages reach the others through the store */
    return s->end.kind == CONTROL_KILLED || !s->end.code || !s->spoke;
}

void launch_outcome_gone(launch_outcome *o, uint32_t rank)
{
    o->alive -= !o->rank[rank].gone;
    o->rank[rank].gone = true;
}

void launch_outcome_lost(launch_outcome *o, uint32_t rank, const char *text)
{
    if (o->killed || o->rank[rank].ended)
        return;
    job_cause_add(&o->decision, rank, JOB_CAUSE_SURE, pressure_ms(), text);
    o->rank[rank].lost = true;
    if (rank != o->decision.rank)
        return;
    snprintf(o->reported, sizeof o->reported, "%s",
             text); /* better than what others have seen of it */
    o->reported_rank = rank;
}

void launch_outcome_frozen(launch_outcome *o, const char *text)
{
    uint32_t rank = 0;
    while (rank < o->ranks && o->rank[rank].ended)
        rank++;
    if (rank == o->ranks || o->frozen || o->killed)
        return;
    o->frozen = true;
    launch_outcome_lost(o, rank, text);
}

/* --- when the others have to end --- */

bool launch_outcome_due(launch_outcome *o, uint64_t now)
{
    if (!o->kill_at && job_cause_due(&o->decision, now))
        o->kill_at = now + GRACE_MS;
    if (!o->kill_at && o->stopped)
        o->kill_at = now + STOPPED_MS;
    uint32_t others = o->alive;
    const rank_state *s = &o->rank[o->decision.rank];
    if (o->decision.weight && o->kill_at && !s->gone && !s->confessed)
        others--; /* a rank that others report as failed is not waited for */
    if (!o->kill_at || !o->alive || o->killed || (now < o->kill_at && others))
        return false;
    o->killed = true;
    return true;
}

int launch_outcome_wait(const launch_outcome *o, uint64_t now)
{
    const uint64_t next = o->kill_at ? o->kill_at : o->decision.due;
    if (o->killed || (!o->kill_at && !o->decision.weight))
        return -1;
    return next > now ? (int)(next - now) : 0;
}

void launch_outcome_killed(launch_outcome *o, bool by_user)
{
    o->killed = true;
    o->stopped = o->stopped && !by_user;
}

bool launch_outcome_is_killed(const launch_outcome *o)
{
    return o->killed;
}

/* --- what is printed --- */

static void describe_cause(const launch_outcome *o, const rank_state *s, char *out, size_t bytes)
{
    char own[192] = "";
    bool reported = o->reported[0] && o->reported_rank == o->decision.rank;
    if (s->ended)
        describe_end(s, o->decision.rank, own, sizeof own);
    bool words = reported && s->said && s->end.kind == CONTROL_ENDED; /* better than a status */
    if (s->ended && !words && (!reported || strncmp(o->reported, own, strlen(own)) != 0))
        snprintf(out, bytes, "%s", own);
    else
        snprintf(out, bytes, "%s", reported ? o->reported : o->decision.text);
    add_host(s, out, bytes);
}

void launch_outcome_conclude(const launch_outcome *o, int asked, int by_ranks, launch_end *out)
{
    char why[CONTROL_TEXT];
    const rank_state *s = &o->rank[o->decision.rank];
    bool failed = o->decision.weight, by_itself = s->ended && s->end.kind == CONTROL_ENDED;
    /* A rank that was slow to leave, and was killed, ends the job as it would have done. */
    uint32_t code = !failed ? 1 : by_itself ? s->end.code : s->ended ? 1 : s->exit;
    int status = code == 2 || code == 77 ? (int)code : 1;
    bool refused = s->said && status != 1;
    describe_cause(o, s, why, sizeof why);
    *out = (launch_end){.status = status,
                        .rank = o->frozen ? LAUNCH_ALL : o->decision.rank,
                        .asked = asked ? asked : by_ranks};
    out->failed = failed && status == 1 && !out->asked && !o->stopped;
    out->said = by_itself && s->said;
    job_control_shorten(out->why, sizeof out->why, by_itself && s->said ? s->said->text : why);
    print_sentences(o, refused ? s->said : NULL);
    if (!failed && (o->stopped || !o->killed))
        out->status = o->stopped ? STOP_STATUS : 0;
    else if (refused || (failed && by_itself && s->said && o->said_n == 1 && !asked))
        return; /* its own message is sufficient */
    else if (asked && (!failed || !s->ended || by_itself || (int)s->end.code == asked))
        log_line(WEFT_LOG_ERROR, "the job was stopped by signal %d", asked);
    else if (failed)
        log_line(WEFT_LOG_ERROR, "%s", why);
}
