/* comm/schedule.c: from a request to a schedule: checks it, picks the algorithm, counts, and keeps
 * the steps when an operation is made of it. */
#include "comm/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "comm/code.h"
#include "comm/reduce.h"
#include "config/constraints.h"

/* A message is cut into no more chunks than this, however long it is. */
#define MOST_CHUNKS 1024

struct comm_schedule {
    comm_request r;
    const comm_algorithm *algorithm;
    uint64_t scratch, sent, kept;
    uint32_t steps, places, messages;
};

static const char *const kind_names[] = {
    "",        "all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "gather",
    "scatter", "all-to-all", "barrier",        "send",       "receive",   "shift",
};

const char *comm_kind_name(uint32_t kind)
{
    return kind >= WEFT_ALL_REDUCE && kind <= WEFT_SHIFT ? kind_names[kind] : "unknown operation";
}

static int reduces(uint32_t kind)
{
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER || kind == WEFT_REDUCE;
}

static int rooted(uint32_t kind)
{
    return kind == WEFT_BROADCAST || kind == WEFT_REDUCE || kind == WEFT_GATHER ||
           kind == WEFT_SCATTER;
}

static int between_two(uint32_t kind)
{
    return kind == WEFT_SEND || kind == WEFT_RECV;
}

/* Kinds whose parts are count / ranks each. */
static int equal_parts(uint32_t kind)
{
    return kind == WEFT_REDUCE_SCATTER || kind == WEFT_ALL_GATHER || kind == WEFT_GATHER ||
           kind == WEFT_SCATTER || kind == WEFT_ALL_TO_ALL;
}

static weft_status check_ranks(const comm_request *r)
{
    const char *what = comm_kind_name(r->kind);
    if (r->ranks == 0 || r->me >= r->ranks)
        return fail(WEFT_USAGE, "%s: rank %u of a group of %u ranks", what, r->me, r->ranks);
    if (r->kind == WEFT_SHIFT && r->root >= r->ranks)
        return fail(WEFT_USAGE, "%s: by %u in a group of %u ranks", what, r->root, r->ranks);
    if ((rooted(r->kind) || between_two(r->kind)) && r->root >= r->ranks)
        return fail(WEFT_USAGE, "%s: the %s is rank %u, but the group has %u ranks", what,
                    rooted(r->kind) ? "root" : "other end", r->root, r->ranks);
    if (between_two(r->kind) && r->root == r->me)
        return fail(WEFT_USAGE, "%s: rank %u is both ends", what, r->me);
    return WEFT_OK;
}

static weft_status check_request(const comm_request *r)
{
    const char *what = comm_kind_name(r->kind);
    if (r->kind < WEFT_ALL_REDUCE || r->kind > WEFT_SHIFT)
        return fail(WEFT_USAGE, "kind %u is no kind of communication", r->kind);
    uint64_t size = weft_dtype_size(r->dtype), bytes;
    if (r->kind == WEFT_BARRIER && r->count)
        return fail(WEFT_USAGE, "barrier: has no data, but a count of %llu was given",
                    (unsigned long long)r->count);
    if (size == 0 && r->kind != WEFT_BARRIER)
        return fail(WEFT_USAGE, "%s: type %u is no element type", what, r->dtype);
    if (!ck_mul(r->count, size, &bytes) || bytes > INT64_MAX)
        return fail(WEFT_USAGE, "%s: %llu elements of %llu bytes are more than can be addressed",
                    what, (unsigned long long)r->count, (unsigned long long)size);
    if (reduces(r->kind) && (r->redop < WEFT_SUM || r->redop > WEFT_MIN))
        return fail(WEFT_USAGE, "%s: reduction %u is none of sum, max and min", what, r->redop);
    if (reduces(r->kind) && !reduce_pick(r->dtype))
        return fail(WEFT_USAGE,
                    "%s: elements of type %u cannot be reduced; use f32, bf16, f16, "
                    "i32 or i64",
                    what, r->dtype);
    if (r->compress && (r->compress > COMM_TO_INT8 || r->redop != WEFT_SUM ||
                        (r->kind != WEFT_ALL_REDUCE && r->kind != WEFT_REDUCE_SCATTER) ||
                        (r->dtype != WEFT_F32 && r->dtype != WEFT_BF16 && r->dtype != WEFT_F16)))
        return fail(WEFT_USAGE,
                    "%s: only sums of f32, bf16 and f16 to all or in parts can travel compressed",
                    what);
    if (check_ranks(r) != WEFT_OK)
        return WEFT_USAGE;
    if (equal_parts(r->kind) && r->count % r->ranks)
        return fail(WEFT_USAGE, "%s: %llu elements do not divide into %u equal parts; pad them",
                    what, (unsigned long long)r->count, r->ranks);
    return WEFT_OK;
}

int comm_may_map(const char *algorithm)
{
    for (uint32_t i = 0; comm_algorithms[i]; i++)
        if (!strcmp(comm_algorithms[i]->name, algorithm))
            return (int)comm_algorithms[i]->maps;
    return 1;
}

int comm_link_maps(uint64_t link_caps)
{
    return (link_caps & WEFT_LINK_MAP) && !(link_caps & WEFT_LINK_REGISTER);
}

int comm_able(const comm_algorithm *a, const comm_request *r)
{
    if (!(a->kinds & COMM_ON(r->kind)) || (a->maps && !comm_link_maps(r->link_caps)))
        return 0;
    if (r->kind == WEFT_SHIFT && r->in_place)
        return 0; /* what arrives would lie over what has still to leave */
    if (comm_attached(r, a) && !attach_able(r))
        return 0;
    return !(a->maps && r->kind == WEFT_ALL_TO_ALL && r->in_place);
}

static weft_status refuse(const char *name, const comm_request *r)
{
    char text[200] = "auto";
    size_t used = strlen(text);
    for (uint32_t i = 0; comm_algorithms[i]; i++)
        if (comm_able(comm_algorithms[i], r) && used < sizeof text)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, ", %s", comm_algorithms[i]->name);
    char what[64];
    snprintf(what, sizeof what, "%s%s", comm_kind_name(r->kind), r->in_place ? " in place" : "");
    return combine_refuse(
        COMBINE_ALGORITHM, NULL, NULL,
        (combine_fact[]){
            {"comm.algorithm", 0, name}, {"operation", 0, what}, {"able", 0, text}, {0}});
}

/* Named algorithms are for what travels as it is. */
static weft_status choose_compressed(const comm_request *r, const char *name,
                                     const comm_algorithm **out)
{
    const comm_layout *at = r->layout;
    *out =
        at && at->machines > 1 && at->machines < r->ranks ? &comm_hierarchical : &comm_compressed;
    if (strcmp(name, "auto") == 0 || strcmp(name, (*out)->name) == 0 ||
        strcmp(name, comm_compressed.name) == 0)
        return WEFT_OK;
    return combine_refuse(COMBINE_COMPRESS_ALGORITHM, NULL, NULL,
                          (combine_fact[]){{"form", 0, comm_form_name(r->compress)},
                                           {"comm.algorithm", 0, name},
                                           {0}});
}

static weft_status choose(const comm_request *r, const comm_algorithm **out)
{
    const char *name = r->algorithm ? r->algorithm : "auto";
    const comm_algorithm *found = NULL;
    if (r->compress && r->ranks > 1)
        return choose_compressed(r, name, out);
    if (strcmp(name, "auto") == 0)
        found = r->ranks == 1 ? &comm_alone : comm_select(r);
    for (uint32_t i = 0; comm_algorithms[i] && !found; i++)
        if (strcmp(comm_algorithms[i]->name, name) == 0)
            found = comm_algorithms[i];
    if (!found || (r->ranks > 1 && !comm_able(found, r)))
        return refuse(name, r);
    *out = r->ranks == 1 ? &comm_alone : found;
    return WEFT_OK;
}

builder build_for(const comm_request *r, const comm_algorithm *a)
{
    builder b = {.r = r, .size = weft_dtype_size(r->dtype)};
    b.bytes = r->count * b.size;
    b.fair = !equal_parts(r->kind);
    b.lines = comm_attached(r, a); /* devices have whole lines, and need no chunks */
    b.chunk = b.lines ? 0 : r->chunk ? lines(r->chunk) : a->chunk;
    if (b.chunk && b.chunk < lines(b.bytes / MOST_CHUNKS))
        b.chunk = lines(b.bytes / MOST_CHUNKS);
    uint64_t part = b.bytes / r->ranks * r->me;
    int smaller_out = r->kind == WEFT_REDUCE_SCATTER || r->kind == WEFT_SCATTER;
    int smaller_in = r->kind == WEFT_ALL_GATHER || r->kind == WEFT_GATHER;
    b.alias = r->in_place && !between_two(r->kind) && (!rooted(r->kind) || r->me == r->root);
    b.alias_to = smaller_out ? COMM_IN : COMM_OUT;
    b.alias_at = smaller_out || smaller_in ? part : 0;
    return b;
}

void comm_sides(const comm_request *r, uint64_t *in, uint64_t *out)
{
    uint64_t all = r->count * weft_dtype_size(r->dtype), part = all / r->ranks;
    int root = r->me == r->root;
    *in = *out = all;
    switch (r->kind) {
    case WEFT_REDUCE_SCATTER: *out = part; break;
    case WEFT_ALL_GATHER: *in = part; break;
    case WEFT_BROADCAST: *in = root ? all : 0; break;
    case WEFT_REDUCE: *out = root ? all : 0; break;
    case WEFT_SCATTER:
        *in = root ? all : 0;
        *out = part;
        break;
    case WEFT_GATHER:
        *in = part;
        *out = root ? all : 0;
        break;
    case WEFT_SEND: *out = 0; break;
    case WEFT_RECV: *in = 0; break;
    default: break;
    }
}

static void emit(builder *b, const comm_algorithm *a)
{
    const int mirrored = b->r->staged && !comm_attached(b->r, a);
    if (mirrored)
        stage_fetches(b);
    a->emit(b);
    if (mirrored)
        stage_stores(b);
}

weft_status comm_schedule_make(const comm_request *r, comm_schedule **out)
{
    const comm_algorithm *algorithm = NULL;
    weft_status st = check_request(r);
    if (st == WEFT_OK)
        st = choose(r, &algorithm);
    return st == WEFT_OK ? comm_schedule_with(r, algorithm, out) : st;
}

weft_status comm_schedule_with(const comm_request *r, const comm_algorithm *algorithm,
                               comm_schedule **out)
{
    weft_status st = check_request(r);
    if (st != WEFT_OK)
        return st;
    comm_schedule *s = mem_alloc(sizeof *s);
    s->r = *r;
    s->r.algorithm = algorithm->name;
    s->algorithm = algorithm;
    builder b = build_for(&s->r, algorithm);
    emit(&b, algorithm);
    s->scratch = b.scratch + (r->staged && !algorithm->maps ? stage_room(&s->r) : 0);
    s->sent = b.sent;
    s->kept = b.kept;
    s->steps = b.steps;
    s->places = b.places;
    s->messages = b.messages;
    *out = s;
    return WEFT_OK;
}

void comm_schedule_free(comm_schedule *s)
{
    free(s);
}

uint64_t comm_schedule_scratch(const comm_schedule *s)
{
    return s->scratch;
}

uint64_t comm_schedule_kept(const comm_schedule *s)
{
    return s->kept;
}

uint64_t comm_schedule_sent(const comm_schedule *s)
{
    return s->sent;
}

uint32_t comm_schedule_messages(const comm_schedule *s)
{
    return s->messages;
}

const char *comm_schedule_algorithm(const comm_schedule *s)
{
    return s->algorithm->name;
}

const comm_request *comm_schedule_request(const comm_schedule *s)
{
    return &s->r;
}

int comm_schedule_maps(const comm_schedule *s)
{
    return (int)s->algorithm->maps;
}

static void count_messages(comm_program *p, const uint32_t *lane_of)
{
    for (uint32_t i = 0; i < p->steps; i++) {
        const comm_step *s = &p->step[i];
        uint32_t width = s->nfrom + s->nto;
        p->widest = width > p->widest ? width : p->widest;
        if (s->what == COMM_SEND)
            p->lane[lane_of[s->peer]].sends++;
        else if (s->what == COMM_RECV)
            p->lane[lane_of[s->peer]].recvs++;
        else
            p->moves++;
    }
}

/* A lane for each peer that the steps name, in the order of peers. */
static void lay_lanes(comm_program *p, uint32_t ranks)
{
    uint32_t *lane_of = mem_alloc(ranks * sizeof *lane_of), at = 0;
    for (uint32_t i = 0; i < p->steps; i++)
        if (p->step[i].what <= COMM_RECV)
            lane_of[p->step[i].peer] = 1;
    p->lane = mem_alloc(ranks * sizeof *p->lane);
    for (uint32_t i = 0; i < ranks; i++)
        if (lane_of[i]) {
            lane_of[i] = p->lanes;
            p->lane[p->lanes++].peer = i;
        }
    count_messages(p, lane_of);
    p->order = mem_alloc((uint64_t)(p->steps - p->moves) * sizeof *p->order);
    for (uint32_t i = 0; i < p->lanes; i++) {
        comm_lane *l = &p->lane[i];
        l->send = at;
        l->recv = at + l->sends;
        at = l->recv + l->recvs;
        l->sends = l->recvs = 0;
    }
    for (uint32_t i = 0; i < p->steps; i++) {
        comm_lane *l = &p->lane[lane_of[p->step[i].peer]];
        if (p->step[i].what == COMM_SEND)
            p->order[l->send + l->sends++] = i;
        else if (p->step[i].what == COMM_RECV)
            p->order[l->recv + l->recvs++] = i;
    }
    free(lane_of);
}

void comm_program_make(const comm_schedule *s, comm_program *out)
{
    *out = (comm_program){.steps = s->steps};
    out->step = mem_alloc((uint64_t)s->steps * sizeof *out->step);
    out->place = mem_alloc((uint64_t)s->places * sizeof *out->place);
    builder b = build_for(&s->r, s->algorithm);
    b.program = out;
    b.track = track_create();
    emit(&b, s->algorithm);
    track_finish(b.track, out);
    track_destroy(b.track);
    lay_lanes(out, s->r.ranks);
}

void comm_program_free(comm_program *p)
{
    free(p->step);
    free(p->place);
    free(p->next);
    free(p->order);
    free(p->lane);
    *p = (comm_program){0};
}
