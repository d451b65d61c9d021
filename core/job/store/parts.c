/* job/store/parts.c: see parts.h. */
#include "job/store/parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/number/digest.h"

#define NOT_NUMBERED UINT32_MAX

void job_parts_begin(job_parts *p, uint32_t ranks, uint64_t bytes)
{
    *p = (job_parts){.ranks = ranks, .bytes = bytes};
    p->which = mem_alloc((uint64_t)ranks * sizeof *p->which);
}

void job_parts_end(job_parts *p)
{
    free(p->which);
    free(p->digest);
    free(p->at);
    *p = (job_parts){0};
}

void job_parts_add(job_parts *p, uint32_t rank, const void *part)
{
    uint64_t digest = DIGEST_BEGIN;
    if (p->bytes)
        digest_mix(&digest, part, p->bytes);
    for (uint32_t i = 0; i < p->different; i++)
        if (p->digest[i] == digest &&
            (!p->bytes || !memcmp(p->at + i * p->bytes, part, p->bytes))) {
            p->which[rank] = i;
            return;
        }
    if (p->different == p->capacity) {
        p->capacity = p->capacity ? 2 * p->capacity : 1;
        p->digest = mem_grow(p->digest, p->capacity * sizeof *p->digest);
        p->at = mem_grow(p->at, p->capacity * p->bytes + 1);
    }
    p->digest[p->different] = digest;
    if (p->bytes)
        memcpy(p->at + p->different * p->bytes, part, p->bytes);
    p->which[rank] = p->different++;
}

/* --- the answer --- */

static uint8_t *put(uint8_t *to, uint32_t v)
{
    for (; v >= 0x80; v >>= 7)
        *to++ = (uint8_t)(v | 0x80);
    *to++ = (uint8_t)v;
    return to;
}

static uint32_t count_runs(const job_parts *p)
{
    uint32_t runs = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        runs += !r || p->which[r] != p->which[r - 1];
    return runs;
}

uint8_t *job_parts_pack(const job_parts *p, uint64_t *n)
{
    uint8_t *answer = mem_alloc(PARTS_OVERHEAD(p->ranks) + p->different * p->bytes), *to = answer;
    uint32_t *number = mem_alloc(p->different * sizeof *number);
    uint32_t *order = mem_alloc(p->different * sizeof *order), numbered = 0;
    for (uint32_t i = 0; i < p->different; i++)
        number[i] = NOT_NUMBERED;
    to = put(put(to, p->different), count_runs(p));
    for (uint32_t r = 0, end; r < p->ranks; r = end) {
        const uint32_t part = p->which[r];
        for (end = r + 1; end < p->ranks && p->which[end] == part;)
            end++;
        if (number[part] == NOT_NUMBERED) {
            number[part] = numbered;
            order[numbered++] = part;
        }
        to = put(put(to, number[part]), end - r);
    }
    for (uint32_t i = 0; i < numbered && p->bytes; i++, to += p->bytes)
        memcpy(to, p->at + order[i] * p->bytes, p->bytes);
    free(number);
    free(order);
    *n = (uint64_t)(to - answer);
    return answer;
}

typedef struct reader {
    const uint8_t *at, *end;
    int bad;
} reader;

static uint32_t take(reader *r)
{
    uint32_t v = 0;
    for (uint32_t shift = 0; shift < 32; shift += 7) {
        if (r->at == r->end)
            break;
        const uint8_t byte = *r->at++;
        if (shift == 28 && byte > 15)
            break;
        v |= (uint32_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return v;
    }
    r->bad = 1;
    return 0;
}

/* Where the parts begin, after the runs; NULL: the runs do not fit this number of ranks. */
static const uint8_t *skip_runs(reader r, uint32_t different, uint32_t runs, uint32_t ranks)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < runs && !r.bad; i++) {
        const uint32_t part = take(&r), count = take(&r);
        sum += count;
        r.bad |= part >= different || !count || sum > ranks;
    }
    return r.bad || sum != ranks ? NULL : r.at;
}

weft_status job_parts_spread(const uint8_t *answer, uint64_t n, uint32_t ranks, uint64_t bytes,
                             uint8_t *all, uint64_t stride)
{
    reader r = {answer, answer + n, 0};
    const uint32_t different = take(&r), runs = take(&r);
    const uint8_t *part =
        r.bad || different > ranks || runs > ranks ? NULL : skip_runs(r, different, runs, ranks);
    if (!part || (uint64_t)(r.end - part) != different * bytes)
        return err_fail(WEFT_DATA, "an answer of %llu bytes does not hold the parts of %u ranks",
                        (unsigned long long)n, ranks);
    for (uint32_t i = 0, rank = 0; i < runs && bytes; i++) {
        const uint8_t *from = part + take(&r) * bytes;
        for (uint32_t end = rank + take(&r); rank < end; rank++)
            memcpy(all + rank * stride, from, bytes);
    }
    return WEFT_OK;
}
