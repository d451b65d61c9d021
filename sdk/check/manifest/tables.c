/* check/manifest/tables.c: the members of tables, and the options. */
#include "base/err.h"
#include "check/manifest/manifest.h"

#include <stdio.h>
#include <string.h>
#include <weft/coll.h>
#include <weft/device.h>

static const void *member(const weft_component *c, const host_slot *s)
{
    const void *p;
    memcpy(&p, (const char *)c->table + s->offset, sizeof p);
    return p;
}

static uint64_t caps_of(const weft_component *c, const host_interface *i)
{
    uint64_t caps = 0;
    if (i->caps)
        memcpy(&caps, (const char *)c->table + i->caps, sizeof caps);
    return caps;
}

typedef void each_slot(const weft_component *c, const host_interface *i, const host_slot *s);

static void for_slots(check_run *r, each_slot *look)
{
    const weft_manifest *m = check_manifest_raw(r);
    for (uint32_t k = 0; m->components[k]; k++) {
        const weft_component *c = m->components[k];
        const host_interface *i = check_manifest_interface(c);
        if (i && !c->table)
            check_fail("component '%s' has no table", c->name);
        for (const host_slot *s = i ? i->slots : NULL; s && s->name; s++)
            look(c, i, s);
    }
}

static void is_there(const weft_component *c, const host_interface *i, const host_slot *s)
{
    if (!s->caps && !member(c, s))
        check_fail("component '%s': the member %s of its %s table is NULL; it is mandatory",
                   c->name, s->name, i->id);
}

void check_manifest_members(check_run *r)
{
    for_slots(r, is_there);
}

/* A link of 0.9 with write() (the bit 16 of its caps) also has functions that came with it. */
static bool has_write(const weft_component *c, uint64_t caps)
{
    return !strcmp(c->iface, "weft.link/1") && caps & 16;
}

static void goes_together(const weft_component *c, const host_interface *i, const host_slot *s)
{
    const uint64_t caps = caps_of(c, i);
    if (s->caps && caps & s->caps && !member(c, s))
        check_fail("component '%s': its caps 0x%llx promise %s(), which is NULL", c->name,
                   (unsigned long long)caps, s->name);
    if (s->caps && !(caps & s->caps) && member(c, s) && !has_write(c, caps))
        check_fail("component '%s': it has %s(), but its caps 0x%llx have none of the bits 0x%llx, "
                   "so the host never calls it",
                   c->name, s->name, (unsigned long long)caps, (unsigned long long)s->caps);
}

/* Conditions between capabilities that weft/device.h and coll.h state in words. */
static void check_combination(const weft_component *c)
{
    const weft_device_table *d = c->table;
    const weft_coll_table *coll = c->table;
    if (!strcmp(c->iface, "weft.device/1") && d->caps & WEFT_DEV_IMPORT_PEER &&
        (!(d->caps & WEFT_DEV_FLAGS) || !(d->caps & (WEFT_DEV_EXPORT_CUDA | WEFT_DEV_EXPORT_FD))))
        check_fail("component '%s': WEFT_DEV_IMPORT_PEER needs WEFT_DEV_FLAGS, and "
                   "WEFT_DEV_EXPORT_CUDA or WEFT_DEV_EXPORT_FD",
                   c->name);
    if (!strcmp(c->iface, "weft.coll/1") && !coll->caps)
        check_fail("component '%s': its caps have neither WEFT_COLL_STREAM nor WEFT_COLL_HOST",
                   c->name);
}

void check_manifest_caps(check_run *r)
{
    for_slots(r, goes_together);
    const weft_manifest *m = check_manifest_raw(r);
    for (uint32_t k = 0; m->components[k]; k++)
        check_combination(m->components[k]);
}

void check_manifest_defaults(check_run *r)
{
    const weft_manifest *m = check_manifest_raw(r);
    for (uint32_t k = 0; m->components[k]; k++)
        for (const weft_option *const *o = m->components[k]->options; o && *o; o++)
            if (config_option_check(*o) != WEFT_OK)
                check_fail("component '%s': %s", m->components[k]->name, err_text());
}

/* The core's keys of the section that a component's options belong to (weft/plugin.h). */
static const weft_option *const *core_options(const weft_component *c)
{
    const host_interface *i = check_manifest_interface(c);
    if (i && i->kind && !strcmp(i->kind, "comm"))
        return config_link_options();
    for (const config_section *s = config_core_sections(); i && i->kind && s->name; s++)
        if (!strcmp(s->name, i->kind))
            return s->options;
    return NULL;
}

/* The one key that a component shares with the core: a source learns the job's tokenizer by it
 * (weft/data.h). */
static bool is_shared(const weft_component *c, const weft_option *o, const weft_option *core)
{
    return !strcmp(c->iface, "weft.data/1") && !strcmp(o->key, "tokenizer") &&
           o->type == core->type && o->dflt && !strcmp(o->dflt, core->dflt);
}

static void check_key(const weft_component *c, const weft_option *o)
{
    for (const weft_option *const *core = core_options(c); core && *core; core++)
        if (!strcmp((*core)->key, o->key) && !is_shared(c, o, *core))
            check_fail("component '%s': its option '%s' is a key of the core in the same section; "
                       "give it another name",
                       c->name, o->key);
}

void check_manifest_keys(check_run *r)
{
    const weft_manifest *m = check_manifest_raw(r);
    for (uint32_t k = 0; m->components[k]; k++) {
        const weft_component *c = m->components[k];
        for (uint32_t i = 0; c->options && c->options[i]; i++) {
            check_key(c, c->options[i]);
            for (uint32_t j = 0; j < i; j++)
                if (!strcmp(c->options[i]->key, c->options[j]->key))
                    check_fail("component '%s' has two options '%s'", c->name, c->options[i]->key);
        }
    }
}
