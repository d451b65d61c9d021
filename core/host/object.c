/* host/object.c: from a path to a judged object. */
#define _GNU_SOURCE /* dladdr1 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "host/object.h"

#define ENTRY "weft_plugin_entry"

/* A library that the plugin needs and this machine lacks is the machine's matter, not the user's.
 */
static weft_status loader_failed(void)
{
    const char *text = dlerror();
    text = text ? text : "the loader gave no reason";
    bool absent = strstr(text, "cannot open shared object file") != NULL;
    return fail(absent ? WEFT_ABSENT : WEFT_USAGE, "the loader refuses it: %s", text);
}

/* The entry function, if the object itself defines it; dlsym() would also find one in a library
 * that the object merely links to. */
static weft_status find_entry(void *handle, weft_plugin_entry_fn *out)
{
    struct link_map *own = NULL, *defined = NULL;
    Dl_info info;
    void *symbol = dlsym(handle, ENTRY);
    if (!symbol)
        return fail(WEFT_USAGE, "it does not export " ENTRY "; it is no weft plugin");
    if (dlinfo(handle, RTLD_DI_LINKMAP, &own) ||
        !dladdr1(symbol, &info, (void **)&defined, RTLD_DL_LINKMAP))
        return fail(WEFT_INTERNAL, "the loader does not say where " ENTRY " lies");
    if (own != defined)
        return fail(WEFT_USAGE,
                    "its " ENTRY " is that of %s, to which it links; a plugin exports "
                    "its own",
                    info.dli_fname);
    memcpy(out, &symbol, sizeof symbol);
    return WEFT_OK;
}

static weft_status load(object *o, const struct stat *st)
{
    weft_plugin_entry_fn entry = NULL;
    weft_status status = trust_elf(o->path, (uint64_t)st->st_size);
    if (status != WEFT_OK)
        return status;
    void *handle = dlopen(o->path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return loader_failed();
    status = find_entry(handle, &entry);
    if (status != WEFT_OK)
        return status;
    const weft_manifest *m = entry();
    if (!m)
        return fail(WEFT_USAGE, "its " ENTRY "() returned NULL");
    return judge(o, m);
}

static object *find_inode(const host *h, const struct stat *st)
{
    for (uint32_t i = 0; i < h->objects.n; i++) {
        object *o = h->objects.at[i];
        if (o->dev == st->st_dev && o->ino == st->st_ino)
            return o;
    }
    return NULL;
}

static object *object_create(host *h, const char *kind, const char *path, const struct stat *st)
{
    object *o = pool_alloc(&h->pool, sizeof *o);
    o->owner = h;
    o->path = pool_text(&h->pool, path);
    o->kind = pool_text(&h->pool, kind);
    o->dev = st->st_dev;
    o->ino = st->st_ino;
    *vec_push(&h->objects) = o;
    return o;
}

weft_status object_load(host *h, const char *kind, const char *path, object **out)
{
    char real[PATH_MAX];
    struct stat st;
    if (!realpath(path, real))
        return fail_errno(WEFT_USAGE, "%s: cannot find it", path);
    weft_status status = trust_file(real, &st);
    if (status != WEFT_OK) {
        err_context("%s", real);
        return status;
    }
    object *o = find_inode(h, &st);
    if (!o) {
        o = object_create(h, kind, real, &st);
        o->status = load(o, &st);
        if (o->status != WEFT_OK) {
            err_context("%s", real);
            o->refusal = pool_text(&h->pool, err_text());
        }
    }
    if (o->refusal)
        return fail(o->status, "%s", o->refusal);
    *out = o;
    return WEFT_OK;
}
