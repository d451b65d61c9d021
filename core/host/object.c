/* host/object.c: from a path to a loaded and checked object. */
#define _GNU_SOURCE /* dladdr1 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "host/call.h"
#include "host/object.h"

#define ENTRY "weft_plugin_entry"

/* --- loading by descriptor --- */

/* Folders that objects were loaded from stay open for good. The loader remembers each object by the
 * name that it was given, "/proc/self/fd/N/x.so": N must never refer to another folder later.
 * $ORIGIN also expands to it, for what the object links to and loads itself. */
typedef struct folder_fd {
    struct folder_fd *next;
    dev_t dev;
    ino_t ino;
    int fd;
} folder_fd;

static folder_fd *folders; /* of this process, under the lock */
static pthread_mutex_t loading_lock = PTHREAD_MUTEX_INITIALIZER;

static int keep_folder(int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return -1;
    pthread_mutex_lock(&loading_lock);
    folder_fd *k = folders;
    while (k && (k->dev != st.st_dev || k->ino != st.st_ino))
        k = k->next;
    if (!k) {
        k = mem_alloc(sizeof *k);
        *k = (folder_fd){folders, st.st_dev, st.st_ino, fcntl(fd, F_DUPFD_CLOEXEC, 3)};
        folders = k;
    }
    int found = k->fd;
    pthread_mutex_unlock(&loading_lock);
    return found;
}

/* A library that the plugin needs and this machine lacks: absent hardware or software, not a usage
 * error. The loader gives no number, so its words decide; no program of weft sets a language. */
static weft_status loader_failed(const host_trusted *t, const char *via)
{
    const char *said = dlerror(), *text = said ? said : "the loader gave no reason";
    bool absent = strstr(text, "cannot open shared object file");
    errno = EMFILE;
    if (strstr(text, strerror(EMFILE)))
        return err_fail_errno(WEFT_USAGE, "the loader refuses it");
    const char *at = strstr(text, via);
    const int before = at ? (int)(at - text) : 0;
    return err_fail(absent && !at ? WEFT_ABSENT : WEFT_USAGE, "the loader refuses it: %.*s%s%s",
                    before, text, at ? t->real : "", at ? at + strlen(via) : text);
}

/* The loader's own names of renamed objects. The loader does not use them any more, but allocated
 * them, so only it may free them. */
typedef struct old_name {
    struct old_name *next;
    const char *text;
} old_name;

static old_name *old_names; /* under the lock */

/* Give an object that was mapped through the descriptor its path: for debuggers, dladdr() and
 * messages. The plugin's own libraries, found by $ORIGIN, follow it in the loader's list. The names
 * live as long as the objects, that is, for good. */
static void name_maps(void *handle, const host_trusted *t, const char *via, size_t folder)
{
    struct link_map *m = NULL;
    char real[PATH_MAX];
    if (dlinfo(handle, RTLD_DI_LINKMAP, &m))
        return;
    for (; m; m = m->l_next) {
        if (strncmp(m->l_name, via, folder))
            continue;
        const char *path = !strcmp(m->l_name, via) ? t->real : realpath(m->l_name, real);
        char *name = path ? strdup(path) : NULL;
        if (name) {
            old_name *old = mem_alloc(sizeof *old);
            pthread_mutex_lock(&loading_lock);
            *old = (old_name){old_names, m->l_name};
            old_names = old;
            pthread_mutex_unlock(&loading_lock);
            m->l_name = name;
        }
    }
}

static weft_status load_by_descriptor(const host_object *o, const host_trusted *t, void **handle)
{
    char via[NAME_MAX + 40];
    const int fd = keep_folder(t->folder);
    if (fd < 0)
        return err_fail_errno(WEFT_IO, "cannot keep its folder open");
    int folder = snprintf(via, sizeof via, "/proc/self/fd/%d/", fd);
    snprintf(via + folder, sizeof via - (size_t)folder, "%s", strrchr(t->real, '/') + 1);
    call_enter(o, "constructor"); /* dlopen() runs them */
    *handle = dlopen(via, RTLD_NOW | RTLD_LOCAL);
    call_leave();
    if (!*handle)
        return loader_failed(t, via);
    name_maps(*handle, t, via, (size_t)folder);
    return WEFT_OK;
}

/* The entry function, if the object itself defines it; dlsym() would also find one in a library
 * that the object links to. */
static weft_status find_entry(void *handle, weft_plugin_entry_fn *out)
{
    struct link_map *own = NULL, *defined = NULL;
    Dl_info info;
    void *symbol = dlsym(handle, ENTRY);
    if (!symbol)
        return err_fail(WEFT_USAGE, "it does not export " ENTRY "; it is not a weft plugin");
    if (dlinfo(handle, RTLD_DI_LINKMAP, &own) ||
        !dladdr1(symbol, &info, (void **)&defined, RTLD_DL_LINKMAP))
        return err_fail(WEFT_INTERNAL, "the loader does not report the address of " ENTRY "");
    if (own != defined)
        return err_fail(WEFT_USAGE,
                        "its " ENTRY " is that of %s, to which it links; a plugin exports "
                        "its own",
                        info.dli_fname);
    memcpy(out, &symbol, sizeof symbol);
    return WEFT_OK;
}

/* Files that have ended a process that tried them. */
static VEC(struct bad_file {
    dev_t dev;
    ino_t ino;
    const char *why;
}) bad;

void host_object_refuse(dev_t dev, ino_t ino, const char *why)
{
    const size_t n = strlen(why) + 1;
    *vec_push(&bad) = (struct bad_file){dev, ino, memcpy(mem_alloc(n), why, n)};
}

const char *host_object_refused(dev_t dev, ino_t ino)
{
    for (uint32_t i = 0; i < bad.n; i++)
        if (bad.at[i].dev == dev && bad.at[i].ino == ino)
            return bad.at[i].why;
    return NULL;
}

static weft_status check_tried(const host_object *o)
{
    const char *why = host_object_refused(o->dev, o->ino);
    return why ? err_fail(WEFT_USAGE, "%s", why) : WEFT_OK;
}

static weft_status load(host_object *o, const host_trusted *t)
{
    weft_plugin_entry_fn entry = NULL;
    void *handle = NULL;
    weft_status st = check_tried(o);
    if (st == WEFT_OK)
        st = host_file_check_elf(t);
    if (st == WEFT_OK)
        st = load_by_descriptor(o, t, &handle);
    if (st == WEFT_OK)
        st = find_entry(handle, &entry);
    if (st != WEFT_OK)
        return st;
    call_enter(o, ENTRY);
    const weft_manifest *m = entry();
    call_leave();
    if (!m)
        return err_fail(WEFT_USAGE, "its " ENTRY "() returned NULL");
    return host_validate_manifest(o, m);
}

static host_object *find_inode(const host *h, const struct stat *st)
{
    for (uint32_t i = 0; i < h->objects.n; i++) {
        host_object *o = h->objects.at[i];
        if (o->dev == st->st_dev && o->ino == st->st_ino)
            return o;
    }
    return NULL;
}

host_object *host_object_known(const host *h, const char *path)
{
    struct stat st;
    return stat(path, &st) ? NULL : find_inode(h, &st);
}

static host_object *object_create(host *h, const char *kind, const char *path,
                                  const struct stat *st)
{
    host_object *o = pool_alloc(&h->pool, sizeof *o);
    o->owner = h;
    o->path = pool_text(&h->pool, path);
    o->kind = pool_text(&h->pool, kind);
    o->dev = st->st_dev;
    o->ino = st->st_ino;
    *vec_push(&h->objects) = o;
    host_call_register(h, o, strrchr(o->path, '/') + 1, o->path); /* no better name yet */
    return o;
}

static weft_status load_trusted(host *h, const char *kind, const host_trusted *t, host_object **out)
{
    host_object *o = find_inode(h, &t->st);
    if (!o) {
        o = object_create(h, kind, t->real, &t->st);
        o->status = load(o, t);
        if (o->status != WEFT_OK) {
            err_context("%s", t->real);
            o->refusal = pool_text(&h->pool, err_text());
        }
    }
    if (o->refusal)
        return err_fail(o->status, "%s", o->refusal);
    *out = o;
    return WEFT_OK;
}

weft_status host_object_load(host *h, const char *kind, const char *path, host_object **out)
{
    host_trusted t;
    weft_status st = host_check_path(path);
    if (st != WEFT_OK)
        return st;
    st = host_file_check_open(path, &t);
    if (st == WEFT_OK && (st = host_check_path(t.real)) != WEFT_OK) {
        host_file_check_close(&t);
        return st;
    }
    if (st != WEFT_OK)
        err_context("%s", t.real[0] ? t.real : path);
    else
        st = load_trusted(h, kind, &t, out);
    host_file_check_close(&t);
    return st;
}

const host_component *host_object_find(const host_object *o, const char *name,
                                       const char *const *ifaces)
{
    for (; *ifaces; ifaces++)
        for (uint32_t i = 0; i < o->n; i++) {
            const host_component *c = &o->components[i].shown;
            if (c->table && !strcmp(c->iface, *ifaces) && !strcmp(c->name, name))
                return c;
        }
    return NULL;
}
