/* known.c: is an elementwise program one of those that have a kernel of their own (kern/known.h)?
 */
#include "kern/known.h"
#include "ops.h"

struct known {
    const char *kernel;
    uint32_t nin, nout, nsteps;
    const uint16_t *in, *out;
    const struct ew_instr *step;
};

#define KNOWN(name, NAME)                                                                          \
    static const uint16_t name##_in[] = KNOWN_##NAME##_IN, name##_out[] = KNOWN_##NAME##_OUT;      \
    static const struct ew_instr name##_step[] = KNOWN_##NAME##_STEPS;
#define COUNT(a) (sizeof(a) / sizeof *(a))
#define ONE(name)                                                                                  \
    {                                                                                              \
        "known_" #name, COUNT(name##_in), COUNT(name##_out), COUNT(name##_step), name##_in,        \
            name##_out, name##_step                                                                \
    }

KNOWN(add, ADD)
KNOWN(sgd, SGD)
KNOWN(adam, ADAM)
KNOWN(adamw, ADAMW)

static const struct known programs[] = {ONE(add), ONE(sgd), ONE(adam), ONE(adamw)};

static bool same(uint16_t mine, uint16_t known)
{
    return mine == known || (known == EW_SCALAR && (mine & EW_SCALAR) != 0);
}

static bool is(const struct known *k, const struct ew_code *c, const struct ew_instr *step)
{
    if (k->nin != c->nin || k->nout < c->nout || k->nsteps != c->ninstr)
        return false;
    for (uint32_t i = 0; i < k->nin; i++)
        if (k->in[i] != c->in_slot[i])
            return false;
    for (uint32_t i = 0; i < c->nout; i++)
        if (!same(c->out[i], k->out[i]) || c->out_one[i])
            return false;
    for (uint32_t i = 0; i < k->nsteps; i++)
        if (k->step[i].op != step[i].op || k->step[i].dst != step[i].dst ||
            !same(step[i].a, k->step[i].a) || !same(step[i].b, k->step[i].b) ||
            !same(step[i].c, k->step[i].c))
            return false;
    return true;
}

const char *gpu_known_kernel(const struct ew_code *c, const struct ew_instr *step)
{
    for (size_t k = 0; k < COUNT(programs); k++)
        if (is(&programs[k], c, step))
            return programs[k].kernel;
    return NULL;
}
