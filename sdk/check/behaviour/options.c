/* check/behaviour/options.c: a life with every option at its bounds, with every choice, and with
 * odd texts: calls may fail with a sentence, and the process goes on. The option that is tried
 * loses what the user gave it (--set); the others keep it. */
#include "base/err.h"
#include "check/behaviour/behaviour.h"

#include <stdio.h>
#include <string.h>

static check_host h;

static void live(check_run *r, const host_component *c, const char *key, const char *value)
{
    const weft_manifest *m = check_manifest(r);
    check_exercise d = {.run = r, .host = &h, .where = "open", .of = m->id, .large = true};
    check_host_begin(&h, "the host");
    h.set_of = c;
    h.set_key = key;
    h.set_value = value;
    err_clear();
    weft_status st = check_open(m, &h, &d.module);
    if (st == WEFT_OK)
        st = check_exercise_all(&d);
    if (st != WEFT_OK && !*check_exercise_why(&d))
        check_fail("with %s = %s, which is a lawful value, %s() of '%s' returned %s without a "
                   "sentence",
                   key, value, d.where, d.of, check_status(st));
    check_close(m, d.module);
    check_host_end(&h);
}

static void try_number(check_run *r, const host_component *c, const weft_option *o, double x)
{
    char value[64];
    const bool whole =
        o->type == WEFT_OPT_INT || o->type == WEFT_OPT_BYTES || o->type == WEFT_OPT_AUTO_INT;
    snprintf(value, sizeof value, whole ? "%.0f" : "%.17g", x);
    live(r, c, o->key, value);
}

static void try_texts(check_run *r, const host_component *c, const weft_option *o)
{
    static char many[200];
    memset(many, 'x', sizeof many - 1);
    const char *const texts[] = {"", "%s%n", "../../no/such/place", "a,b,,c", many};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        live(r, c, o->key, texts[i]);
}

static void try_choices(check_run *r, const host_component *c, const weft_option *o)
{
    char value[128];
    for (const char *at = o->choices; *at; at += strcspn(at, "|"), at += *at == '|') {
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "|"), at);
        live(r, c, o->key, value);
    }
}

static void try_option(check_run *r, const host_component *c, const weft_option *o)
{
    if (o->type == WEFT_OPT_STRING)
        try_texts(r, c, o);
    else if (o->type == WEFT_OPT_CHOICE)
        try_choices(r, c, o);
    else if (o->type == WEFT_OPT_BOOL) {
        live(r, c, o->key, "on");
        live(r, c, o->key, "off");
    } else if (o->min != 0 || o->max != 0) {
        try_number(r, c, o, o->min);
        try_number(r, c, o, o->max);
    }
}

void check_behaviour_options(check_run *r)
{
    uint32_t n = 0;
    check_load(r);
    for (uint32_t i = 0; i < r->n; i++)
        for (const weft_option *const *o = r->components[i]->options; o && *o; o++, n++)
            try_option(r, r->components[i], *o);
    if (!n)
        check_not_applicable("it has no options");
    live(r, NULL, "nothing", "set"); /* says so if this machine cannot use it at all */
}
