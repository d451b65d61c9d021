/* schedule/writer.c: what algorithms call to write down their steps. While counting only numbers
 * are kept; see writer.h. */
#include <string.h>

#include "base/mem.h"
#include "schedule/algorithm.h"
#include "schedule/form.h"
#include "schedule/request.h"

/* A message is cut into no more chunks than this, however long it is. */
#define MOST_CHUNKS 1024

sched_writer build_for(const comm_request *r, const comm_algorithm *a)
{
    sched_writer b = {.r = r, .size = weft_dtype_size(r->dtype)};
    b.bytes = r->count * b.size;
    b.fair = !sched_equal_parts(r->kind);
    b.lines = comm_attached(r, a); /* devices have whole lines, and need no chunks */
    b.chunk = b.lines ? 0 : r->chunk ? sched_align_line(r->chunk) : a->chunk;
    if (b.chunk && b.chunk < sched_align_line(b.bytes / MOST_CHUNKS))
        b.chunk = sched_align_line(b.bytes / MOST_CHUNKS);
    uint64_t part = b.bytes / r->ranks * r->me;
    int smaller_out = r->kind == WEFT_REDUCE_SCATTER || r->kind == WEFT_SCATTER;
    int smaller_in = r->kind == WEFT_ALL_GATHER || r->kind == WEFT_GATHER;
    b.alias =
        r->in_place && !sched_is_pair(r->kind) && (!sched_has_root(r->kind) || r->me == r->root);
    b.alias_to = smaller_out ? COMM_IN : COMM_OUT;
    b.alias_at = smaller_out || smaller_in ? part : 0;
    return b;
}

static sched_span part_at(const sched_writer *b, uint32_t i)
{
    const comm_request *r = b->r;
    uint64_t n = r->ranks, grain = 1;
    if (b->fair && (b->lines || b->bytes / n >= 4096))
        grain = 64 / b->size;
    uint64_t units = r->count / grain, base = units / n, extra = units % n;
    uint64_t from = (i * base + (i < extra ? i : extra)) * grain;
    return (sched_span){from * b->size, 0};
}

sched_span build_parts(const sched_writer *b, uint32_t first, uint32_t end)
{
    uint64_t from = part_at(b, first).at;
    uint64_t to = end == b->r->ranks ? b->bytes : part_at(b, end).at;
    return (sched_span){from, to - from};
}

sched_span sched_writer_part(const sched_writer *b, uint32_t i)
{
    return build_parts(b, i, i + 1);
}

sched_span build_chunk(const sched_writer *b, sched_span whole, uint64_t c)
{
    if (b->chunk == 0)
        return c == 0 ? whole : (sched_span){whole.at + whole.bytes, 0};
    uint64_t at = c * b->chunk;
    if (at >= whole.bytes)
        return (sched_span){whole.at + whole.bytes, 0};
    uint64_t left = whole.bytes - at;
    return (sched_span){whole.at + at, left < b->chunk ? left : b->chunk};
}

uint64_t build_chunks(const sched_writer *b, uint64_t bytes)
{
    if (bytes == 0)
        return 0;
    return b->chunk == 0 ? 1 : (bytes - 1) / b->chunk + 1;
}

uint64_t build_longest(const sched_writer *b)
{
    uint64_t first = sched_writer_part(b, 0).bytes,
             last = sched_writer_part(b, b->r->ranks - 1).bytes;
    return first > last ? first : last;
}

comm_place build_scratch(sched_writer *b, uint64_t bytes)
{
    comm_place p = {COMM_SCRATCH, 0, b->scratch};
    b->scratch += sched_align_line(bytes);
    return p;
}

/* The same bytes have one name: in place, the smaller side is a part of the larger. */
static comm_place one_name(const sched_writer *b, comm_place p)
{
    if (!b->alias || p.buffer > COMM_OUT || p.buffer == b->alias_to)
        return p;
    return (comm_place){b->alias_to, 0, p.at + b->alias_at};
}

static uint32_t begin(sched_writer *b, uint32_t what, uint32_t peer, uint64_t bytes)
{
    uint32_t n = b->steps++;
    if (b->program)
        b->program->step[n] =
            (comm_step){.what = what, .peer = peer, .bytes = bytes, .place = b->places};
    return n;
}

static void touch(sched_writer *b, uint32_t step, comm_place p, uint64_t bytes, int write)
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

static void from(sched_writer *b, uint32_t step, comm_place p, uint64_t bytes)
{
    p = one_name(b, p);
    if (b->program) {
        b->program->place[b->places] = p;
        b->program->step[step].nfrom++;
    }
    b->places++;
    touch(b, step, p, bytes, 0);
}

static void to(sched_writer *b, uint32_t step, comm_place p, uint64_t bytes)
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

uint32_t build_send(sched_writer *b, uint32_t peer, comm_place place, uint64_t bytes)
{
    if (bytes == 0)
        return COMM_NO_STEP;
    uint32_t n = begin(b, COMM_SEND, peer, bytes);
    from(b, n, place, bytes);
    b->sent += bytes;
    b->messages++;
    return n;
}

uint32_t build_recv(sched_writer *b, uint32_t peer, comm_place place, uint64_t bytes)
{
    if (bytes == 0)
        return COMM_NO_STEP;
    uint32_t n = begin(b, COMM_RECV, peer, bytes);
    to(b, n, place, bytes);
    return n;
}

uint32_t build_copy(sched_writer *b, comm_place dst, comm_place src, uint64_t bytes)
{
    comm_place d = one_name(b, dst), s = one_name(b, src);
    if (bytes == 0 || memcmp(&d, &s, sizeof d) == 0)
        return COMM_NO_STEP;
    uint32_t n = begin(b, COMM_COPY, 0, bytes);
    from(b, n, src, bytes);
    to(b, n, dst, bytes);
    return n;
}

static void open_step(sched_writer *b, uint32_t what, uint32_t peer, uint64_t bytes)
{
    b->open_as = (comm_step){.what = what, .peer = peer, .bytes = bytes};
    b->open = bytes ? begin(b, what, peer, bytes) : COMM_NO_STEP;
}

void build_reduce(sched_writer *b, uint64_t bytes)
{
    open_step(b, COMM_REDUCE, 0, bytes);
}

void build_coding(sched_writer *b, uint32_t what, uint64_t bytes)
{
    open_step(b, what, 0, bytes);
}

void build_summing(sched_writer *b, uint32_t what, uint32_t plain, uint64_t bytes)
{
    open_step(b, what, plain, bytes);
}

void build_from(sched_writer *b, comm_place p)
{
    if (b->open == COMM_NO_STEP)
        return;
    uint32_t nth = b->open_as.nfrom++;
    from(b, b->open, p, code_touched(b->r, &b->open_as, nth));
}

void build_to(sched_writer *b, comm_place p)
{
    if (b->open == COMM_NO_STEP)
        return;
    uint32_t nth = b->open_as.nfrom + b->open_as.nto++;
    to(b, b->open, p, code_touched(b->r, &b->open_as, nth));
}

uint32_t build_reduced(sched_writer *b)
{
    return b->open;
}

uint32_t build_reduce2(sched_writer *b, comm_place dst, comm_place first, comm_place second,
                       uint64_t bytes)
{
    build_reduce(b, bytes);
    build_from(b, first);
    build_from(b, second);
    build_to(b, dst);
    return build_reduced(b);
}

uint32_t build_fetch(sched_writer *b, comm_place place, uint64_t bytes)
{
    uint32_t step = begin(b, COMM_FETCH, 0, bytes);
    to(b, step, place, bytes);
    return step;
}

uint32_t build_store(sched_writer *b, comm_place place, uint64_t bytes)
{
    uint32_t step = begin(b, COMM_STORE, 0, bytes);
    from(b, step, place, bytes);
    return step;
}

uint32_t build_flag(sched_writer *b, uint32_t what)
{
    return begin(b, what, 0, 0);
}

uint32_t build_signal(sched_writer *b, uint32_t peer)
{
    b->messages++;
    return begin(b, COMM_SEND, peer, 0);
}

uint32_t build_wait(sched_writer *b, uint32_t peer)
{
    return begin(b, COMM_RECV, peer, 0);
}

void build_tell_place(sched_writer *b, uint32_t peer)
{
    uint64_t size = sizeof(comm_whereabouts);
    uint32_t n = begin(b, COMM_SEND, peer, size);
    from(b, n, (comm_place){COMM_PLACES, 0, b->r->me * size}, size);
    b->messages++;
}

void build_hear_place(sched_writer *b, uint32_t peer)
{
    uint64_t size = sizeof(comm_whereabouts);
    uint32_t n = begin(b, COMM_RECV, peer, size);
    to(b, n, (comm_place){COMM_PLACES, 0, peer * size}, size);
}

void build_after(sched_writer *b, uint32_t step, uint32_t earlier)
{
    if (b->track)
        track_after(b->track, step, earlier);
}

void build_lent(sched_writer *b, uint64_t bytes)
{
    b->sent += bytes;
}
