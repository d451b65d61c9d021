/* The answer to an exchange: equal parts once, every layout comes back as it was, and bytes that
 * are no answer are refused. */
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "base/err.h"
#include "base/number/rng.h"
#include "job/store/gather.h"
#include "job/store/parts.h"

#include <cmocka.h> /* last: it has a macro called fail */

#define LIMIT 300

/* Part of rank r: `kinds` different ones, in blocks of `block` ranks. */
static void fill(uint8_t *part, uint32_t r, uint32_t kinds, uint32_t block, uint64_t bytes)
{
    const uint32_t kind = r / block % kinds;
    for (uint64_t i = 0; i < bytes; i++)
        part[i] = (uint8_t)(kind >> (i % 2 ? 8 : 0));
}

/* The bytes of the answer; parts come in an order that is not that of ranks. */
static uint64_t there_and_back(uint32_t ranks, uint32_t kinds, uint32_t block, uint64_t bytes)
{
    job_parts p;
    uint64_t n, stride = bytes + 3;
    uint8_t part[64], *all = calloc(ranks, stride);
    job_parts_begin(&p, ranks, bytes);
    for (uint32_t i = 0; i < ranks; i++) {
        const uint32_t r = ranks - 1 - i;
        fill(part, r, kinds, block, bytes);
        job_parts_add(&p, r, part);
    }
    uint8_t *answer = job_parts_pack(&p, &n);
    assert_true(n <= ranks * bytes + PARTS_OVERHEAD(ranks));
    assert_int_equal(job_parts_spread(answer, n, ranks, bytes, all, stride), WEFT_OK);
    for (uint32_t r = 0; r < ranks; r++) {
        fill(part, r, kinds, block, bytes);
        assert_memory_equal(all + r * stride, part, bytes);
        assert_int_equal(all[r * stride + bytes] | all[r * stride + bytes + 2], 0);
    }
    job_parts_end(&p);
    free(answer);
    free(all);
    return n;
}

TEST(every_layout)
{
    static const uint32_t ranks[] = {1, 2, 3, 127, 128, 129, LIMIT};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        for (uint32_t kinds = 1; kinds <= ranks[i]; kinds += kinds < 4 ? 1 : 61)
            for (uint32_t block = 1; block < 20; block += 6)
                for (uint64_t bytes = kinds > 256 ? 2 : kinds > 1; bytes < 64; bytes += 31)
                    there_and_back(ranks[i], kinds, block, bytes);
}

TEST(equal_parts_once)
{
    assert_int_equal(there_and_back(LIMIT, 1, 1, 60), 60 + 2 + 1 + 2);
    assert_true(there_and_back(LIMIT, 3, 100, 60) <= 3 * 60 + 2 + 3 * 3);
}

/* Answers that are cut, too long, or changed anywhere: refused, or spread within bounds. */
TEST(garbled)
{
    job_parts p;
    uint64_t n;
    uint8_t part[8], all[20 * 8];
    job_parts_begin(&p, 20, sizeof part);
    for (uint32_t r = 0; r < 20; r++) {
        fill(part, r, 5, 3, sizeof part);
        job_parts_add(&p, r, part);
    }
    uint8_t *answer = job_parts_pack(&p, &n), *bad = malloc(n + 1);
    for (uint64_t cut = 0; cut < n; cut++)
        assert_int_equal(job_parts_spread(answer, cut, 20, sizeof part, all, sizeof part),
                         WEFT_DATA);
    memcpy(bad, answer, n);
    bad[n] = 0;
    assert_int_equal(job_parts_spread(bad, n + 1, 20, sizeof part, all, sizeof part), WEFT_DATA);
    assert_int_equal(job_parts_spread(answer, n, 19, sizeof part, all, sizeof part), WEFT_DATA);
    assert_int_equal(job_parts_spread(answer, n, 21, sizeof part, all, sizeof part), WEFT_DATA);
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t v = 0; v < 256; v++) {
            memcpy(bad, answer, n);
            bad[i] = (uint8_t)v;
            (void)job_parts_spread(bad, n, 20, sizeof part, all, sizeof part);
        }
    for (uint32_t k = 0; k < 20000; k++) {
        for (uint64_t i = 0; i < n; i++)
            bad[i] = (uint8_t)rng_below(rng_key(k, "parts"), i, 256);
        (void)job_parts_spread(bad, n, 20, sizeof part, all, sizeof part);
    }
    job_parts_end(&p);
    free(answer);
    free(bad);
}

/* What fits into one frame, and how much all answers together may take. */
TEST(pieces)
{
    for (uint32_t ranks = 1; ranks <= 65536; ranks *= 2) {
        assert_true(job_gather_fragment(ranks, 0) >= 1);
        assert_true(job_gather_fragment(ranks, 1) >= 1);
        assert_true(job_gather_fragment(ranks, 1) <= job_gather_fragment(ranks, 0));
        assert_true(job_gather_fragment(ranks, 0) * ranks + PARTS_OVERHEAD(ranks) <= 1u << 20);
    }
}
