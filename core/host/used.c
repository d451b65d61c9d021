/* host/used.c: the objects that a job uses; their ops and kernels are those of the job.
 *
 * The first is the one with the ops that come with weft. Another object may be loaded only because
 * a search by component name or the probes of `auto` looked into it. So what is loaded differs
 * between machines and settings, and counts for nothing: ops and kernels come from the objects that
 * a key of the job names, or that it let `auto` choose. */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/number/hex.h"
#include "config/config.h"
#include "host/object.h"

static const char *const op_ifaces[] = {"weft.op/1", "weft.kernel/1", NULL};

/* An op of one name in two objects: which one is meant would depend on the order of the keys. */
static weft_status check_ops(const host *h, const host_object *o)
{
    const char *const ops[] = {op_ifaces[0], NULL};
    for (uint32_t i = 0; i < h->used.n; i++)
        for (uint32_t k = 0; k < o->n; k++) {
            const host_component *c = &o->components[k].shown;
            if (c->table && !strcmp(c->iface, *ops) &&
                host_object_find(h->used.at[i], c->name, ops))
                return err_fail(WEFT_USAGE,
                                "the op '%s' is in %s and in %s, and the job uses both files: name "
                                "one of them, or give the op another id",
                                c->name, h->used.at[i]->path, o->path);
        }
    return WEFT_OK;
}

static weft_status use_object(host *h, host_object *o)
{
    for (uint32_t i = 0; i < h->used.n; i++)
        if (h->used.at[i] == o)
            return WEFT_OK;
    weft_status st = check_ops(h, o);
    if (st == WEFT_OK)
        *vec_push(&h->used) = o;
    return st;
}

weft_status host_use(host *h, const host_component *c)
{
    return use_object(h, ((const host_adopted *)c)->from);
}

static bool has_ops(const host_object *o)
{
    for (uint32_t i = 0; i < o->n; i++)
        for (uint32_t k = 0; op_ifaces[k]; k++)
            if (o->components[i].shown.table && !strcmp(o->components[i].shown.iface, op_ifaces[k]))
                return true;
    return false;
}

/* The first file NAME.so in the folder of any kind. *out NULL: there is none. */
static weft_status find_file(host *h, const char *name, host_object **out)
{
    *out = NULL;
    for (uint32_t p = 0; p < h->places.n; p++)
        for (const char *const *kind = host_kinds; *kind; kind++) {
            const char *path = pool_printf(&h->pool, "%s/%s/%s.so", h->places.at[p], *kind, name);
            if (!access(path, F_OK) || (errno != ENOENT && errno != ENOTDIR))
                return host_object_load(h, *kind, path, out);
        }
    return WEFT_OK;
}

static weft_status use_named(host *h, const char *name, host_object **out)
{
    host_object *o;
    if (!host_plugin_name_well_formed(name))
        return err_fail(WEFT_USAGE,
                        "'%.80s' is not a plugin name; names are made of a-z, 0-9, single '.' "
                        "and '_'",
                        name);
    weft_status st = find_file(h, name, &o);
    if (st == WEFT_OK && o && !has_ops(o))
        return err_fail(WEFT_USAGE,
                        "%s has neither an op nor a kernel; run.use names files that have some, "
                        "other plugins are named by the key of their kind",
                        o->path);
    const host_component *c;
    if (st == WEFT_OK && !o) /* a component of a file with another name */
        st = host_find(h, "op", name, op_ifaces, &c);
    if (st != WEFT_OK)
        return st;
    *out = o ? o : ((const host_adopted *)c)->from;
    return use_object(h, *out);
}

weft_status host_use_named(host *h, const char *name, const char **path)
{
    host_object *o;
    weft_status st = use_named(h, name, &o);
    if (st == WEFT_OK && path)
        *path = o->path;
    return st;
}

weft_status host_use_ops(host *h)
{
    weft_status st = use_named(h, config_ops(), &h->ops);
    if (st != WEFT_OK)
        err_context("the ops that come with weft, which every job uses");
    return st;
}

const host_component *host_own_op(const host *h, uint32_t i)
{
    for (uint32_t j = 0; h->ops && j < h->ops->n; j++) {
        const host_component *c = &h->ops->components[j].shown;
        if (c->table && !strcmp(c->iface, op_ifaces[0]) && !i--)
            return c;
    }
    return NULL;
}

const host_component *host_used_find(const host *h, const char *iface, const char *name)
{
    const char *const ifaces[] = {iface, NULL};
    const host_component *c = NULL;
    for (uint32_t i = 0; !c && i < h->used.n; i++)
        c = host_object_find(h->used.at[i], name, ifaces);
    return c;
}

uint32_t host_used(const host *h, const char *iface, const host_component **out, uint32_t cap)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->used.n; i++)
        for (uint32_t j = 0; j < h->used.at[i]->n; j++) {
            const host_component *c = &h->used.at[i]->components[j].shown;
            if (!c->table || strcmp(c->iface, iface))
                continue;
            if (n < cap)
                out[n] = c;
            n++;
        }
    return n;
}

/* --- files --- */

static weft_status digest_stream(const host_object *o, FILE *f, EVP_MD_CTX *hash, char hex[65])
{
    unsigned char block[65536], sum[32];
    struct stat st;
    if (fstat(fileno(f), &st))
        return err_fail_errno(WEFT_IO, "cannot look at %s", o->path);
    if (st.st_dev != o->dev || st.st_ino != o->ino)
        return err_fail(WEFT_IO, "%s has been replaced since this job loaded it: start again",
                        o->path);
    bool good = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
    for (size_t n; good && (n = fread(block, 1, sizeof block, f));)
        good = EVP_DigestUpdate(hash, block, n);
    if (!good || ferror(f) || !EVP_DigestFinal_ex(hash, sum, NULL))
        return err_fail(WEFT_IO, "cannot compute the SHA-256 of %s", o->path);
    hex_write(sum, sizeof sum, hex);
    return WEFT_OK;
}

static weft_status digest_file(const host_object *o, char hex[65])
{
    FILE *f = fopen(o->path, "rbe");
    if (!f)
        return err_fail_errno(WEFT_IO, "cannot open %s", o->path);
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    weft_status st = digest_stream(o, f, hash, hex);
    EVP_MD_CTX_free(hash);
    fclose(f);
    return st;
}

weft_status host_used_files(host *h, bool digests, const host_file **out, uint32_t *n)
{
    host_file *files = pool_array(&h->pool, h->used.n + 1, sizeof *files);
    weft_status st = WEFT_OK;
    *n = h->used.n;
    *out = files;
    for (uint32_t i = 0; st == WEFT_OK && i < *n; i++) {
        const host_object *o = h->used.at[i];
        files[i].id = o->manifest->id;
        files[i].path = o->path;
        if (digests)
            st = digest_file(o, files[i].digest);
    }
    return st;
}
