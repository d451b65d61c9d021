/* schedule/mirror.c: see mirror.h. */
#include "schedule/mirror.h"

#define CHUNK (1u << 20) /* bytes; at most LIMIT chunks per side */
#define LIMIT 64u

static uint64_t chunk_of(uint64_t bytes)
{
    return bytes > (uint64_t)CHUNK * LIMIT ? sched_align_line((bytes + LIMIT - 1) / LIMIT) : CHUNK;
}

static uint32_t chunks(uint64_t bytes)
{
    uint64_t chunk = chunk_of(bytes);
    return (uint32_t)((bytes + chunk - 1) / chunk);
}

sched_span sched_mirror_chunk(uint64_t bytes, uint32_t i)
{
    uint64_t chunk = chunk_of(bytes), at = i * chunk;
    return (sched_span){at, bytes - at < chunk ? bytes - at : chunk};
}

void sched_mirror_fetches(sched_writer *w)
{
    uint64_t in, out;
    sched_sides(w->r, &in, &out);
    for (uint32_t i = 0; i < chunks(in); i++) {
        sched_span s = sched_mirror_chunk(in, i);
        sched_writer_fetch(w, sched_in_at(s.at), s.bytes);
    }
}

void sched_mirror_stores(sched_writer *w)
{
    uint64_t in, out;
    sched_sides(w->r, &in, &out);
    for (uint32_t i = 0; i < chunks(out); i++) {
        sched_span s = sched_mirror_chunk(out, i);
        sched_writer_store(w, sched_out_at(s.at), s.bytes);
    }
}

uint64_t sched_mirror_bytes(const sched_request *r)
{
    uint64_t in, out;
    sched_sides(r, &in, &out);
    return sched_align_line(in) + sched_align_line(out); /* in place, one of them is unused */
}
