/* check/manifest/fields.c: the fields of the manifest and of its components. */
#include "base/err.h"
#include "check/manifest/manifest.h"

#include <stdio.h>
#include <string.h>
#include <weft/coll.h>
#include <weft/device.h>
#include <weft/link.h>
#include <weft/optim.h>

#define CAPACITY 256 /* components or options at most */

const weft_manifest *check_manifest_raw(check_run *r)
{
    const weft_manifest *m = check_load_raw(r);
    if (!m)
        check_fail("%s", err_text());
    return m;
}

const host_interface *check_manifest_interface(const weft_component *c)
{
    return c->iface ? host_interface_find(c->iface) : NULL;
}

void check_manifest_numbers(check_run *r)
{
    const weft_manifest *m = check_manifest_raw(r);
    if (m->magic != WEFT_MAGIC)
        check_fail("the field magic is 0x%08x instead of 0x%08x", m->magic, WEFT_MAGIC);
    if (m->abi_major != WEFT_ABI_MAJOR || m->abi_minor < WEFT_ABI_LEAST_MINOR)
        check_fail("the ABI numbers are %u.%u; this program loads %u.%u and later minors",
                   m->abi_major, m->abi_minor, WEFT_ABI_MAJOR, WEFT_ABI_LEAST_MINOR);
    if (m->abi_tag != WEFT_ABI_TAG)
        check_fail("the field abi_tag is 0x%llx instead of 0x%llx", (unsigned long long)m->abi_tag,
                   (unsigned long long)WEFT_ABI_TAG);
    if (!m->open || !m->components || !m->components[0])
        check_fail("the manifest has no %s", !m->open ? "open()" : "components");
}

static bool is_ours(const weft_manifest *m)
{
    return !strncmp(m->id, "weft.", strlen("weft."));
}

void check_manifest_names(check_run *r)
{
    const weft_manifest *m = check_manifest_raw(r);
    if (!host_plugin_name_well_formed(m->id) || !strchr(m->id, '.'))
        check_fail("the id '%.80s' is not made of a-z, 0-9, '_' and single '.', with one '.' at "
                   "least; write a reverse domain, as org.acme.lion",
                   m->id ? m->id : "NULL");
    for (uint32_t i = 0; m->components && m->components[i] && i < CAPACITY; i++) {
        const char *name = m->components[i]->name;
        if (!host_plugin_name_well_formed(name))
            check_fail("the component name '%.80s' is not made of a-z, 0-9, '_' and single '.'",
                       name ? name : "NULL");
        if (!is_ours(m) && !strchr(name, '.') && check_manifest_interface(m->components[i]))
            check_fail("the component name '%s' has no dot; names without one are weft's own, so "
                       "write acme.%s",
                       name, name);
        for (const weft_option *const *o = m->components[i]->options; o && *o; o++)
            if (!(*o)->key || !*(*o)->key ||
                strspn((*o)->key, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen((*o)->key))
                check_fail("the option '%.80s' of '%s' is not made of a-z, 0-9 and '_'",
                           (*o)->key ? (*o)->key : "NULL", name);
    }
}

void check_manifest_interfaces(check_run *r)
{
    const weft_manifest *m = check_manifest_raw(r);
    for (uint32_t i = 0; m->components && m->components[i] && i < CAPACITY; i++) {
        const char *id = m->components[i]->iface;
        if (!host_interface_well_formed(id))
            check_fail("component %u has the interface '%.80s', which is not name/major", i,
                       id ? id : "NULL");
        if (!strncmp(id, "weft.", strlen("weft.")) && !host_interface_find(id))
            check_fail("component %u has the interface '%s', which this program does not know", i,
                       id);
    }
}

static void check_size(const char *owner, const char *what, const void *from, size_t at,
                       size_t least, size_t known)
{
    if (host_check_size(owner, what, from, at, least, known) != WEFT_OK)
        check_fail("%s", err_text());
}

static void check_strategy_sizes(const weft_component *c)
{
    const weft_strategy *s = c->table;
    for (uint32_t i = 0; s->axes && s->axes[i] && i < CAPACITY; i++)
        check_size(c->name, "mesh axis", s->axes[i], 0, WEFT_END_OF(weft_mesh_axis, help),
                   sizeof(weft_mesh_axis));
}

void check_manifest_sizes(check_run *r)
{
    const weft_manifest *m = check_manifest_raw(r);
    check_size(m->id, "manifest", m, offsetof(weft_manifest, struct_size),
               WEFT_END_OF(weft_manifest, close), sizeof *m);
    for (uint32_t i = 0; m->components[i] && i < CAPACITY; i++) {
        const weft_component *c = m->components[i];
        check_size(m->id, "component", c, 0, WEFT_END_OF(weft_component, user), sizeof *c);
        for (const weft_option *const *o = c->options; o && *o; o++)
            check_size(c->name, "option", *o, 0, WEFT_END_OF(weft_option, max), sizeof **o);
        const host_interface *known = check_manifest_interface(c);
        if (!known || !c->table)
            continue;
        check_size(c->name, "table", c->table, 0, known->least, known->size);
        if (!strcmp(c->iface, "weft.strategy/1"))
            check_strategy_sizes(c);
    }
}

/* --- reserved words and capabilities --- */

static const struct known_bits {
    const char *iface, *word;
    uint32_t offset, bytes;
    uint64_t known;
} words[] = {
#define WORD(iface, type, member, known)                                                           \
    {                                                                                              \
        iface, #member, offsetof(type, member), sizeof(((type *)0)->member), known                 \
    }
    WORD("weft.device/1", weft_device_table, reserved, 0),
    WORD("weft.device/1", weft_device_table, caps, 255),
    WORD("weft.link/1", weft_link_table, caps, 255), /* with 16, of 0.9 */
    WORD("weft.coll/1", weft_coll_table, caps, WEFT_COLL_STREAM | WEFT_COLL_HOST),
    WORD("weft.strategy/1", weft_strategy, flags, 0),
    WORD("weft.placement/1", weft_placement, flags, 0),
    WORD("weft.kernel/1", weft_kernel, flags, 0),
    WORD("weft.op/1", weft_op, flags,
         WEFT_OP_ELEMENTWISE | WEFT_OP_ACCUMULATES | WEFT_OP_SHAPE_LAST | WEFT_OP_NUMBERED),
};

static void check_words(const weft_component *c)
{
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        uint64_t value = 0;
        if (strcmp(words[k].iface, c->iface) != 0)
            continue;
        memcpy(&value, (const char *)c->table + words[k].offset, words[k].bytes);
        if (value & ~words[k].known)
            check_fail("the table of '%s' has the word %s = 0x%llx; the bits 0x%llx have no "
                       "meaning and must be 0",
                       c->name, words[k].word, (unsigned long long)value,
                       (unsigned long long)(value & ~words[k].known));
    }
    const weft_rule *rule = c->table;
    if (!strcmp(c->iface, "weft.rule/1") && (rule->unit < 1 || rule->unit > WEFT_UNIT_MATRIX))
        check_fail("the rule '%s' has the unit %u; weft/optim.h defines 1 to %u", c->name,
                   rule->unit, WEFT_UNIT_MATRIX);
    const weft_strategy *s = c->table;
    if (strcmp(c->iface, "weft.strategy/1") != 0)
        return;
    for (uint32_t i = 0; s->axes && s->axes[i] && i < CAPACITY; i++)
        if (s->axes[i]->flags & ~(WEFT_AXIS_SEQUENCE | WEFT_AXIS_BATCH | WEFT_AXIS_MODEL) ||
            s->axes[i]->flags & (s->axes[i]->flags - 1))
            check_fail(
                "the mesh axis %s of '%s' has the flags 0x%x, of which one is defined and set at "
                "most",
                s->axes[i]->name, c->name, s->axes[i]->flags);
}

void check_manifest_reserved(check_run *r)
{
    const weft_manifest *m = check_manifest_raw(r);
    if (m->flags)
        check_fail("the manifest has the flags 0x%x; weft/plugin.h defines none", m->flags);
    for (uint32_t i = 0; m->components[i] && i < CAPACITY; i++) {
        const weft_component *c = m->components[i];
        if (c->flags)
            check_fail("component '%s' has the flags 0x%x; weft/plugin.h defines none", c->name,
                       c->flags);
        if (check_manifest_interface(c) && c->table)
            check_words(c);
    }
}

/* --- texts --- */

static void check_text(const char *owner, const char *what, const char *text)
{
    for (const char *at = text; at && *at; at++)
        if ((unsigned char)*at < 32 || *at == 127)
            check_fail("%s: its %s has the byte 0x%02x at position %zu; texts are one line without "
                       "control characters",
                       owner, what, (unsigned char)*at, (size_t)(at - text));
}

void check_manifest_lines(check_run *r)
{
    const weft_manifest *m = check_manifest_raw(r);
    check_text("the manifest", "version", m->version);
    check_text("the manifest", "license", m->license);
    check_text("the manifest", "build", m->build);
    for (uint32_t i = 0; m->components[i] && i < CAPACITY; i++) {
        const weft_component *c = m->components[i];
        check_text(c->name, "help", c->help);
        for (const weft_option *const *o = c->options; o && *o; o++) {
            check_text((*o)->key, "default", (*o)->dflt);
            check_text((*o)->key, "help", (*o)->help);
            check_text((*o)->key, "choices", (*o)->choices);
        }
        const weft_strategy *s = c->table;
        for (uint32_t k = 0; !strcmp(c->iface, "weft.strategy/1") && s->axes && s->axes[k]; k++)
            check_text(s->axes[k]->name, "help", s->axes[k]->help);
    }
}

void check_manifest_twice(check_run *r)
{
    const weft_manifest *m = check_manifest_raw(r);
    for (uint32_t i = 0; m->components[i] && i < CAPACITY; i++)
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(m->components[i]->name, m->components[j]->name) &&
                !strcmp(m->components[i]->iface, m->components[j]->iface))
                check_fail("the component '%s' of %s is listed twice", m->components[i]->name,
                           m->components[i]->iface);
}
