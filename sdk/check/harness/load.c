/* check/harness/load.c: loads the plugin under check, and opens and closes its module. See
 * harness.h. */
#include "base/err.h"
#include "check/harness/harness.h"

#include <dlfcn.h>
#include <string.h>

bool check_lists(const char *list, const char *iface)
{
    const size_t n = iface ? strlen(iface) : 0;
    for (const char *at = list; at && *at; at += strcspn(at, "|"), at += *at == '|')
        if (n && n == strcspn(at, "|") && !strncmp(at, iface, n))
            return true;
    return false;
}

void check_load(check_run *r)
{
    if (r->h)
        return;
    weft_status st = host_create(NULL, &r->h);
    if (st == WEFT_OK)
        st = host_use_ops(r->h);
    if (st == WEFT_OK)
        st = host_load_file(r->h, r->path, &r->components, &r->n);
    if (st == WEFT_OK)
        st = host_use(r->h, r->components[0]); /* its ops take part in plans */
    if (st != WEFT_OK)
        check_fail("the host refuses the file: %s", err_text());
}

check_entry check_raw_entry(const check_run *r, void **handle)
{
    check_entry entry;
    *handle = dlopen(r->path, RTLD_NOW | RTLD_LOCAL);
    if (!*handle) {
        (void)err_fail(WEFT_USAGE, "the loader refuses the file: %s", dlerror());
        return NULL;
    }
    void *symbol = dlsym(*handle, "weft_plugin_entry");
    memcpy(&entry, &symbol, sizeof entry);
    if (!symbol)
        (void)err_fail(WEFT_USAGE, "the file does not export weft_plugin_entry()");
    return entry;
}

const weft_manifest *check_load_raw(const check_run *r)
{
    void *handle;
    check_entry entry = check_raw_entry(r, &handle);
    const weft_manifest *m = entry ? entry() : NULL;
    if (entry && !m)
        (void)err_fail(WEFT_USAGE, "weft_plugin_entry() returned NULL");
    return m;
}

const weft_manifest *check_manifest(check_run *r)
{
    check_load(r);
    return r->components[0]->manifest;
}

/* So that a crash in open() or close() is named. */
static void name_calls(const weft_manifest *m)
{
    static char owner;
    host_call_register(&owner, m, m->id ? m->id : "without an id", "");
}

weft_status check_open(const weft_manifest *m, check_host *h, void **module)
{
    if (!m->open)
        check_fail("the manifest has no open()");
    name_calls(m);
    return PLUGIN_GET(m, open, h->table, module);
}

void check_close(const weft_manifest *m, void *module)
{
    name_calls(m);
    if (m->close)
        PLUGIN_DO(m, close, module);
}

const char *check_status(weft_status st)
{
    static const char *const names[] = {
        "WEFT_OK", "WEFT_BUSY", "WEFT_UNSUPPORTED", "WEFT_USAGE",  "WEFT_NO_MEMORY",
        "WEFT_IO", "WEFT_PEER", "WEFT_DATA",        "WEFT_ABSENT", "WEFT_INTERNAL"};
    return (uint32_t)st < sizeof names / sizeof *names ? names[st] : "an unknown status";
}
