/* Prints keys and random numbers as core/ makes them, and samples of the source of token files, for
 * numbers_check.py. */
#include <inttypes.h>
#include <stdio.h>

#include "../data/lone.h"
#include "base/number/rng.h"

#include <weft/data.h>

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

static int print_samples(const char *path, uint64_t seed, const char *order)
{
    int32_t x[3 * SEQUENCE], y[3 * SEQUENCE];
    void *module, *const out[] = {x, y};
    const weft_data_table *t = lone_open(&module)->table;
    const char *const pairs[] = {"train", path, "order", order, NULL};
    const weft_conf conf = lone_conf(pairs);
    const weft_data_args how = {
        .struct_size = sizeof how, .use = WEFT_DATA_TRAIN, .seed = seed, .conf = &conf};
    const weft_read_args what = {.struct_size = sizeof what,
                                 .first = 40,
                                 .count = 3,
                                 .sequence = SEQUENCE,
                                 .nfields = 2,
                                 .out = out};
    weft_data_info info = {.struct_size = sizeof info};
    weft_dataset *d;
    if (t->open(module, &how, &d) != WEFT_OK || t->info(d, SEQUENCE, &info) != WEFT_OK ||
        t->read(d, &what) != WEFT_OK) {
        fprintf(stderr, "%s\n", lone_why);
        return 1;
    }
    printf("samples %s %u", order, info.vocab);
    for (int i = 0; i < 3 * SEQUENCE; i++)
        printf(" %" PRId32 " %" PRId32, x[i], y[i]);
    printf("\n");
    t->close(d);
    return 0;
}

int main(int argc, char **argv)
{
    const uint64_t seeds[] = {0, 1, 11, UINT64_MAX};
    for (int i = 0; i < 4; i++) {
        print_stream(seeds[i], "embed.tok.w");
        print_stream(seeds[i], "block.0.attn.qkv.w");
    }
    return argc == 2 ? print_samples(argv[1], 11, "starts") || print_samples(argv[1], 11, "epochs")
                     : 2;
}
