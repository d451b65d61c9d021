/* host/manifest.c: checks a manifest against the rules of weft/plugin.h.
 *
 * Manifests are data; no code of the plugin runs here. Each error names the field that differs,
 * with its value and the expected value.
 *
 * A plugin may be older or newer than this program (weft/base.h, Growth). So every table is copied
 * into a zeroed one of this program's size: an older plugin's lacks the end, which then reads as
 * absent; a newer one's is accepted if its unknown end is all zero. The size that a plugin states
 * is trusted up to SIZED_MAX: what lies there is the plugin's own constant data. */
#include <stdio.h>
#include <string.h>
#include <weft/model.h>
#include <weft/strategy.h>

#include "base/err.h"
#include "config/config.h"
#include "host/call.h"
#include "host/object.h"

#define COMPONENTS_MAX 256
#define OPTIONS_MAX 256

static weft_status differs(const char *field, uint64_t is, uint64_t wanted)
{
    return err_fail(WEFT_USAGE,
                    "manifest field %s is %llu, this program has %llu; build the plugin "
                    "again with the headers of this program",
                    field, (unsigned long long)is, (unsigned long long)wanted);
}

static weft_status check_numbers(const weft_manifest *m)
{
    weft_status st;
    if (m->magic != WEFT_MAGIC)
        return err_fail(WEFT_USAGE,
                        "manifest field magic is 0x%08x instead of 0x%08x; this is not a weft "
                        "plugin",
                        m->magic, WEFT_MAGIC);
    if (m->abi_major != WEFT_ABI_MAJOR)
        return differs("abi_major", m->abi_major, WEFT_ABI_MAJOR);
    if (m->abi_minor < WEFT_ABI_LEAST_MINOR)
        return err_fail(WEFT_USAGE,
                        "manifest field abi_minor is %u, this program needs %u or later; build the "
                        "plugin again with the headers of this program",
                        m->abi_minor, WEFT_ABI_LEAST_MINOR);
    if (m->abi_tag != WEFT_ABI_TAG)
        return err_fail(WEFT_USAGE,
                        "manifest field abi_tag is 0x%llx, this program has 0x%llx; the "
                        "plugin was built for another kind of machine",
                        (unsigned long long)m->abi_tag, (unsigned long long)WEFT_ABI_TAG);
    st = host_check_size(m->id ? m->id : "the plugin", "manifest", m,
                         offsetof(weft_manifest, struct_size), WEFT_END_OF(weft_manifest, close),
                         sizeof *m);
    if (st != WEFT_OK)
        return st;
    if (m->flags)
        return differs("flags", m->flags, 0);
    if (!host_plugin_name_well_formed(m->id))
        return err_fail(WEFT_USAGE, "manifest field id is not made of a-z, 0-9, '.' and '_'");
    if (!m->open)
        return err_fail(WEFT_USAGE, "manifest field open is NULL");
    if (!m->components)
        return err_fail(WEFT_USAGE, "manifest field components is NULL");
    return WEFT_OK;
}

/* The host's own copies of a component's options, NULL-ended. */
static weft_status adopt_options(host_object *o, const weft_component *c,
                                 const weft_option *const **out)
{
    uint32_t n = 0;
    while (c->options && c->options[n])
        if (n++ == OPTIONS_MAX)
            return err_fail(WEFT_USAGE, "component '%s' has more than %d options", c->name,
                            OPTIONS_MAX);
    const weft_option **own = pool_array(&o->owner->pool, n + 1, sizeof *own);
    for (uint32_t i = 0; i < n; i++) {
        weft_option *copy = pool_alloc(&o->owner->pool, sizeof *copy);
        weft_status st = host_adopt(c->name, "option", c->options[i], WEFT_END_OF(weft_option, max),
                                    copy, sizeof *copy);
        if (st != WEFT_OK)
            return st;
        own[i] = copy;
        if (config_option_check(copy) != WEFT_OK) {
            err_context("component '%s'", c->name);
            return WEFT_USAGE;
        }
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(own[j]->key, copy->key))
                return err_fail(WEFT_USAGE, "component '%s' has two options '%s'", c->name,
                                copy->key);
    }
    *out = own;
    return WEFT_OK;
}

/* The host's own copy of a component, without its table. */
static weft_status adopt_component(host_object *o, const weft_component *c, weft_component *own)
{
    weft_status st = host_adopt(o->manifest->id, "component", c, WEFT_END_OF(weft_component, user),
                                own, sizeof *own);
    if (st != WEFT_OK)
        return st;
    if (!host_plugin_name_well_formed(c->name))
        return err_fail(WEFT_USAGE,
                        "component name '%.64s' is not made of a-z, 0-9, single '.' and '_'",
                        c->name ? c->name : "NULL");
    if (c->flags)
        return err_fail(WEFT_UNSUPPORTED, "component '%s' has flags 0x%x; 0 is expected", c->name,
                        c->flags);
    if (!host_interface_well_formed(c->iface))
        return err_fail(WEFT_USAGE,
                        "component '%s' has the interface '%.64s', which is not name/major",
                        c->name, c->iface ? c->iface : "NULL");
    if (!c->help)
        return err_fail(WEFT_USAGE, "component '%s' has no line of help", c->name);
    return adopt_options(o, c, &own->options);
}

/* Checks the mandatory members, given the capabilities of the table. */
static weft_status check_slots(const weft_component *c, const host_interface *i, const char *table)
{
    uint64_t caps = 0;
    if (i->caps)
        memcpy(&caps, table + i->caps, sizeof caps);
    for (const host_slot *s = i->slots; s->name; s++) {
        const void *p;
        memcpy(&p, table + s->offset, sizeof p);
        if (p || (s->caps && !(s->caps & caps)))
            continue;
        return err_fail(WEFT_USAGE, "component '%s': its %s table has NULL for '%s', which %s",
                        c->name, i->id, s->name, s->caps ? "its caps promise" : "is mandatory");
    }
    return WEFT_OK;
}

/* The host's own copy of a table: the part that both know, then zeros. */
static weft_status adopt_table(host_object *o, const weft_component *c, const host_interface *i,
                               const void **out)
{
    if (!c->table)
        return err_fail(WEFT_USAGE, "component '%s': its %s table is NULL", c->name, i->id);
    char what[WEFT_MAX_NAME + 16];
    snprintf(what, sizeof what, "%s table", i->id);
    void *own = pool_alloc(&o->owner->pool, i->size);
    weft_status st = host_adopt(c->name, what, c->table, i->least, own, i->size);
    if (st != WEFT_OK)
        return st;
    host_call_register(o->owner, own, o->manifest->id, o->path);
    *out = own;
    return check_slots(c, i, own);
}

/* The mesh axes of a strategy are sized structs as well, behind a pointer of its table. What is
 * wrong with one of them is an error of the job that names the strategy (resolve/plugins.c); a copy
 * keeps the size that the plugin states. */
static weft_status adopt_axes(host_object *o, const char *name, weft_strategy *s)
{
    uint32_t n = 0;
    while (s->axes && s->axes[n])
        if (n++ == COMPONENTS_MAX)
            return err_fail(WEFT_USAGE, "component '%s' has more than %d mesh axes", name,
                            COMPONENTS_MAX);
    if (!n)
        return WEFT_OK;
    const weft_mesh_axis **own = pool_array(&o->owner->pool, n + 1, sizeof *own);
    for (uint32_t i = 0; i < n; i++) {
        weft_mesh_axis *copy = pool_alloc(&o->owner->pool, sizeof *copy);
        weft_status st = host_adopt_sized(name, "mesh axis", s->axes[i], 0, copy, sizeof *copy);
        if (st != WEFT_OK)
            return st;
        own[i] = copy;
    }
    s->axes = own;
    return WEFT_OK;
}

/* Whether the id of an op is of an author: weft's own plugins have the ids without a dot. */
static bool has_domain(const weft_manifest *m, const char *id)
{
    return strchr(id, '.') || !strncmp(m->id, "weft.", 5);
}

static weft_status adopt(host_object *o, const weft_component *from, host_component *out)
{
    weft_component *own = pool_alloc(&o->owner->pool, sizeof *own);
    weft_status st = adopt_component(o, from, own);
    if (st != WEFT_OK)
        return st;
    const host_interface *i = host_interface_find(own->iface);
    if (i && !strcmp(i->id, "weft.op/1") && !has_domain(o->manifest, own->name))
        return err_fail(WEFT_USAGE,
                        "component '%s': ids of ops without a dot are those that come with weft; "
                        "give it yours, such as acme.%s",
                        own->name, own->name);
    own->table = NULL;
    if (i) /* an interface that this host does not know is listed by name and never called */
        st = adopt_table(o, from, i, &own->table);
    if (st == WEFT_OK && i && !strcmp(i->id, "weft.strategy/1"))
        st = adopt_axes(o, own->name, (weft_strategy *)own->table);
    if (st == WEFT_OK && i && !strcmp(i->id, "weft.model/1"))
        st = host_adopt_formats(o, own, (weft_model_table *)own->table);
    *out = (host_component){
        .kind = i && i->kind ? i->kind : o->kind,
        .iface = own->iface,
        .name = own->name,
        .help = own->help,
        .path = o->path,
        .options = own->options,
        .table = own->table,
        .manifest = o->manifest,
        .own = own,
        .no_options = config_no_options(&o->owner->pool, own),
    };
    return st;
}

weft_status host_validate_manifest(host_object *o, const weft_manifest *m)
{
    weft_status st = check_numbers(m);
    uint32_t n = 0;
    if (st != WEFT_OK)
        return st;
    while (m->components[n])
        if (++n > COMPONENTS_MAX)
            return err_fail(WEFT_USAGE, "manifest lists more than %d components", COMPONENTS_MAX);
    if (!n)
        return err_fail(WEFT_USAGE, "manifest lists no components");
    o->manifest = m;
    host_call_register(o->owner, o, m->id, o->path);
    o->components = pool_array(&o->owner->pool, n, sizeof *o->components);
    for (uint32_t i = 0; i < n; i++) {
        const weft_component *c = m->components[i];
        st = adopt(o, c, &o->components[i].shown);
        for (uint32_t j = 0; j < i && st == WEFT_OK; j++)
            if (!strcmp(m->components[j]->name, c->name) &&
                !strcmp(m->components[j]->iface, c->iface))
                st =
                    err_fail(WEFT_USAGE, "component '%s' of %s is listed twice", c->name, c->iface);
        if (st != WEFT_OK)
            return st;
        o->components[i].from = o;
    }
    o->n = n;
    return WEFT_OK;
}
