/* check/reference/random.c: random and dropout, element by element, on the generator of philox.h.
 */
#include "check/reference/loops.h"
#include "check/reference/philox.h"

/* The number of element i of the part of the whole tensor that output 0 is; an axis without a whole
 * size is whole. */
static uint64_t number_of(const check_call *c, double time, int64_t i)
{
    const weft_operand *o = &c->out[0];
    const int by_step = c->in[0].rank == 0 && c->in[0].dtype == WEFT_F32;
    uint64_t number = (uint64_t)attr_i(c, "first", 0), distance = 1;
    for (uint32_t k = o->rank; k-- > 0; i /= o->size[k]) {
        const char key[] = {'w', 'h', 'o', 'l', 'e', '.', (char)('0' + k), 0};
        const int64_t whole = attr_i(c, key, 0);
        number += (uint64_t)(i % o->size[k]) * distance;
        distance *= k ? (uint64_t)(whole ? whole : o->size[k]) : 1;
    }
    if (by_step)
        distance = (uint64_t)1 << 40;
    return number + (uint64_t)time * distance;
}

static void random_numbers(const check_call *c)
{
    const uint64_t stream = (uint64_t)attr_i(c, "stream", 0), seed = (uint64_t)attr_i(c, "seed", 0);
    for (int64_t i = 0; i < count_of(&c->out[0]); i++) {
        const uint64_t n = number_of(c, c->x[0][0], i);
        c->y[0][i] = attr_i(c, "distribution", 0) ? philox_normal(n, stream, seed)
                                                  : philox_uniform(n, stream, seed);
    }
}

static void dropout(const check_call *c)
{
    const uint64_t stream = (uint64_t)attr_i(c, "stream", 0), seed = (uint64_t)attr_i(c, "seed", 0);
    const int64_t cols = count_of(&c->out[0]) / c->out[0].size[0];
    const double p = attr_f(c, "p", 0);
    for (int64_t i = 0; i < count_of(&c->out[0]); i++) {
        const double x = c->x[0][i] + (c->nin > 2 ? c->x[2][i % cols] : 0);
        const int drops = philox_drops(number_of(c, c->x[1][0], i), stream, seed, p);
        c->y[0][i] = (drops ? 0 : x / (1 - p)) + (c->nin > 3 ? c->x[3][i] : 0);
    }
}

const check_loops check_loops_random[] = {{"random", random_numbers}, {"dropout", dropout}, {0}};
