/* schedule/mirror.c: see mirror.h. */
#include "schedule/mirror.h"

#define PIECE (1u << 20) /* bytes; at most MOST pieces per side */
#define MOST 64u

static uint64_t piece_of(uint64_t bytes)
{
    return bytes > (uint64_t)PIECE * MOST ? sched_align_line((bytes + MOST - 1) / MOST) : PIECE;
}

static uint32_t pieces(uint64_t bytes)
{
    uint64_t piece = piece_of(bytes);
    return (uint32_t)((bytes + piece - 1) / piece);
}

sched_span sched_mirror_piece(uint64_t bytes, uint32_t i)
{
    uint64_t piece = piece_of(bytes), at = i * piece;
    return (sched_span){at, bytes - at < piece ? bytes - at : piece};
}

void sched_mirror_fetches(sched_writer *w)
{
    uint64_t in, out;
    sched_sides(w->r, &in, &out);
    for (uint32_t i = 0; i < pieces(in); i++) {
        sched_span s = sched_mirror_piece(in, i);
        sched_writer_fetch(w, sched_in_at(s.at), s.bytes);
    }
}

void sched_mirror_stores(sched_writer *w)
{
    uint64_t in, out;
    sched_sides(w->r, &in, &out);
    for (uint32_t i = 0; i < pieces(out); i++) {
        sched_span s = sched_mirror_piece(out, i);
        sched_writer_store(w, sched_out_at(s.at), s.bytes);
    }
}

uint64_t sched_mirror_bytes(const sched_request *r)
{
    uint64_t in, out;
    sched_sides(r, &in, &out);
    return sched_align_line(in) + sched_align_line(out); /* in place, one of them is unused */
}
