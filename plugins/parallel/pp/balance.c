/* balance.c: assigns blocks to stages so that the maximum stage cost is minimal.
 *
 * best[k][i] is the smallest maximum run cost when the first i blocks are cut into k runs: min over
 * j of max(best[k-1][j], cost of blocks j .. i-1). Time parts * n^2, some milliseconds for a
 * hundred blocks on sixteen stages. Ties go to the longest last run, so that a cheap first block
 * (the embedding) does not push a layer off the first stage. */
#include "pp.h"

#include <float.h>

weft_status pp_balance(const weft_host *host, const double *cost, uint32_t n, uint32_t parts,
                       uint32_t *end)
{
    const uint64_t row = (uint64_t)n + 1;
    double *sum = host->alloc(host->ctx, row * sizeof *sum, 0);
    double *best = host->alloc(host->ctx, (parts + 1) * row * sizeof *best, 0);
    uint32_t *cut = host->alloc(host->ctx, (parts + 1) * row * sizeof *cut, 0);
    bool room = sum && best && cut;
    for (uint32_t i = 0; room && i < n; i++)
        sum[i + 1] = sum[i] + cost[i];
    for (uint64_t i = 0; room && i < (parts + 1) * row; i++)
        best[i] = DBL_MAX;
    if (room)
        best[0] = 0;
    for (uint32_t k = 1; room && k <= parts; k++)
        for (uint32_t i = k; i <= n; i++)
            for (uint32_t j = k - 1; j < i; j++) {
                double last = sum[i] - sum[j], before = best[(k - 1) * row + j];
                double max = last > before ? last : before;
                if (max < best[k * row + i]) {
                    best[k * row + i] = max;
                    cut[k * row + i] = j;
                }
            }
    for (uint32_t k = parts, i = n; room && k > 0; k--) {
        end[k - 1] = i;
        i = cut[k * row + i];
    }
    host->free(host->ctx, sum);
    host->free(host->ctx, best);
    host->free(host->ctx, cut);
    return room ? WEFT_OK
                : host->fail(host->ctx, WEFT_NO_MEMORY, "no memory to divide blocks over stages");
}
