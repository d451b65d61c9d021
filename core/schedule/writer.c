/* schedule/writer.c: the functions with which algorithms write their steps. While counting, only
 * totals are kept; see writer.h. */
#include <string.h>

#include "schedule/algorithm.h"
#include "schedule/form.h"
#include "schedule/request.h"

/* Limit on the chunks of one message, whatever its length. */
#define MAX_CHUNKS 1024

sched_writer sched_writer_begin(const sched_request *r, const sched_algorithm *a)
{
    sched_writer w = {.r = r, .size = weft_dtype_size(r->dtype)};
    w.bytes = r->count * w.size;
    w.fair = !sched_equal_parts(r->kind);
    w.lines = sched_device_reads_peers(r, a); /* devices take whole lines and need no chunks */
    w.chunk = w.lines ? 0 : r->chunk ? sched_align_line(r->chunk) : a->chunk;
    if (w.chunk && w.chunk < sched_align_line(w.bytes / MAX_CHUNKS))
        w.chunk = sched_align_line(w.bytes / MAX_CHUNKS);
    uint64_t part = w.bytes / r->ranks * r->me;
    int smaller_out = r->kind == WEFT_REDUCE_SCATTER || r->kind == WEFT_SCATTER;
    int smaller_in = r->kind == WEFT_ALL_GATHER || r->kind == WEFT_GATHER;
    w.alias =
        r->in_place && !sched_is_pair(r->kind) && (!sched_has_root(r->kind) || r->me == r->root);
    w.alias_to = smaller_out ? SCHED_IN : SCHED_OUT;
    w.alias_at = smaller_out || smaller_in ? part : 0;
    return w;
}

static sched_span part_at(const sched_writer *w, uint32_t i)
{
    const sched_request *r = w->r;
    uint64_t n = r->ranks, grain = 1;
    if (w->fair && (w->lines || w->bytes / n >= 4096))
        grain = 64 / w->size;
    uint64_t units = r->count / grain, base = units / n, extra = units % n;
    uint64_t from = (i * base + (i < extra ? i : extra)) * grain;
    return (sched_span){from * w->size, 0};
}

sched_span sched_writer_parts(const sched_writer *w, uint32_t first, uint32_t end)
{
    uint64_t from = part_at(w, first).at;
    uint64_t to = end == w->r->ranks ? w->bytes : part_at(w, end).at;
    return (sched_span){from, to - from};
}

sched_span sched_writer_part(const sched_writer *w, uint32_t i)
{
    return sched_writer_parts(w, i, i + 1);
}

sched_span sched_writer_chunk(const sched_writer *w, sched_span whole, uint64_t c)
{
    if (w->chunk == 0)
        return c == 0 ? whole : (sched_span){whole.at + whole.bytes, 0};
    uint64_t at = c * w->chunk;
    if (at >= whole.bytes)
        return (sched_span){whole.at + whole.bytes, 0};
    uint64_t left = whole.bytes - at;
    return (sched_span){whole.at + at, left < w->chunk ? left : w->chunk};
}

uint64_t sched_writer_chunks(const sched_writer *w, uint64_t bytes)
{
    if (bytes == 0)
        return 0;
    return w->chunk == 0 ? 1 : (bytes - 1) / w->chunk + 1;
}

uint64_t sched_writer_longest_part(const sched_writer *w)
{
    uint64_t first = sched_writer_part(w, 0).bytes,
             last = sched_writer_part(w, w->r->ranks - 1).bytes;
    return first > last ? first : last;
}

sched_place sched_writer_scratch(sched_writer *w, uint64_t bytes)
{
    sched_place p = {SCHED_SCRATCH, 0, w->scratch};
    w->scratch += sched_align_line(bytes);
    return p;
}

sched_landing sched_writer_landing_of(sched_writer *w, uint64_t longest, uint64_t bytes,
                                      uint32_t places)
{
    const uint64_t chunks = sched_writer_chunks(w, longest);
    sched_landing l = {.stride = sched_align_line(bytes)};
    l.each = l.stride * places;
    l.base = sched_writer_scratch(
        w, l.each * (chunks < SCHED_LANDING_CHUNKS ? chunks : SCHED_LANDING_CHUNKS));
    return l;
}

sched_landing sched_writer_landing(sched_writer *w, uint64_t longest, uint32_t places)
{
    const sched_span first = sched_writer_chunk(w, (sched_span){0, longest}, 0);
    return sched_writer_landing_of(w, longest, first.bytes, places);
}

sched_place sched_landed(const sched_landing *l, uint64_t chunk, uint32_t place)
{
    return sched_place_plus(l->base, chunk % SCHED_LANDING_CHUNKS * l->each + place * l->stride);
}

/* Gives the same bytes one name: in place, the smaller side is a part of the larger. */
static sched_place one_name(const sched_writer *w, sched_place p)
{
    if (!w->alias || p.buffer > SCHED_OUT || p.buffer == w->alias_to)
        return p;
    return (sched_place){w->alias_to, 0, p.at + w->alias_at};
}

static uint32_t begin(sched_writer *w, uint32_t what, uint32_t peer, uint64_t bytes)
{
    uint32_t n = w->steps++;
    if (w->program)
        w->program->step[n] =
            (sched_step){.what = what, .peer = peer, .bytes = bytes, .place = w->places};
    return n;
}

static void touch(sched_writer *w, uint32_t step, sched_place p, uint64_t bytes, int write)
{
    if (!w->program)
        return;
    if (p.buffer >= SCHED_PEER_IN) { /* only after the peer has sent its offsets */
        sched_deps_read(w->track, step, SCHED_OFFSETS, p.rank * sizeof(sched_buffer_offsets),
                        sizeof(sched_buffer_offsets));
        return;
    }
    if (write)
        sched_deps_write(w->track, step, p.buffer, p.at, bytes);
    else
        sched_deps_read(w->track, step, p.buffer, p.at, bytes);
}

static sched_place add_place(sched_writer *w, sched_place p)
{
    p = one_name(w, p);
    if (w->program)
        w->program->place[w->places] = p;
    w->places++;
    return p;
}

static void from(sched_writer *w, uint32_t step, sched_place p, uint64_t bytes)
{
    p = add_place(w, p);
    if (w->program)
        w->program->step[step].nfrom++;
    touch(w, step, p, bytes, 0);
}

static void to(sched_writer *w, uint32_t step, sched_place p, uint64_t bytes)
{
    p = add_place(w, p);
    if (w->program)
        w->program->step[step].nto++;
    if (p.buffer >= SCHED_PEER_IN)
        w->sent += bytes;
    touch(w, step, p, bytes, 1);
}

void sched_writer_send(sched_writer *w, uint32_t peer, sched_place place, uint64_t bytes)
{
    if (bytes == 0)
        return;
    from(w, begin(w, SCHED_SEND, peer, bytes), place, bytes);
    w->sent += bytes;
}

void sched_writer_recv(sched_writer *w, uint32_t peer, sched_place place, uint64_t bytes)
{
    if (bytes)
        to(w, begin(w, SCHED_RECV, peer, bytes), place, bytes);
}

void sched_writer_copy(sched_writer *w, sched_place dst, sched_place src, uint64_t bytes)
{
    sched_place d = one_name(w, dst), s = one_name(w, src);
    if (bytes == 0 || memcmp(&d, &s, sizeof d) == 0)
        return;
    uint32_t n = begin(w, SCHED_COPY, 0, bytes);
    from(w, n, src, bytes);
    to(w, n, dst, bytes);
}

void sched_writer_open(sched_writer *w, uint32_t what, uint32_t plain, uint64_t bytes)
{
    w->open_as = (sched_step){.what = what, .peer = plain, .bytes = bytes};
    w->open = bytes ? begin(w, what, plain, bytes) : SCHED_NO_STEP;
}

void sched_writer_from(sched_writer *w, sched_place p)
{
    if (w->open == SCHED_NO_STEP)
        return;
    uint32_t nth = w->open_as.nfrom++;
    from(w, w->open, p, sched_code_touched(w->r, &w->open_as, nth));
}

void sched_writer_to(sched_writer *w, sched_place p)
{
    if (w->open == SCHED_NO_STEP)
        return;
    uint32_t nth = w->open_as.nfrom + w->open_as.nto++;
    to(w, w->open, p, sched_code_touched(w->r, &w->open_as, nth));
}

void sched_writer_reduce2(sched_writer *w, sched_place dst, sched_place first, sched_place second,
                          uint64_t bytes)
{
    sched_writer_open(w, SCHED_REDUCE, 0, bytes);
    sched_writer_from(w, first);
    sched_writer_from(w, second);
    sched_writer_to(w, dst);
}

void sched_writer_fetch(sched_writer *w, sched_place place, uint64_t bytes)
{
    to(w, begin(w, SCHED_FETCH, 0, bytes), place, bytes);
}

void sched_writer_store(sched_writer *w, sched_place place, uint64_t bytes)
{
    from(w, begin(w, SCHED_STORE, 0, bytes), place, bytes);
}

uint32_t sched_writer_flag(sched_writer *w, uint32_t what)
{
    return begin(w, what, 0, 0);
}

uint32_t sched_writer_signal(sched_writer *w, uint32_t peer)
{
    return begin(w, SCHED_SEND, peer, 0);
}

uint32_t sched_writer_wait(sched_writer *w, uint32_t peer)
{
    return begin(w, SCHED_RECV, peer, 0);
}

void sched_writer_send_offsets(sched_writer *w, uint32_t peer)
{
    uint64_t size = sizeof(sched_buffer_offsets);
    uint32_t n = begin(w, SCHED_SEND, peer, size);
    from(w, n, (sched_place){SCHED_OFFSETS, 0, w->r->me * size}, size);
}

void sched_writer_recv_offsets(sched_writer *w, uint32_t peer)
{
    uint64_t size = sizeof(sched_buffer_offsets);
    uint32_t n = begin(w, SCHED_RECV, peer, size);
    to(w, n, (sched_place){SCHED_OFFSETS, 0, peer * size}, size);
}

void sched_writer_after(sched_writer *w, uint32_t step, uint32_t earlier)
{
    if (w->track)
        sched_deps_after(w->track, step, earlier);
}
