/* schedule/writer.c: the functions with which algorithms write their steps. While counting, only
 * totals are kept; see writer.h. */
#include <string.h>

#include "base/mem.h"
#include "schedule/algorithm.h"
#include "schedule/form.h"
#include "schedule/request.h"

/* Limit on the chunks of one message, whatever its length. */
#define MOST_CHUNKS 1024

sched_writer sched_writer_begin(const sched_request *r, const sched_algorithm *a)
{
    sched_writer b = {.r = r, .size = weft_dtype_size(r->dtype)};
    b.bytes = r->count * b.size;
    b.fair = !sched_equal_parts(r->kind);
    b.lines = sched_device_reads_peers(r, a); /* devices take whole lines and need no chunks */
    b.chunk = b.lines ? 0 : r->chunk ? sched_align_line(r->chunk) : a->chunk;
    if (b.chunk && b.chunk < sched_align_line(b.bytes / MOST_CHUNKS))
        b.chunk = sched_align_line(b.bytes / MOST_CHUNKS);
    uint64_t part = b.bytes / r->ranks * r->me;
    int smaller_out = r->kind == WEFT_REDUCE_SCATTER || r->kind == WEFT_SCATTER;
    int smaller_in = r->kind == WEFT_ALL_GATHER || r->kind == WEFT_GATHER;
    b.alias =
        r->in_place && !sched_is_pair(r->kind) && (!sched_has_root(r->kind) || r->me == r->root);
    b.alias_to = smaller_out ? SCHED_IN : SCHED_OUT;
    b.alias_at = smaller_out || smaller_in ? part : 0;
    return b;
}

static sched_span part_at(const sched_writer *b, uint32_t i)
{
    const sched_request *r = b->r;
    uint64_t n = r->ranks, grain = 1;
    if (b->fair && (b->lines || b->bytes / n >= 4096))
        grain = 64 / b->size;
    uint64_t units = r->count / grain, base = units / n, extra = units % n;
    uint64_t from = (i * base + (i < extra ? i : extra)) * grain;
    return (sched_span){from * b->size, 0};
}

sched_span sched_writer_parts(const sched_writer *b, uint32_t first, uint32_t end)
{
    uint64_t from = part_at(b, first).at;
    uint64_t to = end == b->r->ranks ? b->bytes : part_at(b, end).at;
    return (sched_span){from, to - from};
}

sched_span sched_writer_part(const sched_writer *b, uint32_t i)
{
    return sched_writer_parts(b, i, i + 1);
}

sched_span sched_writer_chunk(const sched_writer *b, sched_span whole, uint64_t c)
{
    if (b->chunk == 0)
        return c == 0 ? whole : (sched_span){whole.at + whole.bytes, 0};
    uint64_t at = c * b->chunk;
    if (at >= whole.bytes)
        return (sched_span){whole.at + whole.bytes, 0};
    uint64_t left = whole.bytes - at;
    return (sched_span){whole.at + at, left < b->chunk ? left : b->chunk};
}

uint64_t sched_writer_chunks(const sched_writer *b, uint64_t bytes)
{
    if (bytes == 0)
        return 0;
    return b->chunk == 0 ? 1 : (bytes - 1) / b->chunk + 1;
}

uint64_t sched_writer_longest_part(const sched_writer *b)
{
    uint64_t first = sched_writer_part(b, 0).bytes,
             last = sched_writer_part(b, b->r->ranks - 1).bytes;
    return first > last ? first : last;
}

sched_place sched_writer_scratch(sched_writer *b, uint64_t bytes)
{
    sched_place p = {SCHED_SCRATCH, 0, b->scratch};
    b->scratch += sched_align_line(bytes);
    return p;
}

/* Gives the same bytes one name: in place, the smaller side is a part of the larger. */
static sched_place one_name(const sched_writer *b, sched_place p)
{
    if (!b->alias || p.buffer > SCHED_OUT || p.buffer == b->alias_to)
        return p;
    return (sched_place){b->alias_to, 0, p.at + b->alias_at};
}

static uint32_t begin(sched_writer *b, uint32_t what, uint32_t peer, uint64_t bytes)
{
    uint32_t n = b->steps++;
    if (b->program)
        b->program->step[n] =
            (sched_step){.what = what, .peer = peer, .bytes = bytes, .place = b->places};
    return n;
}

static void touch(sched_writer *b, uint32_t step, sched_place p, uint64_t bytes, int write)
{
    if (!b->program)
        return;
    if (p.buffer >= SCHED_PEER_IN) { /* only after the peer has sent its offsets */
        sched_deps_read(b->track, step, SCHED_OFFSETS, p.rank * sizeof(sched_buffer_offsets),
                        sizeof(sched_buffer_offsets));
        return;
    }
    if (write)
        sched_deps_write(b->track, step, p.buffer, p.at, bytes);
    else
        sched_deps_read(b->track, step, p.buffer, p.at, bytes);
}

static void from(sched_writer *b, uint32_t step, sched_place p, uint64_t bytes)
{
    p = one_name(b, p);
    if (b->program) {
        b->program->place[b->places] = p;
        b->program->step[step].nfrom++;
    }
    b->places++;
    touch(b, step, p, bytes, 0);
}

static void to(sched_writer *b, uint32_t step, sched_place p, uint64_t bytes)
{
    p = one_name(b, p);
    if (b->program) {
        b->program->place[b->places] = p;
        b->program->step[step].nto++;
    }
    b->places++;
    if (p.buffer >= SCHED_PEER_IN)
        b->sent += bytes;
    touch(b, step, p, bytes, 1);
}

uint32_t sched_writer_send(sched_writer *b, uint32_t peer, sched_place place, uint64_t bytes)
{
    if (bytes == 0)
        return SCHED_NO_STEP;
    uint32_t n = begin(b, SCHED_SEND, peer, bytes);
    from(b, n, place, bytes);
    b->sent += bytes;
    return n;
}

uint32_t sched_writer_recv(sched_writer *b, uint32_t peer, sched_place place, uint64_t bytes)
{
    if (bytes == 0)
        return SCHED_NO_STEP;
    uint32_t n = begin(b, SCHED_RECV, peer, bytes);
    to(b, n, place, bytes);
    return n;
}

uint32_t sched_writer_copy(sched_writer *b, sched_place dst, sched_place src, uint64_t bytes)
{
    sched_place d = one_name(b, dst), s = one_name(b, src);
    if (bytes == 0 || memcmp(&d, &s, sizeof d) == 0)
        return SCHED_NO_STEP;
    uint32_t n = begin(b, SCHED_COPY, 0, bytes);
    from(b, n, src, bytes);
    to(b, n, dst, bytes);
    return n;
}

static void open_step(sched_writer *b, uint32_t what, uint32_t peer, uint64_t bytes)
{
    b->open_as = (sched_step){.what = what, .peer = peer, .bytes = bytes};
    b->open = bytes ? begin(b, what, peer, bytes) : SCHED_NO_STEP;
}

void sched_writer_reduce(sched_writer *b, uint64_t bytes)
{
    open_step(b, SCHED_REDUCE, 0, bytes);
}

void sched_writer_code(sched_writer *b, uint32_t what, uint64_t bytes)
{
    open_step(b, what, 0, bytes);
}

void sched_writer_reduce_codes(sched_writer *b, uint32_t what, uint32_t plain, uint64_t bytes)
{
    open_step(b, what, plain, bytes);
}

void sched_writer_from(sched_writer *b, sched_place p)
{
    if (b->open == SCHED_NO_STEP)
        return;
    uint32_t nth = b->open_as.nfrom++;
    from(b, b->open, p, sched_code_touched(b->r, &b->open_as, nth));
}

void sched_writer_to(sched_writer *b, sched_place p)
{
    if (b->open == SCHED_NO_STEP)
        return;
    uint32_t nth = b->open_as.nfrom + b->open_as.nto++;
    to(b, b->open, p, sched_code_touched(b->r, &b->open_as, nth));
}

uint32_t sched_writer_reduce_end(sched_writer *b)
{
    return b->open;
}

uint32_t sched_writer_reduce2(sched_writer *b, sched_place dst, sched_place first,
                              sched_place second, uint64_t bytes)
{
    sched_writer_reduce(b, bytes);
    sched_writer_from(b, first);
    sched_writer_from(b, second);
    sched_writer_to(b, dst);
    return sched_writer_reduce_end(b);
}

uint32_t sched_writer_fetch(sched_writer *b, sched_place place, uint64_t bytes)
{
    uint32_t step = begin(b, SCHED_FETCH, 0, bytes);
    to(b, step, place, bytes);
    return step;
}

uint32_t sched_writer_store(sched_writer *b, sched_place place, uint64_t bytes)
{
    uint32_t step = begin(b, SCHED_STORE, 0, bytes);
    from(b, step, place, bytes);
    return step;
}

uint32_t sched_writer_flag(sched_writer *b, uint32_t what)
{
    return begin(b, what, 0, 0);
}

uint32_t sched_writer_signal(sched_writer *b, uint32_t peer)
{
    return begin(b, SCHED_SEND, peer, 0);
}

uint32_t sched_writer_wait(sched_writer *b, uint32_t peer)
{
    return begin(b, SCHED_RECV, peer, 0);
}

void sched_writer_send_offsets(sched_writer *b, uint32_t peer)
{
    uint64_t size = sizeof(sched_buffer_offsets);
    uint32_t n = begin(b, SCHED_SEND, peer, size);
    from(b, n, (sched_place){SCHED_OFFSETS, 0, b->r->me * size}, size);
}

void sched_writer_recv_offsets(sched_writer *b, uint32_t peer)
{
    uint64_t size = sizeof(sched_buffer_offsets);
    uint32_t n = begin(b, SCHED_RECV, peer, size);
    to(b, n, (sched_place){SCHED_OFFSETS, 0, peer * size}, size);
}

void sched_writer_after(sched_writer *b, uint32_t step, uint32_t earlier)
{
    if (b->track)
        sched_deps_after(b->track, step, earlier);
}

void sched_writer_peer_reads(sched_writer *b, uint64_t bytes)
{
    b->sent += bytes;
}
