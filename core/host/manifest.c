/* host/manifest.c: checks a manifest against the rules of weft/plugin.h.
 *
 * Manifests are data; no code of the plugin runs here. Each error names the field that differs,
 * with its value and the expected value. */
#include <string.h>

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

static weft_status judge_numbers(const weft_manifest *m)
{
    if (m->magic != WEFT_MAGIC)
        return err_fail(WEFT_USAGE,
                        "manifest field magic is 0x%08x instead of 0x%08x; this is not a weft "
                        "plugin",
                        m->magic, WEFT_MAGIC);
    if (m->abi_major != WEFT_ABI_MAJOR)
        return differs("abi_major", m->abi_major, WEFT_ABI_MAJOR);
    if (m->abi_minor != WEFT_ABI_MINOR) /* exact while the major is 0 */
        return differs("abi_minor", m->abi_minor, WEFT_ABI_MINOR);
    if (m->abi_tag != WEFT_ABI_TAG)
        return err_fail(WEFT_USAGE,
                        "manifest field abi_tag is 0x%llx, this program has 0x%llx; the "
                        "plugin was built for another kind of machine",
                        (unsigned long long)m->abi_tag, (unsigned long long)WEFT_ABI_TAG);
    if (m->struct_size != sizeof *m)
        return differs("struct_size", m->struct_size, sizeof *m);
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

static weft_status judge_options(const weft_component *c)
{
    for (uint32_t i = 0; c->options && c->options[i]; i++) {
        if (i == OPTIONS_MAX)
            return err_fail(WEFT_USAGE, "component '%s' has more than %d options", c->name,
                            OPTIONS_MAX);
        if (config_option_check(c->options[i]) != WEFT_OK) {
            err_context("component '%s'", c->name);
            return WEFT_USAGE;
        }
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(c->options[j]->key, c->options[i]->key))
                return err_fail(WEFT_USAGE, "component '%s' has two options '%s'", c->name,
                                c->options[i]->key);
    }
    return WEFT_OK;
}

static weft_status judge_component(const weft_component *c)
{
    if (c->struct_size != sizeof *c)
        return err_fail(WEFT_USAGE, "a component of %u bytes; %zu is the size in this ABI",
                        c->struct_size, sizeof *c);
    if (!host_plugin_name_well_formed(c->name))
        return err_fail(WEFT_USAGE,
                        "component name '%.64s' is not made of a-z, 0-9, single '.' and '_'",
                        c->name ? c->name : "NULL");
    if (c->flags)
        return err_fail(WEFT_USAGE, "component '%s' has flags 0x%x; 0 is expected", c->name,
                        c->flags);
    if (!host_interface_well_formed(c->iface))
        return err_fail(WEFT_USAGE,
                        "component '%s' has the interface '%.64s', which is not name/major",
                        c->name, c->iface ? c->iface : "NULL");
    if (!c->help)
        return err_fail(WEFT_USAGE, "component '%s' has no line of help", c->name);
    return judge_options(c);
}

/* Checks the mandatory members, given the capabilities of the table. */
static weft_status judge_slots(const weft_component *c, const interface *i, const char *table)
{
    uint64_t caps = 0;
    if (i->caps)
        memcpy(&caps, table + i->caps, sizeof caps);
    for (const slot *s = i->slots; s->name; s++) {
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
static weft_status adopt_table(object *o, const weft_component *c, const interface *i, void **out)
{
    uint32_t size;
    if (!c->table)
        return err_fail(WEFT_USAGE, "component '%s': its %s table is NULL", c->name, i->id);
    memcpy(&size, c->table, sizeof size);
    if (size < i->size)
        return err_fail(WEFT_USAGE, "component '%s': its %s table has %u bytes, %u are needed",
                        c->name, i->id, size, i->size);
    *out = pool_alloc(&o->owner->pool, i->size);
    host_call_register(o->owner, *out, o->manifest->id, o->path);
    memcpy(*out, c->table, i->size);
    memcpy(*out, &i->size, sizeof i->size);
    return judge_slots(c, i, *out);
}

static weft_status adopt(object *o, const weft_component *c, component *out)
{
    static const weft_option *const none[] = {NULL};
    void *table = NULL;
    const interface *i = host_interface_find(c->iface);
    if (i) { /* an interface that this host does not know is listed by name and never called */
        weft_status st = adopt_table(o, c, i, &table);
        if (st != WEFT_OK)
            return st;
    }
    *out = (component){
        .kind = i && i->kind ? i->kind : o->kind,
        .iface = c->iface,
        .name = c->name,
        .help = c->help,
        .path = o->path,
        .options = c->options ? c->options : none,
        .table = table,
        .manifest = o->manifest,
    };
    return WEFT_OK;
}

weft_status host_validate_manifest(object *o, const weft_manifest *m)
{
    weft_status st = judge_numbers(m);
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
        st = judge_component(c);
        for (uint32_t j = 0; j < i && st == WEFT_OK; j++)
            if (!strcmp(m->components[j]->name, c->name) &&
                !strcmp(m->components[j]->iface, c->iface))
                st =
                    err_fail(WEFT_USAGE, "component '%s' of %s is listed twice", c->name, c->iface);
        if (st == WEFT_OK)
            st = adopt(o, c, &o->components[i].shown);
        if (st != WEFT_OK)
            return st;
        o->components[i].from = o;
    }
    o->n = n;
    return WEFT_OK;
}
