/* check/op/kernels.c: 179, 180: kernels of the file, on the devices that they name. See kernels.h.
 */
#include "check/op/kernels.h"

#include "base/err.h"
#include "check/device/ops.h"

#include <math.h>
#include <string.h>

static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
enum { LARGE = 1025 }; /* more rows than a kernel takes at once: in fp32, on one or two axes */

static const host_component *own(const check_run *r, const char *iface, const char *name)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->components[i]->iface && !strcmp(r->components[i]->iface, iface) &&
            !strcmp(r->components[i]->name, name))
            return r->components[i];
    return NULL;
}

/* The device that a kernel names; NULL: it is not installed here. */
static const host_component *device_of(check_run *r, const weft_kernel *k)
{
    static const char *const ifaces[] = {"weft.device/1", NULL};
    const host_component *c = own(r, ifaces[0], k->device);
    if (!c && host_find(r->h, "device", k->device, ifaces, &c) != WEFT_OK) {
        err_clear();
        return NULL;
    }
    return c;
}

static const weft_op *op_of(const check_run *r, const weft_kernel *k)
{
    const host_component *c = own(r, "weft.op/1", k->op);
    c = c ? c : host_used_find(r->h, "weft.op/1", k->op);
    return c ? c->table : NULL;
}

static void open_module(const weft_manifest *m, check_host *h, void **module)
{
    const weft_status st = check_open(m, h, module);
    if (st != WEFT_OK)
        check_fail("open() of '%s' returned %s: %s", m->id, check_status(st), h->why);
}

static const weft_op *find_op(void *ctx, const char *id, weft_op_self *self)
{
    const check_dev *b = ctx;
    const host_component *c = own(b->run, "weft.op/1", id);
    const graph_ops others = graph_ops_of(b->run->h);
    if (!c)
        return others.find(others.ctx, id, self);
    self->module = b->kmodule;
    self->conf = check_conf(b->host, c);
    return c->table;
}

static bool too_much(const check_call *c)
{
    bool much = c->nin && c->in[0].dtype != WEFT_F32;
    for (uint32_t k = 0; k < c->nin; k++)
        much |= c->in[k].rank > 2;
    return much;
}

/* Call `fn` for the examples in one way of making them. */
static uint32_t one_way(check_dev *b, const check_example_how *how, check_ops_rule fn)
{
    static check_call c;
    const weft_op *op = op_of(b->run, b->k);
    uint32_t seen = 0;
    bool lawful = false;
    for (size_t t = 0; op && t < sizeof types / sizeof *types; t++)
        for (uint32_t i = 0; check_example_how_of(how, b->k->op, op, i, types[t], &lawful, &c);
             i++) {
            check_bench_clear(b);
            lawful = lawful && (how->size[0] < LARGE || !too_much(&c));
            if (lawful && check_bench_accepts(b, &c, NULL)) {
                fn(b, &c);
                seen++;
            }
            check_call_end(&c);
        }
    return seen;
}

/* Call `fn` for every example that the kernel accepts; returns their number. Sizes that are no
 * multiples of a vector have an end that is treated apart, large ones are cut into blocks, and
 * functions are flat or steep where values are large. */
static uint32_t each_example(check_dev *b, check_ops_rule fn)
{
    check_example_how ways[] = {{{32, 16, 8, 4, 2}, 2, 0.25, 1, {find_op, b}},
                                {{37, 23, 11, 7, 5}, 3, -6, 6, {find_op, b}},
                                {{2, 64, 16, 8, 4}, 2, -40, 40, {find_op, b}},
                                {{1, 1, 1, 1, 1}, 1, -1, 1, {find_op, b}},
                                {{LARGE, 129, 7, 3, 2}, 2, -1, 1, {find_op, b}}};
    uint32_t seen = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        seen += one_way(b, &ways[i], fn);
    return seen;
}

/* The bench of one kernel, with its device up. */
static uint32_t on_device(check_dev *b, check_ops_rule fn)
{
    const weft_manifest *m = check_manifest(b->run);
    static check_host own_host, other;
    uint32_t seen = 0;
    check_host_begin(&own_host, "the host");
    check_host_begin(&other, "the host of the device");
    b->host = &own_host;
    open_module(m, &own_host, &b->kmodule);
    b->module = b->kmodule;
    if (b->c->manifest != m) {
        b->other = &other;
        open_module(b->c->manifest, &other, &b->module);
    }
    if (check_bench_up(b))
        seen = each_example(b, fn);
    check_dev_close(b);
    if (b->other)
        check_close(b->c->manifest, b->module);
    check_close(m, b->kmodule);
    check_host_end(&other);
    check_host_end(&own_host);
    return seen;
}

/* Call `fn` for every example of every kernel of the file that can be run here. */
static void each(check_run *r, check_ops_rule fn)
{
    uint32_t seen = 0;
    check_load(r);
    for (uint32_t i = 0; i < r->n; i++) {
        const host_component *c = r->components[i];
        if (!c->iface || strcmp(c->iface, "weft.kernel/1") != 0)
            continue;
        check_dev b = {.run = r, .kernel = c, .k = c->table, .who = c->name};
        b.c = device_of(r, b.k);
        if (b.c)
            seen += on_device(&b, fn);
        else
            check_absent("the device '%s', for which '%s' computes, is not installed here",
                         b.k->device, c->name);
    }
    if (!seen)
        check_absent("no kernel of the file accepts an example: an example comes from the doc of "
                     "the op");
}

/* --- 179 --- */

static void keeps_rules(check_dev *b, check_call *c)
{
    static const check_ops_rule rules[] = {
        check_call_agrees,  check_call_bound,   check_call_same, check_call_inputs,
        check_call_outside, check_call_streams, check_call_null};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        rules[i](b, c);
}

void check_op_kernels(check_run *r)
{
    each(r, keeps_rules);
}

/* --- 180 --- */

static double typical(const weft_operand *o, const void *at)
{
    const int64_t n = check_operand_count(o);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double v = check_operand_get(o->dtype, at, i);
        sum += isfinite(v) ? v * v : 0;
    }
    return sqrt(sum / (double)(n ? n : 1));
}

/* Results differ by the rounding of two algorithms: 1e-3 in fp32, four roundings in 16 bits. */
static void compare(const check_dev *b, const check_call *c, const check_image *kernel,
                    const check_image *device)
{
    for (uint32_t k = 0; k < c->nout; k++) {
        const weft_operand *o = &c->out[k];
        const unsigned char *from = kernel->is + kernel->out[k], *to = device->is + device->out[k];
        const double tolerance = fmax(1e-3, 4 * check_operand_unit(o->dtype));
        const double usual = typical(o, to);
        for (int64_t i = 0; i < check_operand_count(o); i++) {
            const double got = check_operand_get(o->dtype, from, i),
                         want = check_operand_get(o->dtype, to, i);
            if (got == want || (isnan(got) && isnan(want)) ||
                fabs(got - want) <= tolerance * (fabs(want) + usual))
                continue;
            check_fail("'%s' computes %s, and element %llu of output %u is %.9g; '%s' computes the "
                       "same, and the device's own kernel makes it %.9g",
                       b->who, c->what, (unsigned long long)i, k, got, b->c->name, want);
        }
    }
}

static uint32_t pairs; /* examples that both accept */

static void both(check_dev *b, check_call *c)
{
    check_image kernel = {0}, device = {0};
    check_dev of_device = *b;
    of_device.k = NULL;
    of_device.who = b->c->name;
    if (!check_bench_accepts(&of_device, c, NULL))
        return;
    check_bench_compute(b, c, &kernel);
    check_bench_compute(&of_device, c, &device);
    compare(b, c, &kernel, &device);
    check_image_end(&kernel);
    check_image_end(&device);
    pairs++;
}

void check_op_kernels_differ(check_run *r)
{
    pairs = 0;
    each(r, both);
    if (!pairs)
        check_not_applicable("no device here has a kernel of its own for an op of the file's "
                             "kernels");
}
