/* formats/bind.c: parameters and their tensors. See internal.h. */
#include <stdlib.h>
#include <string.h>

#include "base/number/digest.h"
#include "formats/internal.h"

#define COMPARED 65536u /* bytes at once */

static const char *shape_text(uint32_t rank, const int64_t *shape, char out[FORMATS_TEXT])
{
    size_t at = (size_t)snprintf(out, FORMATS_TEXT, "[");
    for (uint32_t i = 0; i < rank && at < FORMATS_TEXT - 24; i++)
        at += (size_t)snprintf(out + at, FORMATS_TEXT - at, "%s%lld", i ? ", " : "",
                               (long long)shape[i]);
    snprintf(out + at, FORMATS_TEXT - at, "]");
    return out;
}

/* Axes without a table may be joined there in any way: only the elements count. */
static bool fits(const formats_bound *b, bool any)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < b->shape.rank; i++)
        count *= (uint64_t)b->shape.axes[i].size;
    const bool same =
        b->tensor->rank == b->view.there &&
        !memcmp(b->tensor->shape, b->view.shape, b->view.there * sizeof *b->view.shape);
    return same || (any && b->tensor->count == count && b->tensor->rank < b->view.there);
}

static weft_status bind_one(formats_file *f, const formats_param *p, formats_bound *out)
{
    char name[FORMATS_TEXT], full[2 * FORMATS_TEXT], have[FORMATS_TEXT], need[FORMATS_TEXT];
    const weft_model_tensor *row = formats_row_of(f->format, p->name, name);
    if (!row)
        return err_fail(WEFT_USAGE, "%s has no place for parameter %s", f->format->architecture,
                        p->name);
    const bool bare = row->flags & WEFT_TENSOR_BARE;
    snprintf(full, sizeof full, "%s%s", bare ? "" : f->format->prefix, name);
    *out = (formats_bound){.param = p->name, .shape = p->shape};
    out->tensor = formats_source_find(&f->source, full);
    if (!out->tensor)
        out->tensor = formats_source_find(&f->source, name);
    if (!out->tensor)
        return err_fail(WEFT_DATA, "there is no tensor %s, which is parameter %s", full, p->name);
    weft_status st = formats_view_of(row, p, &out->view);
    if (st == WEFT_OK && !out->tensor->dtype)
        st =
            err_fail(WEFT_UNSUPPORTED, "tensor %s is neither F32, F16 nor BF16", out->tensor->name);
    if (st == WEFT_OK && !fits(out, !row->axes))
        st = err_fail(WEFT_DATA, "tensor %s is %s, where the model of the configuration has %s",
                      out->tensor->name, shape_text(out->tensor->rank, out->tensor->shape, have),
                      shape_text(out->view.there, out->view.shape, need));
    out->tensor->bound = true;
    return st;
}

/* --- what is left over --- */

static weft_status same_bytes(formats_file *f, const formats_tensor *a, const formats_tensor *b,
                              bool *same)
{
    char *capacity = mem_alloc(2 * COMPARED);
    weft_status st = WEFT_OK;
    *same = true;
    for (uint64_t at = 0, n; st == WEFT_OK && *same && at < a->bytes; at += n) {
        n = a->bytes - at < COMPARED ? a->bytes - at : COMPARED;
        st = formats_source_bytes(&f->source, a->file, a->at + at, n, capacity);
        if (st == WEFT_OK)
            st = formats_source_bytes(&f->source, b->file, b->at + at, n, capacity + COMPARED);
        *same = st == WEFT_OK && !memcmp(capacity, capacity + COMPARED, n);
    }
    free(capacity);
    return st;
}

/* A tensor that two names share is written under both by some programs: a tied head. */
static weft_status is_copy(formats_file *f, const formats_tensor *t, bool *copy)
{
    weft_status st = WEFT_OK;
    *copy = false;
    for (uint32_t i = 0; st == WEFT_OK && !*copy && i < f->source.n; i++) {
        const formats_tensor *other = &f->source.tensors[i];
        if (other->bound && other->dtype == t->dtype && other->rank == t->rank &&
            !memcmp(other->shape, t->shape, t->rank * sizeof *t->shape))
            st = same_bytes(f, t, other, copy);
    }
    return st;
}

static weft_status check_unbound(formats_file *f, const formats_tensor *t)
{
    const weft_model_tensor *row = formats_row_named(f->format, t->name);
    bool copy = false;
    if (t->bound || (row && !row->param))
        return WEFT_OK;
    weft_status st = row ? is_copy(f, t, &copy) : WEFT_OK;
    if (st != WEFT_OK || copy)
        return st;
    return err_fail(WEFT_USAGE, "tensor %s %s", t->name,
                    row ? "belongs to no parameter of the model that the configuration describes"
                        : "is none that the model family knows");
}

static int by_param(const void *a, const void *b)
{
    return strcmp(((const formats_bound *)a)->param, ((const formats_bound *)b)->param);
}

static uint64_t digest_of(const formats_file *f)
{
    uint64_t h = DIGEST_BEGIN;
    char *root = json_dumps(f->source.config, JSON_COMPACT | JSON_SORT_KEYS);
    if (root)
        digest_mix(&h, root, strlen(root));
    free(root);
    for (uint32_t i = 0; i < f->source.n; i++) {
        const formats_tensor *t = &f->source.tensors[i];
        digest_mix(&h, t->name, strlen(t->name));
        digest_mix(&h, &t->at, sizeof t->at);
        digest_mix(&h, &t->bytes, sizeof t->bytes);
        digest_mix(&h, &f->source.sizes[t->file], sizeof f->source.sizes[t->file]);
    }
    return h;
}

weft_status formats_bind(formats_file *f, const formats_params *params)
{
    weft_status st = WEFT_OK;
    f->at = pool_array(&f->source.mem, params->n + 1, sizeof *f->at);
    for (uint32_t i = 0; st == WEFT_OK && i < params->n; i++) {
        const formats_param own = {pool_text(&f->source.mem, params->at[i].name),
                                   params->at[i].shape};
        st = bind_one(f, &own, &f->at[f->n++]);
    }
    for (uint32_t i = 0; st == WEFT_OK && i < f->source.n; i++)
        st = check_unbound(f, &f->source.tensors[i]);
    if (st != WEFT_OK) {
        err_context("%s", f->source.path);
        return st;
    }
    if (f->n)
        qsort(f->at, f->n, sizeof *f->at, by_param);
    f->digest = digest_of(f);
    return WEFT_OK;
}
