/* doctor/checks/external.c: files of plugins outside the installation. See external.h.
 *
 * The list has a row for each component, sorted by kind and name, so rows of one file may lie
 * apart: the first row of a file gathers the others. */
#include "doctor/checks/external.h"

#include <string.h>

bool doctor_is_external(const host *h, const host_component *c)
{
    bool own;
    host_place_of(h, c->path, &own);
    return !own;
}

static bool same_name(const host_component *a, const host_component *b)
{
    return a->iface && b->iface && !strcmp(a->kind, b->kind) && !strcmp(a->name, b->name) &&
           !strcmp(a->iface, b->iface) && strcmp(a->path, b->path) != 0;
}

static void report_unusable(doctor *d, const host_component *c)
{
    doctor_add_line(d, "%s: cannot be used: %s", c->path, c->help);
    doctor_add_finding(d, DOCTOR_PROBLEM, "the plugin %s (%s) in %s cannot be used: %s", c->name,
                       c->kind, c->path, c->help);
    doctor_add_reason(d, "A job that names it is refused.");
    doctor_add_command(d, "ldd %s; weft plugins check %s  # build it anew, or remove the file",
                       c->path, c->path);
}

static void report_hidden(doctor *d, const host *h, const host_component *c,
                          const host_component *other)
{
    bool own;
    if (!same_name(c, other) ||
        host_place_of(h, c->path, &own) >= host_place_of(h, other->path, &own))
        return;
    doctor_add_finding(d, DOCTOR_NOTE, "the %s plugin '%s' of %s hides that of %s%s", c->kind,
                       c->name, c->path, other->path, own ? ", which comes with the program" : "");
    doctor_add_reason(d, "A job takes the first place that is searched: run.plugins, then "
                         "WEFT_PLUGIN_PATH, then the program's own.");
    doctor_add_command(d, "weft plugins info %s; echo $WEFT_PLUGIN_PATH", c->path);
}

static void report_file(doctor *d, const host *h, const host_component *const *all, uint32_t n,
                        uint32_t first)
{
    const char *path = all[first]->path, *parts = NULL;
    const weft_manifest *m = NULL;
    for (uint32_t i = first; i < n; i++) {
        const host_component *c = all[i];
        if (strcmp(c->path, path) != 0)
            continue;
        if (!c->iface) {
            report_unusable(d, c);
            continue;
        }
        m = c->manifest;
        parts = pool_printf(&d->pool, "%s%s%s %s (%s)", parts ? parts : "", parts ? ", " : "",
                            c->kind, c->name, c->iface);
        for (uint32_t k = 0; k < n; k++)
            report_hidden(d, h, c, all[k]);
    }
    if (m)
        doctor_add_line(d, "%s: %s, ABI %u.%u", path, parts, m->abi_major, m->abi_minor);
}

void doctor_add_external(doctor *d, const host *h, const host_component *const *all, uint32_t n)
{
    int64_t files = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool seen = !doctor_is_external(h, all[i]);
        for (uint32_t k = 0; k < i && !seen; k++)
            seen = !strcmp(all[k]->path, all[i]->path);
        if (seen)
            continue;
        report_file(d, h, all, n, i);
        files++;
    }
    doctor_add_number(d, "external", files);
}
