/* Any bytes as a cluster file: refused with words, or read to numbers that can be divided by. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "must.h"
#include "sim/sim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const sim_cluster *c)
{
    const uint32_t ranks[] = {0, 1, 7, 8, 63};
    graph_mesh m = {.n = 1, .name = {"dp"}, .size = {64}};
    sim_route r;
    must(c->nlinks > 0 && c->nlinks <= SIM_LEVELS);
    must(c->per_machine > 0 && c->links[c->nlinks - 1].devices == UINT64_MAX);
    sim_route_make(c, &m, 0, ranks, 5, &r);
    double seconds = sim_library_seconds(&r, WEFT_ALL_REDUCE, 1e6);
    must(isfinite(seconds) && seconds > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    sim_cluster c;
    char *text = malloc(bytes + 1);
    must(text != NULL);
    memcpy(text, data, bytes);
    text[bytes] = 0;
    err_clear();
    weft_status st = sim_cluster_parse(text, "cluster.ini", &c);
    if (st == WEFT_OK)
        check(&c);
    must(st == WEFT_OK || err_text()[0]);
    free(text);
    return 0;
}
