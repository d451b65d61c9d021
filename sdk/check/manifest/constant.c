/* check/manifest/constant.c: that the manifest is constant data. */
#include "base/err.h"
#include "base/number/digest.h"
#include "check/manifest/manifest.h"

#include <string.h>

#define THREADS 8
#define CALLS 100

static void mix_text(uint64_t *h, const char *text)
{
    if (text)
        digest_mix(h, text, strlen(text) + 1);
}

/* A digest of all bytes that the manifest leads to. */
static uint64_t hash_manifest(const weft_manifest *m)
{
    uint64_t h = DIGEST_BEGIN;
    digest_mix(&h, m, sizeof *m);
    const char *const about[] = {m->id, m->version, m->license, m->build};
    for (size_t i = 0; i < sizeof about / sizeof *about; i++)
        mix_text(&h, about[i]);
    for (uint32_t i = 0; m->components && m->components[i]; i++) {
        const weft_component *c = m->components[i];
        const char *const texts[] = {c->iface, c->name, c->help};
        digest_mix(&h, c, sizeof *c);
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            mix_text(&h, texts[k]);
        for (const weft_option *const *o = c->options; o && *o; o++) {
            const char *const words[] = {(*o)->key, (*o)->dflt, (*o)->help, (*o)->choices};
            digest_mix(&h, *o, sizeof **o);
            for (size_t k = 0; k < sizeof words / sizeof *words; k++)
                mix_text(&h, words[k]);
        }
        const host_interface *known = check_manifest_interface(c);
        if (known && c->table)
            digest_mix(&h, c->table, known->least);
    }
    return h;
}

typedef struct caller {
    check_entry entry;
    const weft_manifest *wanted;
    uint64_t bytes;
} caller;

static void *call_often(void *arg)
{
    const caller *c = arg;
    for (int i = 0; i < CALLS; i++) {
        const weft_manifest *m = c->entry();
        if (m != c->wanted)
            check_fail("weft_plugin_entry() returned another pointer in a later call; the manifest "
                       "is constant data");
        if (hash_manifest(m) != c->bytes)
            check_fail("the manifest has other bytes in a later call of weft_plugin_entry()");
    }
    return NULL;
}

void check_manifest_constant(check_run *r)
{
    void *handle;
    pthread_t threads[THREADS];
    caller c = {check_raw_entry(r, &handle), NULL, 0};
    c.wanted = c.entry ? c.entry() : NULL;
    if (!c.wanted)
        check_fail("%s", c.entry ? "weft_plugin_entry() returned NULL" : err_text());
    c.bytes = hash_manifest(c.wanted);
    call_often(&c);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, call_often, &c))
            check_fail("no thread for the check");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

void check_manifest_unchanged(check_run *r)
{
    static check_host h;
    void *module = NULL;
    const weft_manifest *m = check_manifest_raw(r);
    const uint64_t before = hash_manifest(m);
    check_host_begin(&h, "the host");
    const weft_status st = check_open(m, &h, &module);
    if (hash_manifest(m) != before)
        check_fail("open() changed the manifest or a table that it leads to; they are constant");
    if (st == WEFT_OK)
        check_close(m, module);
    if (hash_manifest(m) != before)
        check_fail("close() changed the manifest or a table that it leads to; they are constant");
}
