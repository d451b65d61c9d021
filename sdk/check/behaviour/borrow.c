/* check/behaviour/borrow.c: what a plugin does with what it is lent, and with what it lends. */
#include "base/err.h"
#include "check/behaviour/behaviour.h"

#include <stdio.h>
#include <string.h>
#include <weft/device.h>

static check_host h;

/* Arguments, their strings and the core's tables lose their access when the call has returned. */
void check_behaviour_borrow(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    check_exercise d = {.run = r, .host = &h, .lend = {.mode = CHECK_LEND_POISON}};
    check_host_begin(&h, "the host");
    d.where = "open";
    d.of = m->id;
    weft_status st = check_open(m, &h, &d.module);
    for (int i = 0; i < 2 && st == WEFT_OK; i++)
        st = check_exercise_all(&d);
    if (st != WEFT_OK)
        check_fail("a lawful call failed: %s() of '%s' returned %s: %s", d.where, d.of,
                   check_status(st), check_exercise_why(&d));
    check_close(m, d.module);
}

/* --- strings that fuse() returned --- */

#define TIMES 1000u

static const char *const ids[] = {"linear", "add", "mul", "gelu", "silu", "softmax", "rms_norm"};
static const uint32_t joins[] = {0, WEFT_FUSE_CHAINED};

static const char *ask(const host_component *c, void *module, const weft_conf *conf, uint32_t k)
{
    const weft_device_table *t = c->table;
    const uint32_t n = sizeof ids / sizeof *ids;
    const char *const chain[] = {ids[k % n], ids[k / n % n]};
    return PLUGIN_GET(t, fuse, module, conf, chain, joins, 2);
}

static void live_long(const host_component *c, void *module)
{
    const weft_conf *conf = check_conf(&h, c);
    const char *first[sizeof ids / sizeof *ids * sizeof ids / sizeof *ids];
    char text[sizeof first / sizeof *first][WEFT_MAX_NAME];
    const uint32_t n = sizeof first / sizeof *first;
    for (uint32_t k = 0; k < n; k++) {
        first[k] = ask(c, module, conf, k);
        snprintf(text[k], sizeof text[k], "%s", first[k] ? first[k] : "");
    }
    for (uint32_t k = 0; k < TIMES; k++)
        (void)ask(c, module, conf, k);
    for (uint32_t k = 0; k < n; k++)
        if (first[k] && strcmp(first[k], text[k]) != 0)
            check_fail("fuse() of '%s' returned '%s' for a chain of two ops, and after %u other "
                       "calls '%.60s' stands there; it returns a constant string",
                       c->name, text[k], TIMES, first[k]);
}

void check_behaviour_strings(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    void *module = NULL;
    check_host_begin(&h, "the host");
    const weft_status st = check_open(m, &h, &module);
    if (st != WEFT_OK)
        check_fail("open() returned %s: %s", check_status(st), h.why);
    uint32_t asked = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const weft_device_table *t = r->components[i]->table;
        if (strcmp(r->components[i]->iface, "weft.device/1") != 0 || !t->fuse)
            continue;
        live_long(r->components[i], module);
        asked++;
    }
    check_close(m, module);
    if (!asked)
        check_not_applicable("its device has no fuse()");
}
