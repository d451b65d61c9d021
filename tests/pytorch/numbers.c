/* Prints keys, random numbers and samples as core/ makes them, for numbers_check.py. */
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/number/rng.h"
#include "data/data.h"

#define SEQUENCE 5

static void print_stream(uint64_t seed, const char *name)
{
    uint64_t key = rng_key(seed, name);
    float f[7];
    rng_normals(key, 0, 7, 0.02f, f);
    printf("stream %" PRIu64 " %s %" PRIu64, seed, name, key);
    for (uint64_t i = 0; i < 7; i++)
        printf(" %.17g %.9g %" PRIu64, rng_normal(key, i), (double)f[i],
               rng_below(key, i, 1000003));
    printf("\n");
}

static int print_samples(const char *path, uint64_t seed)
{
    data_file f;
    int32_t x[3 * SEQUENCE], y[3 * SEQUENCE];
    if (data_open(path, &f) != WEFT_OK) {
        fprintf(stderr, "%s\n", err_text());
        return 1;
    }
    if (data_samples(&f, seed, 40, 3, SEQUENCE, x, y) != WEFT_OK) {
        fprintf(stderr, "%s\n", err_text());
        return 1;
    }
    printf("samples %u", f.vocab);
    for (int i = 0; i < 3 * SEQUENCE; i++)
        printf(" %" PRId32 " %" PRId32, x[i], y[i]);
    printf("\n");
    data_close(&f);
    return 0;
}

int main(int argc, char **argv)
{
    const uint64_t seeds[] = {0, 1, 11, UINT64_MAX};
    for (int i = 0; i < 4; i++) {
        print_stream(seeds[i], "embed.tok.w");
        print_stream(seeds[i], "block.0.attn.qkv.w");
    }
    return argc == 2 ? print_samples(argv[1], 11) : 2;
}
