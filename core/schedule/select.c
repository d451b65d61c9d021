/* schedule/select.c: selects the algorithm for `auto`; the thresholds come from measurements.
 *
 * The choice depends only on values that are equal on all ranks of a group (kind, bytes, ranks,
 * type and the link's capabilities), because ranks that choose differently deadlock.
 *
 * Measured on one machine of 2 cores, 2 and 4 ranks, over shared memory and tcp. Two ranks: mapped
 * takes 1.2 times one-shot on short messages whatever the size, and one-shot over tcp beats
 * reduce-scatter and all-gather at every size, because it sends the same bytes in half the rounds.
 * Four ranks: each round costs context switches, so one-shot wins up to 16 KiB, and few long
 * messages (halving) up to 512 KiB. Where each message is a system call (tcp), the number of
 * messages costs more than the rounds, and doubling, with two messages instead of three, takes 35
 * us where one-shot takes 50.
 *
 * Algorithms in which each rank communicates with all others need ranks times ranks connections,
 * and as many messages. With 256 ranks on 2 cores over shared memory a step took 18 s with them and
 * 0.8 s without (single runs of a tiny job on a loaded machine). With 64 ranks there was no
 * difference, and with 48 they were twice as fast; nothing was measured between 65 and 255. */
#include <stdio.h>
#include <string.h>

#include "config/constraints.h"
#include "schedule/algorithm.h"
#include "schedule/request.h"

/* All thresholds are bytes of the larger side. */
#define EXCHANGE_SPREAD (64u << 10) /* more than two ranks: one-shot while a rank sends less */
#define HALVING_MIN (16u << 10)     /* powers of two: few messages from here ... */
#define HALVING_MAX (512u << 10)    /* ... to here; then pairwise or, on many ranks, the ring */
#define FEW_RANKS 16u               /* up to here, all-to-all connections are cheap */
#define MANY_RANKS 64u              /* beyond, all-to-all connections only to round the sum once */
#define TREE_MAX (64u << 10)        /* broadcast: tree up to here, then the chain */
#define MAPPED_SUM_2 320u           /* mapped from here on: sums, two ranks */
#define MAPPED_MOVE_2 (4u << 10)    /* ... and the kinds that only move bytes */
#define MAPPED_SUM (4u << 10)       /* the same for more ranks */
#define MAPPED_MOVE (16u << 10)

static int should_map(const sched_request *r, uint64_t bytes)
{
    uint64_t two = sched_reduces(r->kind) ? MAPPED_SUM_2 : MAPPED_MOVE_2,
             more = sched_reduces(r->kind) ? MAPPED_SUM : MAPPED_MOVE;
    int in_place_swap = r->kind == WEFT_ALL_TO_ALL && r->in_place;
    return sched_link_maps(r->link_caps) && bytes >= (r->ranks == 2 ? two : more) &&
           r->ranks <= MANY_RANKS && !in_place_swap;
}

static int power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

/* Few ranks: halve where it has few rounds. Many ranks: where messages are short. */
static bool should_halve(const sched_request *r, uint64_t bytes)
{
    if (bytes > HALVING_MAX || r->ranks == 2)
        return false;
    return r->ranks > FEW_RANKS || (power_of_two(r->ranks) && bytes > HALVING_MIN);
}

/* Several machines, one of them with several members: these share its network. */
static int should_level(const sched_request *r)
{
    return r->layout && r->layout->machines > 1 && r->layout->machines < r->ranks &&
           (sched_hierarchical.kinds & SCHED_ON(r->kind)) && !sched_sum_rounds(r);
}

/* A link that neither maps peers' memory nor registers its own makes a system call per message. */
static int should_double(const sched_request *r, uint64_t bytes)
{
    return r->kind == WEFT_ALL_REDUCE && r->ranks > 2 && power_of_two(r->ranks) &&
           !(r->link_caps & (WEFT_LINK_MAP | WEFT_LINK_REGISTER)) && !sched_sum_rounds(r) &&
           bytes <= EXCHANGE_SPREAD / (uint32_t)__builtin_ctz(r->ranks); /* as many rounds */
}

static const sched_algorithm *for_sums(const sched_request *r, uint64_t bytes)
{
    int whole = r->kind != WEFT_REDUCE_SCATTER;
    if (should_double(r, bytes))
        return &sched_doubling;
    if (whole && r->ranks <= MANY_RANKS &&
        (r->ranks == 2 || bytes <= EXCHANGE_SPREAD / (r->ranks - 1)))
        return &sched_one_shot;
    if (sched_sum_rounds(r))
        return &sched_pairwise;
    if (r->kind != WEFT_REDUCE && should_halve(r, bytes))
        return &sched_halving;
    return r->ranks <= FEW_RANKS ? &sched_pairwise : &sched_ring;
}

static const sched_algorithm *by_thresholds(const sched_request *r)
{
    uint64_t bytes = r->count * weft_dtype_size(r->dtype);
    if (r->kind == WEFT_BARRIER)
        return &sched_dissemination;
    if (r->kind != WEFT_SHIFT && should_map(r, bytes))
        return &sched_mapped;
    if (should_level(r))
        return &sched_hierarchical;
    if (sched_reduces(r->kind))
        return for_sums(r, bytes);
    if (r->kind == WEFT_BROADCAST)
        return bytes <= TREE_MAX || r->ranks == 2 ? &sched_tree : &sched_chain;
    if (r->kind == WEFT_ALL_GATHER && r->ranks > FEW_RANKS)
        return should_halve(r, bytes) ? &sched_halving : &sched_ring;
    return &sched_pairwise;
}

/* Where devices import each other's memory, any other algorithm would pass through the host. */
const sched_algorithm *sched_select(const sched_request *r)
{
    if (r->staged && sched_able(&sched_mapped, r))
        return &sched_mapped;
    const sched_algorithm *cheapest = sched_cheapest(r);
    return cheapest ? cheapest : by_thresholds(r);
}

int sched_may_map(const char *algorithm)
{
    for (uint32_t i = 0; sched_algorithms[i]; i++)
        if (!strcmp(sched_algorithms[i]->name, algorithm))
            return (int)sched_algorithms[i]->maps;
    return 1;
}

static weft_status refuse(const char *name, const sched_request *r)
{
    char text[200] = "auto";
    size_t used = strlen(text);
    for (uint32_t i = 0; sched_algorithms[i]; i++)
        if (sched_able(sched_algorithms[i], r) && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, ", %s",
                                     sched_algorithms[i]->name);
    char what[64];
    snprintf(what, sizeof what, "%s%s", sched_kind_name(r->kind), r->in_place ? " in place" : "");
    return config_refuse(
        CONSTRAINT_ALGORITHM, NULL, NULL,
        (config_fact[]){
            {"comm.algorithm", 0, name}, {"operation", 0, what}, {"able", 0, text}, {0}});
}

/* Named algorithms apply to uncompressed operations only. */
static weft_status choose_compressed(const sched_request *r, const char *name,
                                     const sched_algorithm **out)
{
    const sched_layout *at = r->layout;
    *out =
        at && at->machines > 1 && at->machines < r->ranks ? &sched_hierarchical : &sched_compressed;
    if (strcmp(name, "auto") == 0 || strcmp(name, (*out)->name) == 0 ||
        strcmp(name, sched_compressed.name) == 0)
        return WEFT_OK;
    return config_refuse(CONSTRAINT_COMPRESS_ALGORITHM, NULL, NULL,
                         (config_fact[]){{"form", 0, sched_form_name(r->compress)},
                                         {"comm.algorithm", 0, name},
                                         {0}});
}

weft_status sched_choose(const sched_request *r, const sched_algorithm **out)
{
    const char *name = r->algorithm ? r->algorithm : "auto";
    const sched_algorithm *found = NULL;
    if (r->compress && r->ranks > 1)
        return choose_compressed(r, name, out);
    if (strcmp(name, "auto") == 0)
        found = r->ranks == 1 ? &sched_single : sched_select(r);
    for (uint32_t i = 0; sched_algorithms[i] && !found; i++)
        if (strcmp(sched_algorithms[i]->name, name) == 0)
            found = sched_algorithms[i];
    if (!found || (r->ranks > 1 && !sched_able(found, r)))
        return refuse(name, r);
    *out = r->ranks == 1 ? &sched_single : found;
    return WEFT_OK;
}
