/* host/host.c: search places of plugins, and lookup by name. See host.h. */
#include "host/host.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "config/config.h"
#include "host/call.h"
#include "host/object.h"
#include "host/watch.h"

#define PLACES_MAX 64

const char *const host_kinds[] = {"op",    "device", "comm",      "parallel", "optim",
                                  "model", "data",   "tokenizer", "sink",     NULL};

/* --- places --- */

static weft_status add_places(host *h, const char *list)
{
    for (const char *at = list; at && *at;) {
        size_t n = strcspn(at, ":");
        if (h->places.n == PLACES_MAX)
            return err_fail(WEFT_USAGE, "more than %d folders to search for plugins", PLACES_MAX);
        if (n)
            *vec_push(&h->places) = pool_printf(&h->pool, "%.*s", (int)n, at);
        if (n && !h->quiet && access(h->places.at[h->places.n - 1], F_OK) && log_rank() <= 0)
            log_line(WEFT_LOG_WARN, "no plugins come from %s: %s", h->places.at[h->places.n - 1],
                     strerror(errno));
        at += n + (at[n] == ':');
    }
    return WEFT_OK;
}

/* lib/weft beside the bin that this program was started from. */
static void add_own_place(host *h)
{
    char prefix[PATH_MAX];
    if (!host_program_prefix(prefix))
        return;
    *vec_push(&h->places) = pool_printf(&h->pool, "%s/lib/weft", prefix);
    h->has_own = true;
}

/* Paths of objects have no links, those of places may. */
uint32_t host_place_of(const host *h, const char *path, bool *own)
{
    uint32_t p = 0;
    for (; p < h->places.n; p++) {
        char real[PATH_MAX];
        const size_t n = realpath(h->places.at[p], real) ? strlen(real) : 0;
        const size_t given = strlen(h->places.at[p]);
        if ((n && !strncmp(path, real, n) && path[n] == '/') ||
            (!strncmp(path, h->places.at[p], given) && path[given] == '/'))
            break;
    }
    *own = h->has_own && p + 1 == h->places.n;
    return p;
}

weft_status host_create(const char *dirs, host **out)
{
    host *h = mem_alloc(sizeof *h);
    weft_status st = add_places(h, dirs);
    if (st == WEFT_OK)
        st = add_places(h, getenv("WEFT_PLUGIN_PATH"));
    if (st != WEFT_OK) {
        host_destroy(h);
        return st;
    }
    add_own_place(h);
    host_watch_begin();
    h->watched = true;
    *out = h;
    return WEFT_OK;
}

void host_destroy(host *h)
{
    if (!h)
        return;
    for (uint32_t i = h->opened.n; i-- > 0;)
        host_object_close(h->opened.at[i]);
    host_call_forget(h);
    if (h->watched)
        host_watch_end();
    free(h->places.at);
    free(h->objects.at);
    free(h->served.at);
    free(h->opened.at);
    free(h->used.at);
    pool_free(&h->pool);
    free(h);
}

/* --- lookup --- */

void host_try_first(host *h)
{
    h->try_first = true;
}

static weft_status load_object(host *h, const char *kind, const char *path, host_object **out)
{
    bool own;
    *out = host_object_known(h, path);
    if (*out && !(*out)->refusal)
        return WEFT_OK;
    (void)host_place_of(h, path, &own);
    if (h->try_first && !own && !*out)
        host_try_before(h, kind, path);
    return host_object_load(h, kind, path, out);
}

static __attribute__((format(printf, 3, 4))) void append(char *out, size_t n, const char *fmt, ...)
{
    size_t used = strlen(out);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out + used, n - used, fmt, ap);
    va_end(ap);
}

/* The file exists under the right name, but has other components. */
static weft_status not_inside(const host_object *o, const char *name, const char *const *ifaces)
{
    char list[512] = "", wanted[256] = "";
    for (uint32_t i = 0; ifaces[i]; i++)
        append(wanted, sizeof wanted, "%s%s", i ? " or " : "", ifaces[i]);
    for (uint32_t i = 0; i < o->n; i++) {
        const host_component *c = &o->components[i].shown;
        append(list, sizeof list, "%s'%s' of %s", i ? ", " : "", c->name, c->iface);
        if (!c->table && host_interface_other_major(c->iface))
            append(list, sizeof list, " (this program knows %s)",
                   host_interface_other_major(c->iface)->id);
    }
    return err_fail(WEFT_USAGE, "%s has no component '%s' of %s; it has %s", o->path, name, wanted,
                    list);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef host_object_files names;

/* The .so files of PLACE/KIND, as paths, sorted; a folder that is not there has none. */
static void list_files(host *h, const char *place, const char *kind, names *out)
{
    const char *folder = pool_printf(&h->pool, "%s/%s", place, kind);
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    uint32_t first = out->n;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        size_t n = strlen(e->d_name);
        if (n > 3 && !strcmp(e->d_name + n - 3, ".so"))
            *vec_push(out) = pool_printf(&h->pool, "%s/%s", folder, e->d_name);
    }
    closedir(dir);
    if (out->n > first)
        qsort(out->at + first, out->n - first, sizeof *out->at, by_name);
}

/* The result of a search by component name. */
typedef struct search {
    const host_component *found;
    uint32_t refused; /* files that cannot be used, */
    const char *why;  /* and the first one's reason */
} search;

/* Look into every object of the folders `folder` (a kind). */
static void scan(host *h, const char *folder, const char *name, const char *const *ifaces,
                 search *s)
{
    names files = {0};
    for (uint32_t p = 0; p < h->places.n; p++)
        list_files(h, h->places.at[p], folder, &files);
    for (uint32_t i = 0; i < files.n && !s->found; i++) {
        host_object *o;
        if (load_object(h, folder, files.at[i], &o) == WEFT_OK)
            s->found = host_object_find(o, name, ifaces);
        else if (!s->refused++)
            s->why = pool_text(&h->pool, err_text());
    }
    free(files.at);
}

/* First the folders of the component's own kind, then the others: an object with components of
 * several kinds is in one of them. */
static search scan_all(host *h, const char *kind, const char *name, const char *const *ifaces)
{
    search s = {0};
    scan(h, kind, name, ifaces, &s);
    for (size_t k = 0; host_kinds[k] && !s.found; k++)
        if (strcmp(host_kinds[k], kind)) {
            search other = {0};
            scan(h, host_kinds[k], name, ifaces, &other);
            s.found = other.found;
        }
    return s;
}

/* "/a/op/acme.gelu.so" to "acme.gelu". */
static const char *stem_of(host *h, const char *path)
{
    const char *base = strrchr(path, '/') + 1;
    return pool_printf(&h->pool, "%.*s", (int)strlen(base) - 3, base);
}

/* Names of other components that would fit; a file with ops is named by its own name, too. */
static names alike(host *h, const char *name, const char *const *ifaces)
{
    names known = {0};
    for (uint32_t i = 0; i < h->objects.n; i++)
        for (uint32_t j = 0; j < h->objects.at[i]->n; j++) {
            const host_component *c = &h->objects.at[i]->components[j].shown;
            for (uint32_t k = 0; c->table && ifaces[k]; k++)
                if (!strcmp(c->iface, ifaces[k]) && strcmp(c->name, name)) {
                    *vec_push(&known) = c->name;
                    if (!strcmp(c->kind, "op"))
                        *vec_push(&known) = stem_of(h, c->path);
                }
        }
    if (known.n)
        qsort(known.at, known.n, sizeof *known.at, by_name);
    return known;
}

/* The nearest of them, else all. */
static void say_alike(host *h, const char *name, const char *const *ifaces, char *text, size_t cap)
{
    names known = alike(h, name, ifaces);
    const char *near = config_nearest(name, known.at, known.n);
    if (near)
        append(text, cap, "; did you mean '%s'?", near);
    for (uint32_t i = 0; !near && i < known.n; i++)
        if (!i || strcmp(known.at[i - 1], known.at[i]))
            append(text, cap, "%s%s", i ? ", " : "; there are: ", known.at[i]);
    free(known.at);
}

static weft_status not_found(host *h, const char *kind, const char *name, const char *const *ifaces,
                             const search *s)
{
    char text[2048] = "";
    for (uint32_t p = 0; p < h->places.n; p++)
        append(text, sizeof text, "%s%s/%s", p ? ", " : "", h->places.at[p], kind);
    append(text, sizeof text, "; run.plugins and WEFT_PLUGIN_PATH name further folders");
    say_alike(h, name, ifaces, text, sizeof text);
    if (s->refused)
        append(text, sizeof text, "; files there that cannot be used: %u, the first: %s",
               s->refused, s->why);
    return err_fail(WEFT_USAGE, "no %s plugin '%s' in %s", kind, name, text);
}

/* A file hides one of the same name in a place that is searched later: the user may not expect
 * that. One rank logs it. */
static void say_hidden(const host *h, uint32_t place, const char *kind, const char *name,
                       host_object *o)
{
    if (o->warned || log_rank() > 0)
        return;
    o->warned = true;
    for (uint32_t p = place + 1; p < h->places.n; p++) {
        struct stat st;
        char file[PATH_MAX];
        int n = snprintf(file, sizeof file, "%s/%s/%s.so", h->places.at[p], kind, name);
        if (n < (int)sizeof file && !stat(file, &st) &&
            (st.st_ino != o->ino || st.st_dev != o->dev))
            log_line(WEFT_LOG_WARN,
                     "the %s plugin '%s' is loaded from %s, which takes the place of %s%s", kind,
                     name, o->path, file,
                     h->has_own && p + 1 == h->places.n ? ", the one that comes with the program"
                                                        : "");
    }
}

weft_status host_find(host *h, const char *kind, const char *name, const char *const *ifaces,
                      const host_component **out)
{
    if (!host_plugin_name_well_formed(name))
        return err_fail(WEFT_USAGE,
                        "'%.80s' is not a plugin name (%s); names are made of a-z, 0-9, "
                        "single '.' and '_'",
                        name, kind);
    for (uint32_t p = 0; p < h->places.n; p++) {
        host_object *o;
        const char *path = pool_printf(&h->pool, "%s/%s/%s.so", h->places.at[p], kind, name);
        if (access(path, F_OK) && (errno == ENOENT || errno == ENOTDIR))
            continue;
        weft_status st = load_object(h, kind, path, &o);
        if (st != WEFT_OK)
            return st;
        say_hidden(h, p, kind, name, o);
        *out = host_object_find(o, name, ifaces);
        return *out ? WEFT_OK : not_inside(o, name, ifaces);
    }
    search s = scan_all(h, kind, name, ifaces);
    if (!s.found)
        return not_found(h, kind, name, ifaces, &s);
    err_clear();
    *out = s.found;
    return WEFT_OK;
}

/* "/a/op/acme.gelu.so" to "op"; "": in no folder of a kind. */
static const char *kind_of(host *h, const char *path)
{
    char *folder = pool_text(&h->pool, path), *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
    const char *last = strrchr(folder, '/');
    for (uint32_t k = 0; last && host_kinds[k]; k++)
        if (!strcmp(last + 1, host_kinds[k]))
            return host_kinds[k];
    return "";
}

weft_status host_load_file(host *h, const char *path, const host_component *const **out,
                           uint32_t *n)
{
    host_object *o;
    weft_status st = load_object(h, kind_of(h, path), path, &o);
    if (st != WEFT_OK)
        return st;
    const host_component **all = pool_array(&h->pool, o->n, sizeof *all);
    for (uint32_t i = 0; i < o->n; i++)
        all[i] = &o->components[i].shown;
    *out = all;
    *n = o->n;
    return WEFT_OK;
}

/* --- listing --- */

static int by_kind_and_name(const void *a, const void *b)
{
    const host_component *x = *(const host_component *const *)a,
                         *y = *(const host_component *const *)b;
    int order = strcmp(x->kind, y->kind);
    order = order ? order : strcmp(x->name, y->name);
    return order ? order : strcmp(x->path, y->path);
}

/* As it may be printed in a line. */
static const char *plain(host *h, const char *text)
{
    char *own = pool_printf(&h->pool, "%s", text);
    log_plain(own);
    for (char *at = own; (at = strpbrk(at, "\n\t"));)
        *at = '?';
    return own;
}

/* How `weft plugins` lists a file or component that cannot be used. */
static const host_component *refused(host *h, const char *kind, const char *path, const char *name,
                                     const char *why)
{
    host_component *c = pool_alloc(&h->pool, sizeof *c);
    static const weft_option *const none[] = {NULL};
    *c = (host_component){.kind = kind, .options = none};
    c->name = plain(h, name);
    c->path = plain(h, path);
    c->help = plain(h, why);
    return c;
}

static const host_component *refused_file(host *h, const char *kind, const char *path)
{
    return refused(h, kind, path, stem_of(h, path), err_text());
}

typedef VEC(const host_component *) listing;

static void list_object(host *h, const host_object *o, listing *out)
{
    for (uint32_t i = 0; i < o->n; i++) {
        const host_component *c = &o->components[i].shown;
        const char *why =
            pool_printf(&h->pool, "this program does not know the interface %s", c->iface);
        *vec_push(out) = c->table ? c : refused(h, c->kind, c->path, c->name, why);
    }
}

static void list_kind(host *h, const char *kind, listing *out)
{
    names files = {0};
    for (uint32_t p = 0; p < h->places.n; p++)
        list_files(h, h->places.at[p], kind, &files);
    for (uint32_t i = 0; i < files.n; i++) {
        host_object *o;
        if (load_object(h, kind, files.at[i], &o) != WEFT_OK) {
            *vec_push(out) = refused_file(h, kind, files.at[i]);
            continue;
        }
        bool seen = false;
        for (uint32_t j = 0; j < out->n; j++)
            seen = seen || out->at[j]->path == o->path;
        if (!seen)
            list_object(h, o, out);
    }
    free(files.at);
}

void host_try_all(host *h)
{
    for (size_t k = 0; host_kinds[k]; k++) {
        names files = {0};
        for (uint32_t p = 0; p < h->places.n; p++)
            list_files(h, h->places.at[p], host_kinds[k], &files);
        host_try_files(h, host_kinds[k], &files, TRY_SECONDS);
        free(files.at);
    }
}

/* The program's own place may be named, too. */
bool host_try_others(const char *dirs, const char *kind, host_try_work *work, const void *ctx,
                     bool tell)
{
    host h = {.quiet = true};
    names files = {0};
    char prefix[PATH_MAX];
    struct stat own = {0}, place;
    bool tried = true;
    if (host_program_prefix(prefix) && stat(pool_printf(&h.pool, "%s/lib/weft", prefix), &own))
        own = (struct stat){0};
    if (add_places(&h, dirs) == WEFT_OK && add_places(&h, getenv("WEFT_PLUGIN_PATH")) == WEFT_OK)
        for (uint32_t p = 0; p < h.places.n; p++)
            if (!stat(h.places.at[p], &place) &&
                (place.st_dev != own.st_dev || place.st_ino != own.st_ino))
                list_files(&h, h.places.at[p], kind, &files);
    err_clear(); /* host_create() reports it */
    if (files.n)
        tried = host_try_each(&files, work, ctx, tell);
    free(files.at);
    free(h.places.at);
    pool_free(&h.pool);
    return tried;
}

void host_list(host *h, const char *kind, const host_component ***out, uint32_t *n)
{
    listing all = {0};
    for (size_t k = 0; host_kinds[k]; k++)
        if (!kind || !strcmp(kind, host_kinds[k]))
            list_kind(h, host_kinds[k], &all);
    if (all.n)
        qsort(all.at, all.n, sizeof *all.at, by_kind_and_name);
    err_clear();
    *n = all.n;
    *out = pool_array(&h->pool, all.n, sizeof **out);
    if (all.n)
        memcpy(*out, all.at, all.n * sizeof **out);
    free(all.at);
}
