/* check/op/kernel.c: values of ops in fp32.
 *
 * An op of the file is computed by a kernel of the file for the default device, cpu. Elementwise
 * ops and weft's own, which gradients are made of, are computed by that device itself. Inputs
 * and results end at pages without access, and a kernel may not change its inputs. */
#include "base/err.h"
#include "check/op/value.h"
#include "check/reference/call.h"
#include "config/config.h"

#include <stdio.h>
#include <string.h>

/* --- the installed device --- */

static struct {
    config *options; /* live as long as the process */
    const host_component *c;
    const weft_conf *conf;
    weft_device *dev;
    weft_stream *stream;
} host_device;

/* The default of device.plugin, which computes in host memory. */
static const char *device_name(void)
{
    if (!host_device.options && config_load(NULL, NULL, 0, &host_device.options) != WEFT_OK)
        check_fail("the options of a job cannot be read: %s", err_text());
    return config_text(host_device.options, "device.plugin");
}

static weft_status open_device(check_run *r)
{
    static const char *const ifaces[] = {"weft.device/1", NULL};
    const char *name = device_name();
    config *cfg = host_device.options;
    weft_status st = host_find(r->h, "device", name, ifaces, &host_device.c);
    if (st == WEFT_OK)
        st = host_open(r->h, host_device.c);
    if (st == WEFT_OK)
        st = config_add(cfg, "device", host_device.c->name, host_device.c->options);
    if (st == WEFT_OK)
        st = config_set(cfg, "device.threads", "1", NULL);
    if (st == WEFT_OK)
        st = config_check_section(cfg, "device");
    if (st != WEFT_OK)
        return st;
    host_device.conf = config_conf(cfg, "device", host_device.c->own);
    const weft_device_table *t = host_device.c->table;
    const weft_device_args args = {
        .struct_size = sizeof args, .local_ranks = 1, .conf = host_device.conf};
    st = PLUGIN_CALL(t, open, host_device.c->module, &args, &host_device.dev);
    return st == WEFT_OK ? PLUGIN_CALL(t, stream, host_device.dev, 0, &host_device.stream) : st;
}

static bool have_device(const check_op *of, char why[1024])
{
    if (!host_device.stream && open_device(of->run) != WEFT_OK)
        snprintf(why, 1024, "the device %s, which computes ops of weft, cannot be used: %.900s",
                 device_name(), err_text());
    return host_device.stream;
}

/* --- memory --- */

#define SLACK 0x5b /* of bytes behind an operand, up to the next 64 */

#define UNWRITTEN 0xff /* a NaN that no arithmetic gives */

typedef struct memory {
    unsigned char *at;
    size_t bytes, all;
} memory;

static memory take(const void *from, size_t bytes)
{
    memory m = {NULL, bytes, (bytes + 63) / 64 * 64};
    m.at = check_guard(NULL, m.all);
    memset(m.at, SLACK, m.all);
    if (from)
        memcpy(m.at, from, bytes);
    else
        memset(m.at, UNWRITTEN, bytes);
    return m;
}

static bool kept(const memory *m, const void *from)
{
    bool same = !from || !memcmp(m->at, from, m->bytes);
    for (size_t i = m->bytes; i < m->all; i++)
        same &= m->at[i] == SLACK;
    return same;
}

/* The first element that has not been written; the number of elements: none. */
static uint64_t unwritten(const weft_shape *s, const void *x)
{
    const uint64_t n = graph_shape_elements(s);
    uint64_t i = check_op_real(s) ? 0 : n;
    while (i < n && ((const uint32_t *)x)[i] != UINT32_MAX)
        i++;
    return i;
}

static void drop(memory *m)
{
    check_guard_free(m->at, m->all);
}

/* --- a call --- */

typedef struct call {
    const check_op *of;
    const check_op_task *task;
    const host_component *by; /* a kernel of the file; NULL: the device */
    weft_operand in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
    weft_ew_step step;
    uint16_t out_reg;
    weft_ew_program program;
    weft_opspec spec;
    uint64_t workspace;
} call;

/* An elementwise op is a program of one step. */
static void as_program(call *c)
{
    const uint16_t n = (uint16_t)c->task->nin;
    c->step =
        (weft_ew_step){.op = (uint16_t)c->task->op->ew, .dst = n, .b = n > 1, .c = n > 2 ? 2 : 0};
    c->step.flags = c->task->out[0].rank ? 0 : WEFT_EW_SCALAR;
    c->out_reg = n;
    c->program = (weft_ew_program){sizeof c->program, 1, n + 1u, -1, &c->step, &c->out_reg};
    c->spec.id = "ew";
    c->spec.attrs = NULL;
    c->spec.nattr = 0;
    c->spec.program = &c->program;
}

static void describe(const check_op *of, const check_op_task *t, call *c)
{
    memset(c, 0, sizeof *c);
    c->of = of;
    c->task = t;
    for (uint32_t i = 0; i < t->nin; i++)
        c->in[i] = check_operand(&t->in[i]);
    for (uint32_t i = 0; i < t->nout; i++)
        c->out[i] = check_operand(&t->out[i]);
    c->spec = (weft_opspec){.struct_size = sizeof c->spec,
                            .id = t->id,
                            .attrs = t->attrs,
                            .nattr = t->nattr,
                            .nin = t->nin,
                            .nout = t->nout,
                            .in = c->in,
                            .out = c->out};
}

static bool kernel_accepts(call *c, char why[1024])
{
    const weft_kernel *k = c->by->table;
    weft_requirements need = {.struct_size = sizeof need};
    check_op_quiet(c->of);
    const weft_status st =
        PLUGIN_GET(k, query, c->of->module, check_conf(c->of->host, c->by), &c->spec, &need);
    if (st != WEFT_OK)
        snprintf(why, 1024, "the kernel '%s' refuses the example: %.900s", c->by->name,
                 c->of->host->why);
    c->workspace = need.workspace;
    return st == WEFT_OK;
}

static bool is_own(const check_run *r, const char *id)
{
    const host_component *c = NULL;
    for (uint32_t i = 0; (c = host_own_op(r->h, i)) && strcmp(c->name, id);)
        i++;
    return c;
}

/* The first kernel of the file that accepts the call, or the device. */
static bool choose(call *c, char why[1024])
{
    const check_run *r = c->of->run;
    snprintf(why, 1024, "the file has no kernel of it for the device %s", device_name());
    for (uint32_t i = 0; i < r->n; i++) {
        const weft_kernel *k = r->components[i]->table;
        c->by = r->components[i];
        if (!strcmp(c->by->iface, "weft.kernel/1") && !strcmp(k->op, c->task->id) &&
            !strcmp(k->device, device_name()) && kernel_accepts(c, why))
            return true;
    }
    c->by = NULL;
    const bool elementwise = c->task->op->flags & WEFT_OP_ELEMENTWISE && c->task->op->ew;
    if ((!elementwise && !is_own(r, c->task->id)) || !have_device(c->of, why))
        return false;
    if (elementwise)
        as_program(c);
    const weft_device_table *t = host_device.c->table;
    weft_requirements need = {.struct_size = sizeof need};
    const weft_status st =
        PLUGIN_CALL(t, query, host_device.c->module, host_device.conf, &c->spec, &need);
    if (st != WEFT_OK)
        snprintf(why, 1024, "the device %s does not compute it: %.900s", device_name(), err_text());
    c->workspace = need.workspace;
    return st == WEFT_OK;
}

static void run_kernel(call *c, const void *const *in, void *const *out, void *workspace)
{
    const weft_kernel *k = c->by->table;
    void *prepared = NULL;
    check_op_quiet(c->of);
    weft_status st = PLUGIN_GET(k, prepare, c->of->module, check_conf(c->of->host, c->by), &c->spec,
                                NULL, &prepared);
    if (st != WEFT_OK)
        check_fail("query() of the kernel '%s' accepts a call, and prepare() returns %s for it: %s",
                   c->by->name, check_status(st), c->of->host->why);
    st = CHECK_OP_STEP(PLUGIN_GET(k, run, prepared, NULL, in, out, workspace, 0));
    if (st != WEFT_OK)
        check_fail("run() of the kernel '%s' returns %s for a call that query() accepts: %s",
                   c->by->name, check_status(st), c->of->host->why);
    PLUGIN_DO(k, release, prepared);
}

static void run_device(call *c, const void *const *in, void *const *out, void *workspace)
{
    const weft_device_table *t = host_device.c->table;
    weft_prepared *prepared = NULL;
    weft_status st = PLUGIN_CALL(t, prepare, host_device.dev, &c->spec, &prepared);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(t, run, prepared, host_device.stream, in, out, workspace, 0);
    if (st != WEFT_OK)
        check_fail("the device %s cannot compute %s: %s", device_name(), c->spec.id, err_text());
    PLUGIN_DO(t, release, prepared);
}

/* What run() has written: inputs are as before, and outputs are complete. */
static void look(const call *c, const memory *in, const memory *out, void *const *to)
{
    const check_op_task *t = c->task;
    const char *who = c->by ? c->by->name : device_name();
    for (uint32_t i = 0; i < t->nin; i++)
        if (!kept(&in[i], i + 1 == t->in_place ? NULL : t->from[i]))
            check_fail("run() of the kernel '%s' writes to input %u or behind it", who, i);
    for (uint32_t i = 0; i < t->nout; i++) {
        const uint64_t at = unwritten(&t->out[i], to[i]);
        if (!kept(&out[i], NULL))
            check_fail("run() of the kernel '%s' writes behind output %u", who, i);
        if (at < graph_shape_elements(&t->out[i]))
            check_fail("run() of the kernel '%s' does not write element %llu of output %u", who,
                       (unsigned long long)at, i);
    }
}

/* Copy the operands to guarded memory, run, and look at what was written. */
static void run(call *c)
{
    const check_op_task *t = c->task;
    memory in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS], work = take(NULL, c->workspace);
    const void *from[WEFT_MAX_OPERANDS];
    void *to[WEFT_MAX_OPERANDS];
    for (uint32_t i = 0; i < WEFT_MAX_OPERANDS; i++)
        from[i] = to[i] = CHECK_NOWHERE;
    for (uint32_t i = 0; i < t->nin; i++)
        from[i] = (in[i] = take(t->from[i], graph_shape_bytes(&t->in[i]))).at;
    for (uint32_t i = 0; i < t->nout; i++)
        to[i] = (out[i] = take(NULL, graph_shape_bytes(&t->out[i]))).at;
    if (t->in_place)
        to[0] = in[t->in_place - 1].at;
    if (t->op->flags & WEFT_OP_SHAPE_LAST)
        from[t->nin - 1] = NULL;
    if (c->by)
        run_kernel(c, from, to, work.at);
    else
        run_device(c, from, to, work.at);
    look(c, in, out, to);
    for (uint32_t i = 0; i < t->nout; i++) {
        memcpy(t->to[i], to[i], out[i].bytes);
        drop(&out[i]);
    }
    for (uint32_t i = 0; i < t->nin; i++)
        drop(&in[i]);
    drop(&work);
}

bool check_op_compute(const check_op *of, const check_op_task *t, char why[1024])
{
    call c;
    describe(of, t, &c);
    if (!choose(&c, why))
        return false;
    run(&c);
    return true;
}
