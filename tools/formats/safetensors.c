/* formats/safetensors.c: headers of safetensors files of other programs. See internal.h.
 *
 * The shards of weft's own checkpoints are such files, too, but their names may have parts behind
 * '@' and their types are those of weft: core/ckpt reads them. Here a tensor may have any type that
 * the format has, as a file may have masks that nobody needs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/number/check.h"
#include "data/file.h"
#include "formats/internal.h"

#define NAME_MAX_BYTES 255u

static const struct {
    const char *name;
    uint32_t dtype, bits; /* dtype 0: no parameter can have it */
} types[] = {
    {"F32", WEFT_F32, 32}, {"BF16", WEFT_BF16, 16}, {"F16", WEFT_F16, 16}, {"F64", 0, 64},
    {"I64", 0, 64},        {"U64", 0, 64},          {"I32", 0, 32},        {"U32", 0, 32},
    {"I16", 0, 16},        {"U16", 0, 16},          {"I8", 0, 8},          {"U8", 0, 8},
    {"BOOL", 0, 8},        {"F8_E5M2", 0, 8},       {"F8_E4M3", 0, 8},     {"C64", 0, 64},
};

static weft_status bad(const char *name, const char *what)
{
    return err_fail(WEFT_DATA, "tensor %s: %s", name, what);
}

static bool name_ok(const char *name)
{
    const size_t n = strnlen(name, NAME_MAX_BYTES + 1);
    for (size_t i = 0; i < n; i++)
        if (name[i] < 0x21 || name[i] > 0x7e)
            return false;
    return n && n <= NAME_MAX_BYTES;
}

/* Elements of the shape into t->count; false: it is malformed or too large. */
static bool take_shape(const json_t *shape, formats_tensor *t)
{
    t->count = 1;
    if (!json_is_array(shape) || json_array_size(shape) > WEFT_MAX_AXES)
        return false;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        const json_t *size = json_array_get(shape, i);
        const json_int_t n = json_integer_value(size);
        if (!json_is_integer(size) || n < 0 || !check_mul(t->count, (uint64_t)n, &t->count))
            return false;
        t->shape[t->rank++] = n;
    }
    return t->count <= INT64_MAX / 8;
}

static weft_status parse_entry(const char *key, json_t *value, pool *p, formats_tensor *t)
{
    const char *dtype;
    json_t *shape;
    json_int_t begin, end;
    if (!name_ok(key))
        return err_fail(WEFT_DATA, "a tensor name is empty, too long or not printable");
    t->name = pool_text(p, key);
    if (json_unpack_ex(value, NULL, JSON_STRICT, "{s:s, s:o, s:[I,I!]}", "dtype", &dtype, "shape",
                       &shape, "data_offsets", &begin, &end))
        return bad(t->name, "the entry must have dtype, shape and data_offsets and nothing else");
    size_t k = 0;
    while (k < sizeof types / sizeof *types && strcmp(types[k].name, dtype))
        k++;
    if (k == sizeof types / sizeof *types)
        return bad(t->name, "its dtype is not known");
    if (!take_shape(shape, t))
        return bad(t->name, "its shape is malformed, too large or has too many axes");
    t->dtype = types[k].dtype;
    t->bytes = t->count * (types[k].bits / 8);
    if (begin < 0 || end < begin || (uint64_t)(end - begin) != t->bytes)
        return bad(t->name, "its byte range does not agree with its type and shape");
    t->at = (uint64_t)begin;
    return WEFT_OK;
}

static int by_offset(const void *a, const void *b)
{
    const formats_tensor *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The tensors from number `before` on follow each other from the first byte to the last. */
static weft_status check_data(formats_tensors *all, uint32_t before, uint64_t data_bytes)
{
    uint64_t at = 0;
    if (all->n > before)
        qsort(all->at + before, all->n - before, sizeof *all->at, by_offset);
    for (uint32_t i = before; i < all->n; i++) {
        const formats_tensor *t = &all->at[i];
        if (t->at != at)
            return bad(t->name, t->at < at ? "its bytes overlap those of another"
                                           : "the bytes before it belong to no tensor");
        if (!check_range(at, t->bytes, data_bytes))
            return bad(t->name, "its bytes go past the end of the file: it is truncated");
        at += t->bytes;
    }
    return at == data_bytes
               ? WEFT_OK
               : err_fail(WEFT_DATA, "%" PRIu64 " bytes at the end belong to no tensor",
                          data_bytes - at);
}

weft_status formats_header_parse(const char *text, uint64_t bytes, uint64_t data_bytes,
                                 uint32_t file, pool *p, formats_tensors *out)
{
    json_error_t error;
    json_t *root =
        bytes && *text == '{' ? json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (!root)
        return err_fail(WEFT_DATA, "its header is not a JSON object, or gives a name twice");
    const uint32_t before = out->n;
    weft_status st = WEFT_OK;
    const char *key;
    json_t *value;
    json_object_foreach (root, key, value) {
        formats_tensor t = {.file = file};
        if (st != WEFT_OK || !strcmp(key, "__metadata__"))
            continue;
        st = parse_entry(key, value, p, &t);
        if (st == WEFT_OK)
            *vec_push(out) = t;
    }
    json_decref(root);
    return st == WEFT_OK ? check_data(out, before, data_bytes) : st;
}

weft_status formats_header_read(int fd, uint64_t size, uint32_t file, pool *p, formats_tensors *out)
{
    uint64_t n = 0;
    if (size < 8 || data_file_read(fd, &n, 8, 0))
        return err_fail(WEFT_DATA, "it is too short for a safetensors file");
    if (n < 2 || n > FORMATS_HEADER_MAX || !check_range(8, n, size))
        return err_fail(WEFT_DATA,
                        "its header is given as %" PRIu64
                        " bytes long: it is no safetensors file, or truncated; at most %" PRIu64
                        " are read",
                        n, FORMATS_HEADER_MAX);
    char *text = mem_alloc(n);
    const uint32_t before = out->n;
    weft_status st = data_file_read(fd, text, n, 8)
                         ? err_fail(WEFT_IO, "its header cannot be read")
                         : formats_header_parse(text, n, size - 8 - n, file, p, out);
    for (uint32_t i = before; i < out->n && st == WEFT_OK; i++)
        out->at[i].at += 8 + n;
    free(text);
    return st;
}

/* --- writing --- */

static json_t *entry_of(const formats_tensor *t, uint64_t at)
{
    json_t *shape = json_array();
    const char *dtype = "";
    for (uint32_t i = 0; i < t->rank; i++)
        json_array_append_new(shape, json_integer(t->shape[i]));
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (types[k].dtype == t->dtype && t->dtype)
            dtype = types[k].name;
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", dtype, "shape", shape, "data_offsets",
                     (json_int_t)at, (json_int_t)(at + t->bytes));
}

weft_status formats_header_build(const formats_tensor *t, uint32_t n, char **text, uint64_t *bytes)
{
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    uint64_t at = 0, padded;
    for (uint32_t i = 0; root && i < n; i++) {
        json_object_set_new(root, t[i].name, entry_of(&t[i], at));
        at += t[i].bytes;
    }
    const size_t length = root ? json_dumpb(root, NULL, 0, JSON_COMPACT) : 0;
    weft_status st = length ? WEFT_OK : err_fail(WEFT_NO_MEMORY, "no memory for a header");
    if (st == WEFT_OK && (!check_align(length, 8, &padded) || padded > FORMATS_HEADER_MAX))
        st = err_fail(WEFT_UNSUPPORTED, "a header of %zu bytes is over the limit", length);
    if (st == WEFT_OK) {
        *text = mem_alloc(8 + padded);
        memset(*text, ' ', 8 + padded);
        memcpy(*text, &padded, 8);
        json_dumpb(root, *text + 8, length, JSON_COMPACT);
        *bytes = 8 + padded;
    }
    json_decref(root);
    return st;
}
