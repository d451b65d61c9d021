/* read/read.c: see read.h: what its readers share. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "read.h"
#include "utf8.h"

weft_status read_bad(const reader *r, const char *field, const char *format, ...)
{
    char why[400], text[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(why, sizeof why, format, ap);
    va_end(ap);
    const char *dot = *r->where && *field ? "." : "";
    const char *colon = *r->where || *field ? ": " : "";
    snprintf(text, sizeof text, "%.300s: %s%s%.100s%s%s", r->t->path, r->where, dot, field, colon,
             why);
    const uint64_t n = strlen(text); /* what is quoted from the file may be cut in a character */
    for (uint64_t at = utf8_valid(text, n); at < n; at += utf8_valid(text + at, n - at))
        text[at] = '?';
    return (r->t->host->fail)(r->t->host->ctx, WEFT_USAGE, text);
}

weft_status read_no_memory(const reader *r)
{
    return (r->t->host->fail)(r->t->host->ctx, WEFT_NO_MEMORY,
                              "there is no memory for the vocabulary of the tokenizer");
}

reader read_field(const reader *r, const char *field)
{
    reader below = {.t = r->t};
    snprintf(below.where, sizeof below.where, "%.150s%s%.40s", r->where, *r->where ? "." : "",
             field);
    return below;
}

reader read_element(const reader *r, const char *field, size_t i)
{
    reader below = {.t = r->t};
    snprintf(below.where, sizeof below.where, "%.140s%s%.30s[%zu]", r->where,
             *r->where && *field ? "." : "", field, i);
    return below;
}

weft_status read_known(const reader *r, const json_t *object, const char *const *names)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return read_bad(r, "", "it is not an object");
    json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
        const char *const *name = names;
        while (*name && strcmp(*name, key))
            name++;
        if (!*name && !json_is_null(value))
            return read_bad(r, key,
                            "this field is unknown: ids could differ from those of the "
                            "library that wrote the file");
    }
    return WEFT_OK;
}

weft_status read_bool(const reader *r, const json_t *object, const char *name, bool *out)
{
    const json_t *v = json_object_get(object, name);
    if (!v || json_is_null(v))
        return WEFT_OK;
    if (!json_is_boolean(v))
        return read_bad(r, name, "it is neither true nor false");
    *out = json_is_true(v);
    return WEFT_OK;
}

char *read_copy(const char *s, uint64_t n)
{
    char *copy = malloc(n + 1);
    if (copy) {
        memcpy(copy, s, n);
        copy[n] = 0;
    }
    return copy;
}

weft_status read_text(const reader *r, const json_t *object, const char *name, char **out,
                      uint32_t *n)
{
    const json_t *v = json_object_get(object, name);
    if (!v || json_is_null(v))
        return WEFT_OK;
    if (!json_is_string(v) || json_string_length(v) > 65536)
        return read_bad(r, name, "it is not a text of at most 64 KiB");
    *n = (uint32_t)json_string_length(v);
    *out = read_copy(json_string_value(v), *n);
    return *out ? WEFT_OK : read_no_memory(r);
}

weft_status read_char(const reader *r, const json_t *object, const char *name, char out[8],
                      uint32_t *n)
{
    const json_t *v = json_object_get(object, name);
    const size_t length = json_is_string(v) ? json_string_length(v) : 0;
    if (!length || length != utf8_bytes((unsigned char)*json_string_value(v)))
        return read_bad(r, name, "it is not one character");
    memcpy(out, json_string_value(v), length);
    *n = (uint32_t)length;
    return WEFT_OK;
}

const char *read_type(const reader *r, const json_t *object, weft_status *st)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    if (!type)
        *st = read_bad(r, "type", "the object has no type");
    return type;
}

int32_t read_id(const weft_tokenizer *t, const char *name, uint64_t n)
{
    for (uint32_t i = 0; i < t->nadded; i++)
        if (t->added[i].n == n && !memcmp(t->added[i].text, name, n))
            return t->added[i].id;
    return hf_table_get(&t->by_name, name, n);
}

#define MAX_IDS (1u << 24)

weft_status read_grow(const reader *r, uint32_t to)
{
    weft_tokenizer *t = r->t;
    if (to <= t->vocab)
        return WEFT_OK;
    if (to > MAX_IDS)
        return read_bad(r, "", "the id %u is not below %u", to - 1, MAX_IDS);
    hf_name *grown = realloc(t->name, to * sizeof *grown);
    if (!grown)
        return read_no_memory(r);
    memset(grown + t->vocab, 0, (to - t->vocab) * sizeof *grown);
    t->name = grown;
    t->vocab = to;
    return WEFT_OK;
}

/* There is room in t->names: load.c takes as much as the file has bytes. */
weft_status read_name(const reader *r, uint32_t id, const char *name, uint32_t n)
{
    weft_tokenizer *t = r->t;
    if (n > HF_MAX_TOKEN)
        return read_bad(r, "", "the token of id %u has %u bytes; %d are possible", id, n,
                        HF_MAX_TOKEN);
    t->name[id] = (hf_name){t->names + t->filled, n};
    memcpy(t->names + t->filled, name, n);
    t->filled += n;
    return WEFT_OK;
}
