/* job/beats/frame.c: see frame.h. */
#include "job/beats/frame.h"

void job_beat_pack_mark(const job_beat_mark *m, uint8_t out[BEAT_UP_BYTES])
{
    job_wire_put64(out, m->step);
    job_wire_put64(out + 8, m->place);
}

static void unpack_mark(const uint8_t *from, job_beat_mark *out)
{
    out->step = job_wire_get64(from);
    out->place = job_wire_get64(from + 8);
}

void job_beat_pack_down(const job_beat_root *r, uint8_t out[BEAT_DOWN_BYTES])
{
    job_wire_put64(out, r->number);
    job_beat_pack_mark(&r->mark, out + 8);
}

bool job_beat_unpack_down(const job_wire_frame *f, job_beat_root *out)
{
    if (f->bytes != BEAT_DOWN_BYTES)
        return false;
    out->number = job_wire_get64(f->body);
    unpack_mark(f->body + 8, &out->mark);
    return true;
}

void job_beat_pack_entry(uint32_t rank, const job_beat_mark *m, uint8_t out[BEAT_ENTRY_BYTES])
{
    job_wire_put32(out, rank);
    job_beat_pack_mark(m, out + 4);
}

bool job_beat_unpack_up(const job_wire_frame *f, job_beat_mark *out, uint32_t *entries)
{
    if (f->bytes < BEAT_UP_BYTES || f->bytes > BEAT_MAX ||
        (f->bytes - BEAT_UP_BYTES) % BEAT_ENTRY_BYTES)
        return false;
    unpack_mark(f->body, out);
    *entries = (f->bytes - BEAT_UP_BYTES) / BEAT_ENTRY_BYTES;
    return true;
}

uint32_t job_beat_entry(const job_wire_frame *f, uint32_t i, job_beat_mark *out)
{
    const uint8_t *at = f->body + BEAT_UP_BYTES + (uint64_t)i * BEAT_ENTRY_BYTES;
    unpack_mark(at + 4, out);
    return job_wire_get32(at);
}
