/* check/device/absent.c: devices that the machine may lack: the plan half without a driver, and the
 * reason of a probe() that finds nothing. */
#include "check/device/device.h"
#include "check/hook.h"

#include <dlfcn.h>
#include <stdio.h>

/* Ops with operands that every device can judge. */
static const struct {
    const char *id;
    uint32_t nin, rank;
} asked[] = {{"copy", 1, 1},   {"add", 2, 1},  {"sumsq", 1, 1},
             {"linear", 2, 2}, {"gelu", 1, 2}, {"acme.check.no_such_op", 1, 1}};

static char wanted[128]; /* the library that was asked for; "": none */

/* dlopen() on a machine that has no driver. */
static void *none(const char *path, int flags)
{
    if (!path)
        return dlopen(NULL, flags);
    snprintf(wanted, sizeof wanted, "%s", path);
    return dlopen("/nonexistent/driver.so", flags);
}

static void ask_query(check_dev *w)
{
    static const check_hooks hooks[] = {{"dlopen", (void (*)(void))none}, {0}};
    check_hook_object(w->t, hooks);
    for (uint32_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        const weft_operand full = {.dtype = WEFT_F32, .rank = asked[i].rank, .size = {64, 64}};
        const weft_operand one = {.dtype = WEFT_F32, .rank = 0};
        const weft_operand in[2] = {full, full};
        const weft_opspec spec = {.struct_size = sizeof spec,
                                  .id = asked[i].id,
                                  .nin = asked[i].nin,
                                  .nout = 1,
                                  .in = in,
                                  .out = i == 2 ? &one : &full};
        weft_requirements need = {.struct_size = sizeof need};
        const weft_status st = CHECK_DEV(w, query, w->module, w->conf, &spec, &need);
        if (wanted[0])
            check_fail("query() of '%s' for the op \"%s\" loads %s; the plan half needs no driver",
                       w->c->name, spec.id, wanted);
        if (st == WEFT_ABSENT || st == WEFT_IO)
            check_fail("before probe() and open(), query() of '%s' for the op \"%s\" returned %s: "
                       "%s; the plan half needs no driver",
                       w->c->name, spec.id, check_status(st),
                       w->host->why[0] ? w->host->why : "without a reason");
        check_host_clear(w->host);
    }
}

void check_device_plan_only(check_run *r)
{
    check_dev_each(r, ask_query);
}

static void ask_probe(check_dev *w)
{
    int32_t score = 0;
    check_dev_ok(w, CHECK_DEV(w, probe, w->module, w->conf, &score), "probe");
    if (score <= 0 && !w->host->why[0])
        check_fail("probe() of '%s' gives the score %d and records no reason; a user cannot tell "
                   "what this machine lacks",
                   w->c->name, score);
}

void check_device_reason(check_run *r)
{
    check_dev_each(r, ask_probe);
}
