/* random.c: random and dropout, element by element, on the generator of
 * tests/unit/philox.h. */
#include "philox.h"
#include "referee.h"

static const weft_attr *attr(const struct call *c, const char *key)
{
    static const weft_attr none = {0};
    for (uint32_t k = 0; k < c->nattr; k++)
        if (strcmp(c->attr[k].key, key) == 0)
            return &c->attr[k];
    return &none;
}

/* The number of element i of the part of the whole tensor that output 0 is. */
static uint64_t number_of(const struct call *c, double time, int64_t i)
{
    static const char *const keys[] = {"whole.0", "whole.1", "whole.2"};
    const weft_operand *o = &c->out[0];
    const int by_step = c->in[0].rank == 0 && c->in[0].dtype == WEFT_F32;
    uint64_t number = (uint64_t)attr(c, "first")->i, distance = 1;
    for (uint32_t k = o->rank; k-- > 0; i /= o->size[k]) {
        number += (uint64_t)(i % o->size[k]) * distance;
        distance *= k ? (uint64_t)attr(c, keys[k])->i : 1;
    }
    if (by_step)
        distance = (uint64_t)1 << 40;
    return number + (uint64_t)time * distance;
}

static void random_numbers(const struct call *c)
{
    const uint64_t stream = (uint64_t)attr(c, "stream")->i, seed = (uint64_t)attr(c, "seed")->i;
    for (int64_t i = 0; i < count_of(&c->out[0]); i++) {
        const uint64_t n = number_of(c, c->x[0][0], i);
        c->y[0][i] = attr(c, "distribution")->i ? philox_normal(n, stream, seed)
                                                : philox_uniform(n, stream, seed);
    }
}

static void dropout(const struct call *c)
{
    const uint64_t stream = (uint64_t)attr(c, "stream")->i, seed = (uint64_t)attr(c, "seed")->i;
    const int64_t cols = count_of(&c->out[0]) / c->out[0].size[0];
    const double p = attr(c, "p")->f;
    for (int64_t i = 0; i < count_of(&c->out[0]); i++) {
        const double x = c->x[0][i] + (c->nin > 2 ? c->x[2][i % cols] : 0);
        const int drops = philox_drops(number_of(c, c->x[1][0], i), stream, seed, p);
        c->y[0][i] = (drops ? 0 : x / (1 - p)) + (c->nin > 3 ? c->x[3][i] : 0);
    }
}

int referee_random(const struct call *c)
{
    if (strcmp(c->id, "random") == 0)
        random_numbers(c);
    else if (strcmp(c->id, "dropout") == 0)
        dropout(c);
    else
        return 0;
    return 1;
}
