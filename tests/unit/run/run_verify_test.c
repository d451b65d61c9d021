/* Is a bit that one rank alone has otherwise found, whatever the layout, and is its rank and its
 * tensor named? A thousand bits are inverted, each in memory of which another rank has a copy; all
 * are found, and without any nothing is reported. Ranks are threads, the device is memory, and
 * which ranks have copies is found by comparing extents and not by asking the code that is tested.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "base/err.h"
#include "run/state/verify.h"

#define FLIPS 1000u
#define RANKS 8u
#define PIECES 6u
#define REGION 16384u /* bytes of a piece: half of them values, half compute copies */

typedef struct layout {
    spec spec;
    plan plan[2]; /* of two stages */
    plan_set set;
    weft_device_table table;
    char *arena[RANKS];
} layout;

typedef struct meeting { /* what the job is here */
    pthread_barrier_t barrier;
    char *all;
} meeting;

typedef struct member {
    meeting *m;
    uint32_t rank;
} member;

typedef struct outcome {
    weft_status st;
    char text[1024];
    run_verified cost;
} outcome;

weft_status __wrap_job_exchange(job *j, const char *name, const void *mine, uint64_t bytes,
                                void *all);

weft_status __wrap_job_exchange(job *j, const char *name, const void *mine, uint64_t bytes,
                                void *all)
{
    const member *k = (const member *)(const void *)j;
    (void)name;
    memcpy(k->m->all + k->rank * bytes, mine, bytes);
    pthread_barrier_wait(&k->m->barrier);
    memcpy(all, k->m->all, bytes * RANKS);
    pthread_barrier_wait(&k->m->barrier);
    return WEFT_OK;
}

static uint32_t dice(uint32_t n)
{
    static uint64_t random = 1;
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random >> 33) % n);
}

static bool mixed; /* rank 1 computes on another processor than the rest */

static const char *describe(weft_device *d)
{
    return d ? "an old processor" : "a new processor";
}

/* --- layouts --- */

static void draw_piece(layout *l, plan *p, uint32_t i)
{
    static char names[2][PIECES][16];
    char *name = names[p->stage][i];
    const graph_mesh *m = &l->spec.mesh;
    snprintf(name, sizeof names[0][0], "w%u.%u", p->stage, i);
    plan_piece *x = vec_push(&p->pieces);
    *x = (plan_piece){.name = name, .param = name, .copy = UINT64_MAX};
    x->shape = (weft_shape){
        .rank = 2, .dtype = WEFT_F32, .axes = {{"a", 5 + dice(20)}, {"b", 12 + 12 * dice(4)}}};
    x->offset = (uint64_t)i * REGION;
    if (dice(2)) {
        x->copy = x->offset + REGION / 2;
        x->copy_dtype = WEFT_BF16;
    }
    for (uint32_t a = 0; a < m->n; a++)
        x->split[a] = dice(3) ? 0 : 1;
    x->only[2] = 1 + p->stage;
    x->split[2] = 0;
    if (dice(3) == 0) {
        const uint32_t a = dice(2);
        x->split[a] = 0;
        x->shard_axis = 1 + a;
        x->slice = graph_shape_elements(&x->shape) / m->size[a] + 1;
        x->sliced = dice(2);
        x->copy_sliced = dice(2);
    } else if (dice(6) == 0) {
        x->replica_axes = 1;
    }
}

static void make_layout(layout *l)
{
    static const uint32_t sizes[][3] = {{8, 1, 1}, {4, 2, 1}, {2, 2, 2}, {4, 1, 2}, {2, 4, 1}};
    *l = (layout){.spec = {.ranks = RANKS, .want = SPEC_TRAIN, .precision = "bf16"}};
    l->spec.mesh.n = 3;
    memcpy(l->spec.mesh.size, sizes[dice(5)], sizeof *sizes);
    l->table.caps = WEFT_DEV_HOST_MEMORY;
    l->table.describe = describe;
    l->set = (plan_set){.spec = &l->spec, .stage_axis = 2, .at = l->plan};
    l->set.n = l->spec.mesh.size[2];
    for (uint32_t k = 0; k < 2; k++) {
        l->plan[k].spec = &l->spec;
        l->plan[k].stage = k;
        for (uint32_t i = 0; i < PIECES - k; i++)
            draw_piece(l, &l->plan[k], i);
    }
}

/* Where a rank has a piece or its copy: its address in the arena, and bytes; 0: not there. */
static uint64_t place_of(const layout *l, uint32_t rank, uint32_t i, bool copied, uint64_t *at,
                         plan_extent *x)
{
    const plan *p = plan_of(&l->set, rank);
    if (i >= p->pieces.n)
        return 0;
    const plan_piece *of = &p->pieces.at[i];
    plan_extent_of(p, of, rank, copied ? PLAN_EXTENT_COPIED : PLAN_EXTENT_HELD, x);
    *at = copied ? x->copy : x->offset;
    return copied && of->copy == UINT64_MAX ? 0 : x->count * (copied ? 2 : 4);
}

/* A byte of a tensor by its place in the whole tensor, the same on all that have it. */
static char byte_of(const plan_extent *x, uint32_t stage, uint32_t i, bool copied, uint64_t k)
{
    uint64_t h = (x->first * (copied ? 2 : 4) + k) * 0x9e3779b97f4a7c15u;
    h += (uint64_t)(x->start[0] * 131 + x->start[1] * 7) + stage * 17 + i * 3 + copied;
    return (char)(h * 0xbf58476d1ce4e5b9u >> 40);
}

static void fill(layout *l)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        l->arena[r] = malloc((size_t)PIECES * REGION);
        for (size_t k = 0; k < (size_t)PIECES * REGION; k++) /* of what is nobody's it differs */
            l->arena[r][k] = (char)dice(256);
        for (uint32_t i = 0; i < 2 * PIECES; i++) {
            uint64_t at = 0;
            plan_extent x;
            const uint64_t n = place_of(l, r, i / 2, i & 1, &at, &x);
            for (uint64_t k = 0; k < n; k++)
                l->arena[r][at + k] = byte_of(&x, plan_of(&l->set, r)->stage, i / 2, i & 1, k);
        }
    }
}

static void drop(layout *l)
{
    for (uint32_t r = 0; r < RANKS; r++)
        free(l->arena[r]);
    for (uint32_t k = 0; k < 2; k++)
        free(l->plan[k].pieces.at);
}

/* Replicas that are trained separately are no copies. */
static bool apart(const layout *l, const plan_piece *x, uint32_t a, uint32_t b)
{
    return x->replica_axes &&
           graph_mesh_coord(&l->spec.mesh, a, 0) != graph_mesh_coord(&l->spec.mesh, b, 0);
}

/* How many ranks have what `rank` has of a piece, itself included; 0: it has nothing. */
static uint32_t count_copies(const layout *l, uint32_t rank, uint32_t i, bool copied)
{
    plan_extent mine, theirs;
    uint64_t at;
    uint32_t n = 0;
    if (!place_of(l, rank, i, copied, &at, &mine))
        return 0;
    const plan *p = plan_of(&l->set, rank);
    for (uint32_t r = 0; r < RANKS; r++)
        n += plan_of(&l->set, r) == p && !apart(l, &p->pieces.at[i], rank, r) &&
             place_of(l, r, i, copied, &at, &theirs) && mine.first == theirs.first &&
             mine.count == theirs.count && !memcmp(mine.start, theirs.start, sizeof mine.start) &&
             !memcmp(mine.size, theirs.size, sizeof mine.size);
    return n;
}

/* --- ranks --- */

typedef struct call {
    layout *l;
    member who;
    outcome *out;
} call;

static void *rank_main(void *arg)
{
    call *c = arg;
    run_executor e = {.plan = plan_of(&c->l->set, c->who.rank),
                      .job = (job *)(void *)&c->who,
                      .rank = c->who.rank,
                      .table = &c->l->table,
                      .device = mixed && c->who.rank == 1 ? (weft_device *)(void *)&c->who : NULL,
                      .base = c->l->arena[c->who.rank]};
    err_clear();
    c->out->st = run_verify(&e, &c->l->set, 7, &c->out->cost);
    snprintf(c->out->text, sizeof c->out->text, "%s", err_text());
    return NULL;
}

static void verify_all(layout *l, outcome out[RANKS])
{
    static char all[1 << 20];
    meeting m = {.all = all};
    call c[RANKS];
    pthread_t thread[RANKS];
    pthread_barrier_init(&m.barrier, NULL, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        c[r] = (call){l, {&m, r}, &out[r]};
        pthread_create(&thread[r], NULL, rank_main, &c[r]);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
    pthread_barrier_destroy(&m.barrier);
}

/* --- tests --- */

static void check_named(const outcome out[RANKS], const layout *l, uint32_t rank, uint32_t i,
                        bool copied, uint32_t copies)
{
    char title[64], who[64];
    snprintf(title, sizeof title, " of %s%s", plan_of(&l->set, rank)->pieces.at[i].name,
             copied       ? " in bf16"
             : copies > 2 ? " than"
                          : ",");
    snprintf(who, sizeof who, "rank %u (host ", rank);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(out[r].st, WEFT_IO);
        assert_non_null(strstr(out[r].text, "after step 7 "));
        const char *named = strstr(out[r].text, who);
        if (!named || !strstr(out[r].text, title))
            fail_msg("rank %u, %s: %s", rank, title, out[r].text);
        const char *another = strstr(named + 1, ", rank ");
        assert_true(copies > 2 ? !another : another || named != strstr(out[r].text, "rank "));
        assert_true((copies > 2) == (strstr(out[r].text, "no majority") == NULL));
    }
}

static void check_quiet(layout *l)
{
    outcome out[RANKS];
    verify_all(l, out);
    for (uint32_t r = 0; r < RANKS; r++)
        if (out[r].st != WEFT_OK)
            fail_msg("nothing was changed, but rank %u says: %s", r, out[r].text);
}

TEST(each_flipped_bit_is_found)
{
    outcome out[RANKS];
    layout l;
    uint32_t found = 0, layouts = 0, wide = 0;
    while (found < FLIPS) {
        make_layout(&l);
        fill(&l);
        check_quiet(&l);
        layouts++;
        for (uint32_t k = 0; k < 40 && found < FLIPS; k++) {
            const uint32_t rank = dice(RANKS), i = dice(PIECES);
            const bool copied = dice(2);
            const uint32_t copies = count_copies(&l, rank, i, copied);
            uint64_t at = 0;
            plan_extent x;
            if (copies < 2)
                continue;
            char *byte = l.arena[rank] + dice((uint32_t)place_of(&l, rank, i, copied, &at, &x));
            byte += at;
            const char bit = (char)(1u << dice(8));
            *byte ^= bit;
            verify_all(&l, out);
            *byte ^= bit;
            check_named(out, &l, rank, i, copied, copies);
            wide += copies > 2;
            found++;
        }
        check_quiet(&l);
        drop(&l);
    }
    print_message("%u of %u flipped bits were found in %u layouts, in %u cases by a majority\n",
                  found, FLIPS, layouts, wide);
    assert_true(wide > FLIPS / 4 && wide < FLIPS);
}

/* Other kernels may round differently: a sentence about memory alone would mislead. */
TEST(unlike_processors_are_named)
{
    outcome out[RANKS];
    layout l;
    uint32_t i = 0;
    uint64_t at = 0;
    plan_extent x;
    mixed = true;
    do {
        make_layout(&l);
        fill(&l);
        i = 0;
        while (i < PIECES && count_copies(&l, 1, i, false) < 2)
            i++;
        if (i == PIECES)
            drop(&l);
    } while (i == PIECES);
    (void)place_of(&l, 1, i, false, &at, &x);
    l.arena[1][at] ^= 1;
    verify_all(&l, out);
    mixed = false;
    assert_int_equal(out[0].st, WEFT_IO);
    assert_non_null(strstr(out[0].text, "on an old processor"));
    assert_non_null(strstr(out[0].text, "on a new processor"));
    assert_non_null(
        strstr(out[0].text, ": if their processors, kernels or numbers of threads differ"));
    drop(&l);
}

/* Whether the rank holds both what others hold and what it alone holds. */
static bool check_share(const layout *l, uint32_t rank)
{
    uint64_t all = 0, copied = 0, at;
    plan_extent x;
    for (uint32_t k = 0; k < 2 * PIECES; k++) {
        const uint64_t bytes = place_of(l, rank, k / 2, k & 1, &at, &x);
        all += bytes;
        copied += count_copies(l, rank, k / 2, k & 1) > 1 ? bytes : 0;
    }
    assert_float_equal(run_verify_share(&l->set, rank), (double)copied / (double)all, 1e-9);
    return copied && copied < all;
}

/* What one rank alone has cannot be compared. */
TEST(what_has_no_copy_is_not_compared)
{
    outcome out[RANKS];
    layout l;
    bool parted = false;
    for (uint32_t n = 0; n < 100;) {
        make_layout(&l);
        fill(&l);
        for (uint32_t k = 0; k < 10; k++) {
            const uint32_t rank = dice(RANKS), i = dice(PIECES);
            uint64_t at = 0;
            plan_extent x;
            if (count_copies(&l, rank, i, false) != 1)
                continue;
            (void)place_of(&l, rank, i, false, &at, &x);
            l.arena[rank][at] ^= 1;
            n++;
        }
        check_quiet(&l);
        parted |= check_share(&l, dice(RANKS));
        drop(&l);
    }
    assert_true(parted);
    make_layout(&l);
    for (uint32_t k = 0; k < 2; k++)
        l.plan[k].pieces.n = 0;
    assert_true(run_verify_share(&l.set, 0) == 0);
    fill(&l);
    verify_all(&l, out);
    assert_int_equal(out[0].cost.bytes, 0);
    drop(&l);
}
