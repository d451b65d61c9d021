/* tests/schedule/sim.c: see sim.h. */
#include "sim.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/kernels/code.h"
#include "comm/kernels/reduce.h"

#define GUARD 64
#define MAX_RANKS PACE_MAX

/* A message whose send has finished and whose receive has not. */
typedef struct parcel {
    struct parcel *next;
    uint64_t bytes;
    char data[];
} parcel;

typedef struct cursor {
    uint32_t sent, received;
    parcel *first, *last; /* sent and not received */
} cursor;

typedef struct rank {
    int takes_part, started, finished;
    sched_request r;
    sched_schedule *s;
    sched_program p;
    uint32_t *need, left;
    uint8_t *ran;
    cursor *lane; /* [p.lanes] */
    char *kept;   /* with guards, like all of these */
    uint64_t residual_bytes;
    char *in, *out, *scratch; /* as the operation sees them: in place they overlap */
    char *in_memory, *out_memory;
    uint64_t in_bytes, out_bytes, scratch_bytes;
    char *result; /* out at the moment of finishing */
    sched_buffer_offsets where[MAX_RANKS];
    uint64_t sent;
} rank;

typedef struct sim {
    const sim_case *c;
    rank rank[MAX_RANKS];
    uint32_t n;
    pace pace;
} sim;

static void rubbish(char *p, uint64_t bytes, int byte)
{
    memset(p, byte, bytes);
}

static char *guarded(uint64_t bytes)
{
    char *p = malloc(bytes + 2 * GUARD);
    memset(p, 0xa5, bytes + 2 * GUARD);
    return p + GUARD;
}

static void check_guard(const char *p, uint64_t bytes, const char *what, uint32_t who)
{
    for (uint64_t i = 0; i < GUARD; i++)
        if ((p - GUARD)[i] != (char)0xa5 || p[bytes + i] != (char)0xa5)
            fail_msg("rank %u wrote outside its %s", who, what);
}

/* In place the smaller side lies in the larger; where a rooted kind gives a rank one side only,
 * nothing is shared. */
static void lay_buffers(rank *k)
{
    const sched_request *r = &k->r;
    uint64_t size = weft_dtype_size(r->dtype), part = r->count / r->ranks * size;
    k->in_bytes = naive_in_count(r, r->me) * size;
    k->out_bytes = naive_out_count(r, r->me) * size;
    k->in_memory = guarded(k->in_bytes);
    k->out_memory = guarded(k->out_bytes);
    k->in = k->in_memory;
    k->out = k->out_memory;
    if (r->in_place && k->in_bytes && k->out_bytes) {
        if (k->in_bytes > k->out_bytes)
            k->out = k->in + r->me * part;
        else
            k->in = k->out + (k->in_bytes < k->out_bytes ? r->me * part : 0);
    }
    k->scratch_bytes = k->s->scratch;
    k->scratch = guarded(k->scratch_bytes);
    k->residual_bytes = k->s->residual;
    k->kept = guarded(k->residual_bytes);
    k->result = malloc(k->out_bytes + 1);
    memset(k->out, 0xee, k->out_bytes);
    memset(k->in, 0xee, k->in_bytes);
}

static void make_rank(sim *s, uint32_t i)
{
    rank *k = &s->rank[i];
    k->takes_part = naive_role(&s->c->all, i, &k->r);
    if (!k->takes_part) {
        k->finished = 1;
        return;
    }
    if (sched_make(&k->r, &k->s) != WEFT_OK)
        fail_msg("%s", err_text());
    sched_program_make(k->s, &k->p);
    k->left = k->p.steps;
    k->need = calloc(k->p.steps + 1, sizeof *k->need);
    k->ran = calloc(k->p.steps + 1, 1);
    for (uint32_t t = 0; t < k->p.steps; t++)
        k->need[t] = k->p.step[t].need;
    k->lane = calloc(k->p.lanes + 1, sizeof *k->lane);
    for (uint32_t q = 0; q < MAX_RANKS; q++)
        k->where[q] = (sched_buffer_offsets){1, 1}; /* nothing lies there: a crash */
    lay_buffers(k);
}

static char *address(sim *s, uint32_t me, sched_place p, uint64_t bytes)
{
    rank *k = &s->rank[me];
    switch (p.buffer) {
    case SCHED_IN: assert_true(p.at + bytes <= k->in_bytes); return k->in + p.at;
    case SCHED_OUT: assert_true(p.at + bytes <= k->out_bytes); return k->out + p.at;
    case SCHED_SCRATCH: assert_true(p.at + bytes <= k->scratch_bytes); return k->scratch + p.at;
    case SCHED_OFFSETS: return (char *)k->where + p.at;
    case SCHED_RESIDUAL: assert_true(p.at + bytes <= k->residual_bytes); return k->kept + p.at;
    case SCHED_PEER_IN: return (char *)(uintptr_t)k->where[p.rank].in + p.at;
    default: return (char *)(uintptr_t)k->where[p.rank].out + p.at;
    }
}

static void complete(rank *k, uint32_t step)
{
    const sched_step *t = &k->p.step[step];
    assert_int_equal(k->ran[step], 0);
    k->ran[step] = 1;
    k->left--;
    for (uint32_t i = 0; i < t->nexts; i++)
        k->need[k->p.next[t->next + i]]--;
}

static void run_local(sim *s, uint32_t me, uint32_t step)
{
    rank *k = &s->rank[me];
    const sched_step *t = &k->p.step[step];
    const void *from[MAX_RANKS];
    void *to[MAX_RANKS];
    uint32_t size = (uint32_t)weft_dtype_size(k->r.dtype);
    for (uint32_t i = 0; i < t->nfrom; i++) {
        sched_place p = k->p.place[t->place + i];
        from[i] = address(s, me, p, sched_code_touched(&k->r, t, i));
        if (p.buffer == SCHED_PEER_IN)
            s->rank[p.rank].sent += t->bytes;
    }
    for (uint32_t i = 0; i < t->nto; i++) {
        sched_place p = k->p.place[t->place + t->nfrom + i];
        to[i] = address(s, me, p, sched_code_touched(&k->r, t, t->nfrom + i));
        k->sent += p.buffer == SCHED_PEER_OUT ? t->bytes : 0;
    }
    if (t->what >= SCHED_ENCODE)
        comm_code_run(&comm_kernels_pick()->code, &k->r, t, to, from, s->c->times);
    else if (t->what == SCHED_COPY)
        memmove(to[0], from[0], t->bytes);
    else
        comm_reduce_run(&(comm_reduce_job){comm_reduce_pick(k->r.dtype), k->r.redop, size, t->nto,
                                           t->nfrom, to, from, t->bytes / size});
    complete(k, step);
}

static void fill(const sim_case *c, const rank *k, char *in)
{
    if (c->fill)
        c->fill(c, k->r.me, in);
    else
        naive_fill(&k->r, k->r.me, in);
}

static void start(sim *s, uint32_t me)
{
    rank *k = &s->rank[me];
    k->started = 1;
    fill(s->c, k, k->in);
    if (k->residual_bytes)
        memcpy(k->kept, s->c->kept[me], k->residual_bytes);
    k->where[me] = (sched_buffer_offsets){(uintptr_t)k->in, (uintptr_t)k->out};
}

static void finish(const sim_case *c, rank *k)
{
    k->finished = 1;
    if (!k->r.in_place && k->in_bytes) {
        char *same = malloc(k->in_bytes);
        fill(c, k, same);
        if (memcmp(same, k->in, k->in_bytes))
            fail_msg("rank %u: the input was changed", k->r.me);
        free(same);
    }
    memcpy(k->result, k->out, k->out_bytes);
    rubbish(k->in_memory, k->in_bytes, 0xcc);
    rubbish(k->out_memory, k->out_bytes, 0xcc);
}

/* The head of a lane, if all that it waits for is done. */
static int posted(const rank *k, const sched_lane *l, const cursor *c, int sending, uint32_t *step)
{
    uint32_t at = sending ? c->sent : c->received, n = sending ? l->sends : l->recvs;
    if (at == n)
        return 0;
    *step = k->p.order[(sending ? l->send : l->recv) + at];
    return k->need[*step] == 0;
}

static int lane_of(const rank *k, uint32_t peer)
{
    for (uint32_t i = 0; i < k->p.lanes; i++)
        if (k->p.lane[i].peer == peer)
            return (int)i;
    return -1;
}

static void send_to_parcel(sim *s, uint32_t me, uint32_t lane, uint32_t step)
{
    rank *k = &s->rank[me];
    const sched_step *send = &k->p.step[step];
    cursor *c = &k->lane[lane];
    parcel *p = malloc(sizeof *p + send->bytes);
    p->bytes = send->bytes;
    p->next = NULL;
    if (send->bytes)
        memcpy(p->data, address(s, me, k->p.place[send->place], send->bytes), send->bytes);
    if (send->bytes && k->p.place[send->place].buffer != SCHED_OFFSETS)
        k->sent += send->bytes;
    c->sent++;
    if (c->first)
        c->last->next = p;
    else
        c->first = p;
    c->last = p;
    complete(k, step);
}

static int receive_parcel(sim *s, uint32_t me, uint32_t lane)
{
    cursor *c = &s->rank[me].lane[lane];
    parcel *p = c->first;
    uint32_t from = s->rank[me].p.lane[lane].peer, theirs;
    rank *peer = &s->rank[from];
    int back = lane_of(peer, me);
    if (back < 0)
        fail_msg("rank %u sends to rank %u, which never receives from it", me, from);
    if (!p || !peer->started || peer->finished ||
        !posted(peer, &peer->p.lane[back], &peer->lane[back], 0, &theirs))
        return 0;
    const sched_step *recv = &peer->p.step[theirs];
    if (p->bytes != recv->bytes)
        fail_msg("rank %u sends %llu bytes, rank %u receives %llu", me,
                 (unsigned long long)p->bytes, from, (unsigned long long)recv->bytes);
    if (p->bytes)
        memcpy(address(s, from, peer->p.place[recv->place], recv->bytes), p->data, p->bytes);
    c->first = p->next;
    free(p);
    peer->lane[back].received++;
    complete(peer, theirs);
    return 1;
}

/* Try to move the next message of a lane; without buffers both ends have to stand. */
static int try_message(sim *s, uint32_t me, uint32_t lane)
{
    rank *k = &s->rank[me];
    const sched_lane *l = &k->p.lane[lane];
    cursor *c = &k->lane[lane];
    uint32_t step, theirs;
    if (pace_holds_way(&s->pace, me, l->peer))
        return 0;
    if (c->first && receive_parcel(s, me, lane))
        return 1;
    if (!posted(k, l, c, 1, &step))
        return 0;
    if (pace_buffers(&s->pace)) {
        send_to_parcel(s, me, lane, step);
        return 1;
    }
    rank *peer = &s->rank[l->peer];
    int back = lane_of(peer, me);
    int stands = back >= 0 && peer->started && !c->first &&
                 posted(peer, &peer->p.lane[back], &peer->lane[back], 0, &theirs);
    if (back >= 0 && !stands)
        return 0;
    send_to_parcel(s, me, lane, step);
    return receive_parcel(s, me, lane);
}

static int try_local(sim *s, uint32_t me)
{
    rank *k = &s->rank[me];
    uint32_t from = pace_draw(&s->pace, k->p.steps + 1);
    for (uint32_t i = 0; i < k->p.steps; i++) {
        uint32_t step = (from + i) % k->p.steps;
        if (k->p.step[step].what >= SCHED_REDUCE && !k->ran[step] && k->need[step] == 0) {
            run_local(s, me, step);
            return 1;
        }
    }
    return 0;
}

static int act(sim *s, uint32_t me)
{
    rank *k = &s->rank[me];
    if (pace_holds(&s->pace, me))
        return 0;
    for (uint32_t i = 0; k->finished && i < k->p.lanes; i++)
        if (receive_parcel(s, me, i))
            return 1;
    if (k->finished)
        return 0;
    if (!k->started) {
        start(s, me);
        return 1;
    }
    if (k->left == 0) {
        finish(s->c, k);
        return 1;
    }
    int local_first = (int)pace_draw(&s->pace, 2);
    if (local_first && try_local(s, me))
        return 1;
    uint32_t from = pace_draw(&s->pace, k->p.lanes + 1);
    for (uint32_t i = 0; i < k->p.lanes; i++)
        if (try_message(s, me, (from + i) % k->p.lanes))
            return 1;
    return !local_first && try_local(s, me);
}

static void run_all(sim *s)
{
    for (;;) {
        uint32_t from = pace_first(&s->pace), i = 0, done = 0;
        while (i < s->n && !act(s, (from + i) % s->n))
            i++;
        s->pace.eager = i == s->n && !s->pace.eager; /* once more, holding nothing back */
        if (i < s->n || s->pace.eager)
            continue;
        for (uint32_t k = 0; k < s->n; k++)
            done += (uint32_t)s->rank[k].finished;
        if (done < s->n)
            fail_msg("%u of %u ranks wait for ever", s->n - done, s->n);
        return;
    }
}

static void check_rank(sim *s, uint32_t i)
{
    rank *k = &s->rank[i];
    uint64_t wrong =
        s->c->check ? UINT64_MAX : naive_first_wrong(&k->r, i, k->result, s->c->exact, 3000);
    if (s->c->check)
        s->c->check(s->c, i, k->result);
    if (k->residual_bytes)
        memcpy(s->c->kept[i], k->kept, k->residual_bytes);
    check_guard(k->kept, k->residual_bytes, "kept memory", i);
    if (wrong != UINT64_MAX)
        fail_msg("rank %u: element %llu is wrong", i, (unsigned long long)wrong);
    if (k->r.kind == WEFT_ALL_REDUCE)
        assert_memory_equal(k->result, s->rank[0].result, k->out_bytes);
    check_guard(k->in_memory, k->in_bytes, "input", i);
    check_guard(k->out_memory, k->out_bytes, "output", i);
    check_guard(k->scratch, k->scratch_bytes, "scratch", i);
    for (uint32_t l = 0; l < k->p.lanes; l++)
        if (k->lane[l].first)
            fail_msg("rank %u sends more than rank %u receives", i, k->p.lane[l].peer);
    assert_int_equal(k->sent, k->s->sent);
    for (uint64_t b = 0; b < k->in_bytes; b++)
        if (k->in_memory[b] != (char)0xcc)
            fail_msg("rank %u: its input was written after it had finished", i);
    for (uint64_t b = 0; b < k->out_bytes; b++)
        if (k->out_memory[b] != (char)0xcc)
            fail_msg("rank %u: its output was written after it had finished", i);
}

static void free_rank(rank *k)
{
    sched_program_free(&k->p);
    sched_free(k->s);
    free(k->need);
    free(k->ran);
    free(k->lane);
    free(k->in_memory - GUARD);
    free(k->out_memory - GUARD);
    free(k->scratch - GUARD);
    free(k->kept - GUARD);
    free(k->result);
}

const char *sim_run(const sim_case *c)
{
    sim *s = calloc(1, sizeof *s);
    *s = (sim){.c = c, .n = c->all.ranks};
    pace_begin(&s->pace, c->seed, c->pace, s->n);
    const char *name = "";
    for (uint32_t i = 0; i < s->n; i++)
        make_rank(s, i);
    run_all(s);
    for (uint32_t i = 0; i < s->n; i++) {
        if (!s->rank[i].takes_part)
            continue;
        check_rank(s, i);
        name = s->rank[i].s->r.algorithm;
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (s->rank[i].takes_part)
            free_rank(&s->rank[i]);
    free(s);
    return name;
}
