/* host/formats.c: what a model family says of files of other programs (weft/model.h): texts are
 * bounded, names are there once, and axes can be parsed. Whether the rows fit the parameters that
 * the family builds is a matter of its graph, which is not known here. */
#include <stddef.h>
#include <string.h>
#include <weft/model.h>

#include "base/err.h"
#include "host/object.h"

#define FORMATS_MAX 16u
#define ROWS_MAX 1024u
#define TEXT_MAX_BYTES 255u

/* Where an error is: "component 'gpt2', format huggingface, row 3". */
typedef struct place {
    host_object *o;
    const weft_component *c;
    const char *format, *what; /* what: "tensor", "field" */
    uint32_t row;
} place;

static weft_status wrong(const place *p, const char *what, const char *text)
{
    if (!p->format)
        return err_fail(WEFT_USAGE, "component '%s': format %u: %s %s", p->c->name, p->row, what,
                        text);
    return err_fail(WEFT_USAGE, "component '%s': format %s: %s %u: %s %s", p->c->name, p->format,
                    p->what, p->row, what, text);
}

/* 1 to 255 bytes of printable ASCII; `empty`: none is valid, too. */
static weft_status check_text(const place *p, const char *what, const char *text, bool empty)
{
    const size_t n = text ? strnlen(text, TEXT_MAX_BYTES + 1) : 0;
    if (!text)
        return wrong(p, what, "is NULL");
    if ((!n && !empty) || n > TEXT_MAX_BYTES)
        return wrong(p, what, n ? "is longer than 255 bytes" : "is empty");
    for (size_t i = 0; i < n; i++)
        if (text[i] < 32 || text[i] > 126)
            return wrong(p, what, "has a byte that is not printable ASCII");
    return WEFT_OK;
}

static weft_status check_optional(const place *p, const char *what, const char *text)
{
    return text ? check_text(p, what, text, false) : WEFT_OK;
}

static uint32_t stars(const char *text)
{
    uint32_t n = 0;
    for (; *text; text++)
        n += *text == '*';
    return n;
}

#define WORD "abcdefghijklmnopqrstuvwxyz0123456789_'"

/* "embed (three heads head_dim)": words and groups, separated by one blank. */
static weft_status check_axes(const place *p, const char *axes)
{
    bool group = false, lawful = true;
    while (lawful && *axes) {
        if (*axes == '(') {
            lawful = !group;
            group = true;
            axes++;
        }
        const size_t n = strspn(axes, WORD);
        lawful = lawful && n;
        axes += n;
        if (*axes == ')') {
            lawful = lawful && group;
            group = false;
            axes++;
        }
        lawful = lawful && (!*axes || (*axes == ' ' && axes[1]));
        axes += *axes == ' ';
    }
    return lawful && !group
               ? WEFT_OK
               : wrong(p, "its axes", "are not names and groups in brackets, one blank apart");
}

static weft_status check_tensor(const place *p, const void *row)
{
    const weft_model_tensor *t = row;
    weft_status st = check_optional(p, "its param", t->param);
    if (st == WEFT_OK)
        st = check_text(p, "its name", t->name, false);
    if (st == WEFT_OK)
        st = check_optional(p, "its axes", t->axes);
    if (st == WEFT_OK && t->axes)
        st = check_axes(p, t->axes);
    if (st != WEFT_OK)
        return st;
    if (t->flags & ~WEFT_TENSOR_BARE)
        return wrong(p, "it", "has flags that this version of weft does not know");
    if (!t->param && (t->axes || stars(t->name) > 1))
        return wrong(p, "it", "has no param, and so may have no axes and one '*' at most");
    if (t->param && (stars(t->param) > 1 || stars(t->param) != stars(t->name)))
        return wrong(p, "its param and name", "have not both one '*' or both none");
    return WEFT_OK;
}

static bool declared(const weft_component *c, const char *key)
{
    for (const weft_option *const *o = c->options; o && *o; o++)
        if (!strcmp((*o)->key, key))
            return true;
    return false;
}

static weft_status check_field(const place *p, const void *row)
{
    const weft_model_field *f = row;
    weft_status st = check_optional(p, "its key", f->key);
    if (st == WEFT_OK)
        st = check_text(p, "its field", f->field, false);
    if (st == WEFT_OK)
        st = check_optional(p, "its dflt", f->dflt);
    if (st == WEFT_OK)
        st = check_optional(p, "its values", f->values);
    if (st != WEFT_OK)
        return st;
    const bool implied = f->flags & WEFT_FIELD_IMPLIED;
    if (f->flags & ~WEFT_FIELD_IMPLIED)
        return wrong(p, "it", "has flags that this version of weft does not know");
    if (implied && (!f->key || !f->dflt || f->values))
        return wrong(p, "it", "is implied, and so must have a key, a dflt and no values");
    if (f->key && !declared(p->c, f->key))
        return wrong(p, "its key", "is none of the component's options");
    if (!f->key && !f->values)
        return wrong(p, "its values", "are NULL, and it has no key");
    return WEFT_OK;
}

/* A row as the table `rows` of `size`-byte structs has it, adopted and checked. */
typedef struct row_kind {
    const char *what;
    size_t least, size;
    weft_status (*check)(const place *p, const void *row);
    size_t names[2]; /* offsets of texts that no two rows share; 0: none */
} row_kind;

static const row_kind tensor_kind = {
    "tensor",
    WEFT_END_OF(weft_model_tensor, axes),
    sizeof(weft_model_tensor),
    check_tensor,
    {offsetof(weft_model_tensor, param), offsetof(weft_model_tensor, name)}};
static const row_kind field_kind = {"field",
                                    WEFT_END_OF(weft_model_field, values),
                                    sizeof(weft_model_field),
                                    check_field,
                                    {offsetof(weft_model_field, field), 0}};

static const char *text_at(const void *row, size_t offset)
{
    return *(const char *const *)((const char *)row + offset);
}

static weft_status check_twice(const place *p, const row_kind *k, void *const *own)
{
    for (uint32_t i = 0; i < 2 && k->names[i]; i++)
        for (uint32_t j = 0; j < p->row; j++) {
            const char *a = text_at(own[j], k->names[i]), *b = text_at(own[p->row], k->names[i]);
            if (a && b && !strcmp(a, b))
                return wrong(p, a, "is there twice");
        }
    return WEFT_OK;
}

static weft_status adopt_rows(place *p, const row_kind *k, const void *const *rows,
                              const void *const **out)
{
    uint32_t n = 0;
    p->what = k->what;
    while (rows && rows[n])
        if (n++ == ROWS_MAX)
            return err_fail(WEFT_USAGE, "component '%s': format %s has more than %u rows",
                            p->c->name, p->format, ROWS_MAX);
    void **own = pool_array(&p->o->owner->pool, n + 1, sizeof *own);
    for (p->row = 0; p->row < n; p->row++) {
        own[p->row] = pool_alloc(&p->o->owner->pool, k->size);
        weft_status st =
            host_adopt(p->c->name, k->what, rows[p->row], k->least, own[p->row], (uint32_t)k->size);
        if (st == WEFT_OK)
            st = k->check(p, own[p->row]);
        if (st == WEFT_OK)
            st = check_twice(p, k, own);
        if (st != WEFT_OK)
            return st;
    }
    *out = (const void *const *)own;
    return WEFT_OK;
}

static weft_status adopt_format(place *p, weft_model_format *f)
{
    const void *const *tensors = NULL, *const *fields = NULL;
    weft_status st = check_text(p, "its name", f->format, false);
    if (st == WEFT_OK)
        st = check_text(p, "its architecture", f->architecture, false);
    if (st == WEFT_OK)
        st = check_text(p, "its prefix", f->prefix, true);
    if (st == WEFT_OK && f->flags)
        st = wrong(p, "it", "has flags; 0 is expected");
    if (st == WEFT_OK && (!f->tensors || !*f->tensors))
        st = wrong(p, "its tensors", "are missing");
    p->format = f->format;
    if (st == WEFT_OK)
        st = adopt_rows(p, &tensor_kind, (const void *const *)f->tensors, &tensors);
    if (st == WEFT_OK)
        st = adopt_rows(p, &field_kind, (const void *const *)f->fields, &fields);
    f->tensors = (const weft_model_tensor *const *)tensors;
    f->fields = (const weft_model_field *const *)fields;
    return st;
}

weft_status host_adopt_formats(host_object *o, const weft_component *c, weft_model_table *t)
{
    uint32_t n = 0;
    while (t->formats && t->formats[n])
        if (n++ == FORMATS_MAX)
            return err_fail(WEFT_USAGE, "component '%s' has more than %u formats", c->name,
                            FORMATS_MAX);
    const weft_model_format **own = pool_array(&o->owner->pool, n + 1, sizeof *own);
    for (uint32_t i = 0; i < n; i++) {
        place p = {.o = o, .c = c, .row = i};
        weft_model_format *copy = pool_alloc(&o->owner->pool, sizeof *copy);
        weft_status st = host_adopt(c->name, "format", t->formats[i],
                                    WEFT_END_OF(weft_model_format, fields), copy, sizeof *copy);
        if (st == WEFT_OK)
            st = adopt_format(&p, copy);
        if (st != WEFT_OK)
            return st;
        own[i] = copy;
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(own[k]->format, copy->format) &&
                !strcmp(own[k]->architecture, copy->architecture))
                return err_fail(WEFT_USAGE, "component '%s' has two formats '%s' of %s", c->name,
                                copy->format, copy->architecture);
    }
    t->formats = own;
    return WEFT_OK;
}
