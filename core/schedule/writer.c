/* schedule/writer.c: what algorithms call to write down their steps. While counting only numbers
 * are kept; see writer.h. */
#include <string.h>

#include "base/mem.h"
#include "schedule/algorithm.h"
#include "schedule/form.h"
#include "schedule/request.h"

/* A message is cut into no more chunks than this, however long it is. */
#define MOST_CHUNKS 1024

builder build_for(const comm_request *r, const comm_algorithm *a)
{
    builder b = {.r = r, .size = weft_dtype_size(r->dtype)};
    b.bytes = r->count * b.size;
    b.fair = !sched_equal_parts(r->kind);
    b.lines = comm_attached(r, a); /* devices have whole lines, and need no chunks */
    b.chunk = b.lines ? 0 : r->chunk ? lines(r->chunk) : a->chunk;
    if (b.chunk && b.chunk < lines(b.bytes / MOST_CHUNKS))
        b.chunk = lines(b.bytes / MOST_CHUNKS);
    uint64_t part = b.bytes / r->ranks * r->me;
    int smaller_out = r->kind == WEFT_REDUCE_SCATTER || r->kind == WEFT_SCATTER;
    int smaller_in = r->kind == WEFT_ALL_GATHER || r->kind == WEFT_GATHER;
    b.alias =
        r->in_place && !sched_is_pair(r->kind) && (!sched_has_root(r->kind) || r->me == r->root);
    b.alias_to = smaller_out ? COMM_IN : COMM_OUT;
    b.alias_at = smaller_out || smaller_in ? part : 0;
    return b;
}

static span part_at(const builder *b, uint32_t i)
{
    const comm_request *r = b->r;
    uint64_t n = r->ranks, grain = 1;
    if (b->fair && (b->lines || b->bytes / n >= 4096))
        grain = 64 / b->size;
    uint64_t units = r->count / grain, base = units / n, extra = units % n;
    uint64_t from = (i * base + (i < extra ? i : extra)) * grain;
    return (span){from * b->size, 0};
}

span build_parts(const builder *b, uint32_t first, uint32_t end)
{
    uint64_t from = part_at(b, first).at;
    uint64_t to = end == b->r->ranks ? b->bytes : part_at(b, end).at;
    return (span){from, to - from};
}

span build_part(const builder *b, uint32_t i)
{
    return build_parts(b, i, i + 1);
}

span build_chunk(const builder *b, span whole, uint64_t c)
{
    if (b->chunk == 0)
        return c == 0 ? whole : (span){whole.at + whole.bytes, 0};
    uint64_t at = c * b->chunk;
    if (at >= whole.bytes)
        return (span){whole.at + whole.bytes, 0};
    uint64_t left = whole.bytes - at;
    return (span){whole.at + at, left < b->chunk ? left : b->chunk};
}

uint64_t build_chunks(const builder *b, uint64_t bytes)
{
    if (bytes == 0)
        return 0;
    return b->chunk == 0 ? 1 : (bytes - 1) / b->chunk + 1;
}

uint64_t build_longest(const builder *b)
{
    uint64_t first = build_part(b, 0).bytes, last = build_part(b, b->r->ranks - 1).bytes;
    return first > last ? first : last;
}

comm_place build_scratch(builder *b, uint64_t bytes)
{
    comm_place p = {COMM_SCRATCH, 0, b->scratch};
    b->scratch += lines(bytes);
    return p;
}

/* The same bytes have one name: in place, the smaller side is a part of the larger. */
static comm_place one_name(const builder *b, comm_place p)
{
    if (!b->alias || p.buffer > COMM_OUT || p.buffer == b->alias_to)
        return p;
    return (comm_place){b->alias_to, 0, p.at + b->alias_at};
}

static uint32_t begin(builder *b, uint32_t what, uint32_t peer, uint64_t bytes)
{
    uint32_t n = b->steps++;
    if (b->program)
        b->program->step[n] =
            (comm_step){.what = what, .peer = peer, .bytes = bytes, .place = b->places};
    return n;
}

static void touch(builder *b, uint32_t step, comm_place p, uint64_t bytes, int write)
{
    if (!b->program)
        return;
    if (p.buffer >= COMM_PEER_IN) { /* only once the peer has said where */
        track_read(b->track, step, COMM_PLACES, p.rank * sizeof(comm_whereabouts),
                   sizeof(comm_whereabouts));
        return;
    }
    if (write)
        track_write(b->track, step, p.buffer, p.at, bytes);
    else
        track_read(b->track, step, p.buffer, p.at, bytes);
}

static void from(builder *b, uint32_t step, comm_place p, uint64_t bytes)
{
    p = one_name(b, p);
    if (b->program) {
        b->program->place[b->places] = p;
        b->program->step[step].nfrom++;
    }
    b->places++;
    touch(b, step, p, bytes, 0);
}

static void to(builder *b, uint32_t step, comm_place p, uint64_t bytes)
{
    p = one_name(b, p);
    if (b->program) {
        b->program->place[b->places] = p;
        b->program->step[step].nto++;
    }
    b->places++;
    if (p.buffer >= COMM_PEER_IN)
        b->sent += bytes;
    touch(b, step, p, bytes, 1);
}

uint32_t build_send(builder *b, uint32_t peer, comm_place place, uint64_t bytes)
{
    if (bytes == 0)
        return COMM_NO_STEP;
    uint32_t n = begin(b, COMM_SEND, peer, bytes);
    from(b, n, place, bytes);
    b->sent += bytes;
    b->messages++;
    return n;
}

uint32_t build_recv(builder *b, uint32_t peer, comm_place place, uint64_t bytes)
{
    if (bytes == 0)
        return COMM_NO_STEP;
    uint32_t n = begin(b, COMM_RECV, peer, bytes);
    to(b, n, place, bytes);
    return n;
}

uint32_t build_copy(builder *b, comm_place dst, comm_place src, uint64_t bytes)
{
    comm_place d = one_name(b, dst), s = one_name(b, src);
    if (bytes == 0 || memcmp(&d, &s, sizeof d) == 0)
        return COMM_NO_STEP;
    uint32_t n = begin(b, COMM_COPY, 0, bytes);
    from(b, n, src, bytes);
    to(b, n, dst, bytes);
    return n;
}

static void open_step(builder *b, uint32_t what, uint32_t peer, uint64_t bytes)
{
    b->open_as = (comm_step){.what = what, .peer = peer, .bytes = bytes};
    b->open = bytes ? begin(b, what, peer, bytes) : COMM_NO_STEP;
}

void build_reduce(builder *b, uint64_t bytes)
{
    open_step(b, COMM_REDUCE, 0, bytes);
}

void build_coding(builder *b, uint32_t what, uint64_t bytes)
{
    open_step(b, what, 0, bytes);
}

void build_summing(builder *b, uint32_t what, uint32_t plain, uint64_t bytes)
{
    open_step(b, what, plain, bytes);
}

void build_from(builder *b, comm_place p)
{
    if (b->open == COMM_NO_STEP)
        return;
    uint32_t nth = b->open_as.nfrom++;
    from(b, b->open, p, code_touched(b->r, &b->open_as, nth));
}

void build_to(builder *b, comm_place p)
{
    if (b->open == COMM_NO_STEP)
        return;
    uint32_t nth = b->open_as.nfrom + b->open_as.nto++;
    to(b, b->open, p, code_touched(b->r, &b->open_as, nth));
}

uint32_t build_reduced(builder *b)
{
    return b->open;
}

uint32_t build_reduce2(builder *b, comm_place dst, comm_place first, comm_place second,
                       uint64_t bytes)
{
    build_reduce(b, bytes);
    build_from(b, first);
    build_from(b, second);
    build_to(b, dst);
    return build_reduced(b);
}

uint32_t build_fetch(builder *b, comm_place place, uint64_t bytes)
{
    uint32_t step = begin(b, COMM_FETCH, 0, bytes);
    to(b, step, place, bytes);
    return step;
}

uint32_t build_store(builder *b, comm_place place, uint64_t bytes)
{
    uint32_t step = begin(b, COMM_STORE, 0, bytes);
    from(b, step, place, bytes);
    return step;
}

uint32_t build_flag(builder *b, uint32_t what)
{
    return begin(b, what, 0, 0);
}

uint32_t build_signal(builder *b, uint32_t peer)
{
    b->messages++;
    return begin(b, COMM_SEND, peer, 0);
}

uint32_t build_wait(builder *b, uint32_t peer)
{
    return begin(b, COMM_RECV, peer, 0);
}

void build_tell_place(builder *b, uint32_t peer)
{
    uint64_t size = sizeof(comm_whereabouts);
    uint32_t n = begin(b, COMM_SEND, peer, size);
    from(b, n, (comm_place){COMM_PLACES, 0, b->r->me * size}, size);
    b->messages++;
}

void build_hear_place(builder *b, uint32_t peer)
{
    uint64_t size = sizeof(comm_whereabouts);
    uint32_t n = begin(b, COMM_RECV, peer, size);
    to(b, n, (comm_place){COMM_PLACES, 0, peer * size}, size);
}

void build_after(builder *b, uint32_t step, uint32_t earlier)
{
    if (b->track)
        track_after(b->track, step, earlier);
}

void build_lent(builder *b, uint64_t bytes)
{
    b->sent += bytes;
}
