/* bad/plan.c: a rule and a device that only plans, and their ways of failing. The device has its
 * plan half only: its probe() finds no library. Each name of plan.expected breaks one rule. */
#include "faults.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/device.h>
#include <weft/expr.h>
#include <weft/host.h>
#include <weft/optim.h>

#if defined(__x86_64__)
#define NEW "vzeroupper"
#else
#define NEW ""
#endif

typedef struct module {
    const weft_host *host;
    bool fused;
    unsigned turns, flags; /* how often the flags of an update differ from those before */
    const char *name;      /* of the last parameter */
} module;

static weft_status refuse(const module *m, const char *why)
{
    return (m->host->fail)(m->host->ctx, WEFT_UNSUPPORTED, why);
}

/* --- the rule --- */

static int byte_behind(const void *table, size_t size)
{
    return ((const volatile char *)table)[size];
}

static weft_status update(void *of, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    module *m = of;
    const weft_host *host = m->host;
    weft_expr f = {b, BAD == IGNORES_TAIL ? weft_check_flags(host, u->flags, WEFT_PARAM_MATRIX)
                                          : weft_check_args(host, u, sizeof *u, WEFT_PARAM_MATRIX)};
    if (conf->real(conf->ctx, "strength") >= 1 && BAD == ENDS_AT_BOUND)
        exit(1);
    if (BAD == KEEPS_NAME && m->name && !*m->name)
        return WEFT_OK;
    m->name = u->name;
    m->turns += u->flags != m->flags;
    m->flags = u->flags;
    const double usual = 0.5 + conf->real(conf->ctx, "strength");
    const double factor = m->turns > 8 && BAD == REMEMBERS ? 2 * usual : usual;
    if (BAD == BEHIND_BUILDER && byte_behind(b, sizeof *b) == 42)
        return WEFT_OK;
    if (BAD == EXACT_BUILDER && !weft_knows(b))
        return refuse(m, "this builder is of another version");
    if (BAD == EXACT_CONF && !weft_knows(conf))
        return refuse(m, "these options are of another version");
    if (BAD == BEHIND_ARGS && byte_behind(u, sizeof *u) == 42)
        return WEFT_OK;
    weft_assign(
        &f, u->param,
        weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", weft_scale(&f, u->grad, factor), u->lr)));
    return BAD == SWALLOWS && f.st > WEFT_INTERNAL ? WEFT_INTERNAL : f.st;
}

/* --- the device --- */

static bool is_add(const weft_ew_program *p)
{
    return p && p->nsteps == 1 && p->steps[0].op == WEFT_EW_ADD;
}

static weft_status query(void *of, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out)
{
    const module *m = of;
    const weft_status st = weft_check_args(m->host, spec, sizeof *spec,
                                           WEFT_SPEC_ACCUMULATE | WEFT_SPEC_DETERMINISTIC);
    (void)conf;
    if (st != WEFT_OK)
        return st;
    if (strcmp(spec->id, "ew") != 0 || spec->nin != 2 || !is_add(spec->program))
        return refuse(m, "it adds two tensors, and nothing else");
    for (uint32_t i = 0; i < 2; i++)
        if (spec->in[i].flags || (BAD != IGNORES_TYPE && spec->in[i].dtype != WEFT_F32))
            return refuse(m, "it adds dense fp32 tensors");
    const weft_requirements need = {sizeof need, 0, 256};
    if (BAD == WRITES_BEHIND)
        memset(out, 0, sizeof *out + 8);
    weft_give(out, &need);
    return WEFT_OK;
}

static const char *fuse(void *of, const weft_conf *conf, const char *const *ids,
                        const uint32_t *joins, uint32_t n)
{
    static char text[40];
    static unsigned calls;
    (void)conf, (void)joins, (void)n;
    ((module *)of)->fused = true;
    if (strcmp(ids[0], "mul") != 0)
        return NULL;
    if (BAD != ROTATES)
        return "acme.mul_more";
    snprintf(text, sizeof text, "acme.mul_%u", calls++);
    return text;
}

static weft_status probe(void *of, const weft_conf *conf, int32_t *score)
{
    const module *m = of;
    (void)conf;
    if (BAD == NEEDS_FUSE && !m->fused)
        return (m->host->fail)(m->host->ctx, WEFT_IO, "fuse() has not been called");
    *score = 0;
    if (!dlopen("libacme-device.so.1", RTLD_NOW | RTLD_LOCAL))
        (void)!refuse(m, BAD == NAMELESS ? "a library is missing" : dlerror());
    return WEFT_OK;
}

static weft_status any(void)
{
    return WEFT_UNSUPPORTED;
}

static void nothing(void)
{
}

#define ANY(member) .member = (void *)any
#define NOTHING(member) .member = (void *)nothing
static const weft_device_table device_table = {
    .struct_size = sizeof device_table,
    .caps = WEFT_DEV_HOST_MEMORY,
    .query = query,
    .fuse = fuse,
    .probe = probe,
    ANY(open),
    NOTHING(close),
    ANY(describe),
    ANY(arena),
    ANY(host_memory),
    ANY(stream),
    ANY(event),
    ANY(record),
    ANY(stream_wait),
    ANY(event_query),
    ANY(copy),
    ANY(fill),
    ANY(prepare),
    NOTHING(release),
    ANY(run),
};
static const weft_rule rule_table = {sizeof rule_table, WEFT_UNIT_ELEMENT, update};

static const weft_option strength = {.struct_size = sizeof strength,
                                     .type = WEFT_OPT_REAL,
                                     .key = "strength",
                                     .dflt = "0.5",
                                     .help = "factor of the step, less a half",
                                     .max = 1};
static const weft_option *const options[] = {&strength, NULL};
static const weft_component rule = {
    .struct_size = sizeof rule,
    .iface = "weft.rule/1",
    .name = "acme.rule",
    .help = "subtracts the gradient",
    .options = options,
    .table = &rule_table,
};
static const weft_component device = {
    .struct_size = sizeof device,
    .iface = "weft.device/1",
    .name = "acme.device",
    .help = "adds, on paper",
    .table = &device_table,
};
static const weft_component *const components[] = {&rule, &device, NULL};

/* An instruction of AVX. */
static void use_new_instruction(void)
{
    __asm__ volatile(NEW);
}

static weft_status open_module(const weft_host *host, void **out)
{
    weft_status st = WEFT_OK;
    module *m = weft_new(host, sizeof *m, &st);
    if (!m)
        return st;
    m->host = host;
    if (BAD == NEW_INSTRUCTION)
        use_new_instruction();
    if (BAD == OPENS_SOCKET)
        close(socket(AF_INET, SOCK_STREAM, 0));
    if (BAD == NEEDS_TLS &&
        !((const weft_host_tls *)(host->iface)(host->ctx, "weft.host.tls/1"))->struct_size)
        st = WEFT_INTERNAL;
    *out = m;
    return st;
}

static void close_module(void *of)
{
    module *m = of;
    if (m || BAD == CLOSE_NULL)
        m->host->free(m->host->ctx, m);
}

WEFT_PLUGIN("org.acme.plan", "1", "MIT", components, open_module, close_module);
