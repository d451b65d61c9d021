/* ckpt/header.c: the JSON header of a shard, in the safetensors format.
 *
 * A shard is eight bytes of length, little endian, that many bytes of JSON, and the data. The JSON
 * has one entry a tensor with type, shape and the bytes [begin, end) counted from the first byte of
 * data; the entries must cover the data without gaps. Any safetensors reader can read
 * our shards. Our extensions are valid safetensors: a part is a separate tensor with a suffix to
 * its name, and __metadata__, which may hold any strings, gives the whole shape and the version.
 * For w [768, 1536]:
 *
 *   w                     all of it                            [768, 1536]
 *   w@0:768,512:1024      a block: from and to on every axis   [768, 512]
 *   w@4096                a range: its first element           [COUNT]
 *   w@0:768,512:1024@64   a range of a block                   [COUNT] */
#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/number/check.h"
#include "base/version.h"
#include "ckpt/internal.h"

#define VERSION 1 /* of what __metadata__ and the names of parts say; missing is 1 */
#define VERSION_TEXT "1"
#define KEY_MAX (CKPT_NAME_MAX + CKPT_BLOCK_TEXT + 32) /* "shape:", or a block, '@', a number */

/* --- building --- */

/* Takes over the reference of `value`. Names and numbers are checked before, so jansson fails only
 * when out of memory. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

/* Key of a piece in its shard, and its stored shape: true when the key is the tensor's own name. */
static bool key_of(const ckpt_piece *p, char key[KEY_MAX], json_t **shape)
{
    box block;
    char text[CKPT_BLOCK_TEXT];
    bool part = ckpt_piece_block(p, &block);
    bool range = p->count != box_elements(&block);
    const int64_t vector = (int64_t)p->count;
    int n = snprintf(key, KEY_MAX, "%s", p->name);
    if (part) {
        ckpt_block_text(&block, text);
        n += snprintf(key + n, KEY_MAX - (size_t)n, "@%s", text);
    }
    if (range)
        snprintf(key + n, KEY_MAX - (size_t)n, "@%" PRIu64, p->first);
    *shape = range ? ckpt_sizes_json(1, &vector) : ckpt_sizes_json(block.rank, block.size);
    return !part && !range;
}

static bool add_piece(json_t *root, json_t *meta, const ckpt_piece *p, uint64_t begin)
{
    char key[KEY_MAX], shape_key[KEY_MAX], text[CKPT_SHAPE_TEXT];
    json_t *shape;
    bool whole = key_of(p, key, &shape);
    uint64_t end = begin + p->count * weft_dtype_size(p->dtype);
    json_t *entry = json_pack("{s:s, s:o, s:[I,I]}", "dtype", ckpt_dtype_name(p->dtype), "shape",
                              shape, "data_offsets", (json_int_t)begin, (json_int_t)end);
    snprintf(shape_key, sizeof shape_key, "shape:%s", p->name);
    ckpt_shape_text(p->rank, p->shape, text);
    return put(root, key, entry) && (whole || put(meta, shape_key, json_string(text)));
}

static weft_status no_memory(void)
{
    return err_fail(WEFT_NO_MEMORY, "no memory for the header of a checkpoint shard");
}

/* The JSON behind its length word, padded with spaces so that the data begin at a multiple of 8. */
static weft_status frame(const json_t *root, char **text, uint64_t *bytes)
{
    size_t n = json_dumpb(root, NULL, 0, JSON_COMPACT);
    uint64_t padded;
    if (!n)
        return no_memory();
    if (!check_align(n, 8, &padded) || padded > CKPT_JSON_MAX)
        return err_fail(
            WEFT_UNSUPPORTED,
            "a checkpoint shard has so many tensors that its header of %zu bytes is over "
            "the format's limit of %u",
            n, CKPT_JSON_MAX);
    char *out = mem_alloc(8 + padded);
    memset(out, ' ', 8 + padded);
    memcpy(out, &padded, 8);
    if (json_dumpb(root, out + 8, n, JSON_COMPACT) != n) {
        free(out);
        return no_memory();
    }
    *text = out;
    *bytes = 8 + padded;
    return WEFT_OK;
}

weft_status ckpt_header_build(const ckpt_piece *const *pieces, uint32_t n, char **text,
                              uint64_t *bytes)
{
    json_t *root = json_object(), *meta = json_object();
    bool ok = put(meta, "format", json_string("weft")) &&
              put(meta, "version", json_string(VERSION_TEXT)) &&
              json_object_set(root, "__metadata__", meta) == 0;
    uint64_t at = 0;
    for (uint32_t i = 0; i < n && ok; i++) {
        ok = add_piece(root, meta, pieces[i], at);
        at += pieces[i]->count * weft_dtype_size(pieces[i]->dtype);
    }
    weft_status st = ok ? frame(root, text, bytes) : no_memory();
    json_decref(meta);
    json_decref(root);
    return st;
}

/* --- parsing --- */

static weft_status bad(const char *name, const char *what)
{
    return err_fail(WEFT_DATA, "tensor %s: %s", name, what);
}

/* A decimal number as this program writes it, without a leading zero. */
static bool parse_number(const char **at, uint64_t *out)
{
    const char *text = *at;
    return check_number(at, INT64_MAX, out) && (*text != '0' || *at == text + 1);
}

/* "[768, 3072]" */
static bool parse_shape_text(const char *text, ckpt_range *r)
{
    r->rank = 0;
    if (*text++ != '[')
        return false;
    while (*text != ']') {
        uint64_t size;
        if (r->rank == WEFT_MAX_AXES || !parse_number(&text, &size))
            return false;
        r->shape[r->rank++] = (int64_t)size;
        if (!strncmp(text, ", ", 2))
            text += 2;
        else if (*text != ']')
            return false;
    }
    return text[1] == 0;
}

/* "0:768,512:1024" of the tensor whose shape is in `r`; *end is the text after it. */
static weft_status parse_block(const char *text, pool *p, ckpt_range *r, uint64_t *elements,
                               const char **end)
{
    box b = {.rank = r->rank};
    for (uint32_t i = 0; i < r->rank; i++) {
        uint64_t from, to;
        if ((i && *text++ != ',') || !parse_number(&text, &from) || *text++ != ':' ||
            !parse_number(&text, &to) || to < from)
            return bad(r->name, "the block after '@' is malformed");
        b.start[i] = (int64_t)from;
        b.size[i] = (int64_t)(to - from);
    }
    if (!ckpt_block_ok(&b, r->shape, elements))
        return bad(r->name, "a stored block is empty, all of its tensor or not inside it");
    box *copy = pool_alloc(p, sizeof *copy);
    *copy = b;
    r->block = copy;
    *end = text;
    return WEFT_OK;
}

/* A part of a tensor, from the text after the '@' in its key; the shape of the entry is in `r`,
 * that of the tensor is not. */
static weft_status parse_part(const char *part, const json_t *meta, pool *p, ckpt_range *r)
{
    ckpt_range entry = *r;
    char key[KEY_MAX];
    uint64_t held, last;
    weft_status st;
    snprintf(key, sizeof key, "shape:%s", r->name);
    const char *text = json_string_value(json_object_get(meta, key));
    if (!text || !parse_shape_text(text, r))
        return bad(r->name, "the whole shape of a stored part is missing or malformed");
    if (!ckpt_elements(r->rank, r->shape, r->dtype, &held))
        return bad(r->name, "the whole shape has a size below 1 or too many elements");
    if (strchr(part, ':')) {
        if ((st = parse_block(part, p, r, &held, &part)) != WEFT_OK)
            return st;
        if (!*part)
            return ckpt_shape_same(entry.rank, entry.shape, r->rank, r->block->size)
                       ? WEFT_OK
                       : bad(r->name, "a stored block has another shape than its name says");
        if (*part++ != '@')
            return bad(r->name, "the block after '@' is malformed");
    }
    if (!parse_number(&part, &r->first) || *part)
        return bad(r->name, "the number after '@' is not one");
    if (entry.rank != 1)
        return bad(r->name, "a part of a tensor must be stored as a vector");
    if (!check_add(r->first, r->count, &last) || last > held || r->count == held)
        return bad(r->name, "a stored part is not inside its tensor");
    return WEFT_OK;
}

/* "NAME" or "NAME@PART": the name is copied into the pool, *part is what follows the '@'. */
static weft_status parse_key(const char *key, pool *p, ckpt_range *r, const char **part)
{
    char name[CKPT_NAME_MAX];
    const char *mark = strchr(key, '@');
    size_t n = mark ? (size_t)(mark - key) : strlen(key);
    if (n < sizeof name) {
        memcpy(name, key, n);
        name[n] = 0;
    }
    if (n >= sizeof name || !ckpt_name_ok(name))
        return err_fail(WEFT_DATA,
                        "a tensor name in the header is empty, too long or not printable");
    r->name = pool_text(p, name);
    *part = mark ? mark + 1 : NULL;
    return WEFT_OK;
}

static weft_status parse_entry(const char *key, json_t *value, const json_t *meta, pool *p,
                               ckpt_range *r)
{
    const char *part = NULL, *dtype;
    json_t *shape;
    json_int_t begin, end;
    weft_status st = parse_key(key, p, r, &part);
    if (st != WEFT_OK)
        return st;
    if (json_unpack_ex(value, NULL, JSON_STRICT, "{s:s, s:o, s:[I,I]}", "dtype", &dtype, "shape",
                       &shape, "data_offsets", &begin, &end))
        return bad(r->name, "the entry must have dtype, shape and data_offsets and nothing else");
    r->dtype = ckpt_dtype_from(dtype);
    if (!r->dtype)
        return bad(r->name, "this program does not know its type");
    uint64_t stored, bytes;
    if (!ckpt_sizes_parse(shape, &r->rank, r->shape) ||
        !ckpt_elements(r->rank, r->shape, r->dtype, &stored))
        return bad(r->name, "its shape is malformed, has a size below 1 or too many elements");
    bytes = stored * weft_dtype_size(r->dtype); /* fits: ckpt_elements() saw to it */
    if (begin < 0 || end < begin || (uint64_t)(end - begin) != bytes)
        return bad(r->name, "its byte range does not agree with its type and shape");
    r->at = (uint64_t)begin;
    r->count = stored;
    return part ? parse_part(part, meta, p, r) : WEFT_OK;
}

static int by_offset(const void *a, const void *b)
{
    const ckpt_range *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The entries from number `before` on, sorted by their bytes, have no gap or overlap, and end with
 * the file. */
static weft_status check_data(ckpt_ranges *all, uint32_t before, uint64_t data_bytes)
{
    ckpt_range *r = all->at;
    uint64_t at = 0;
    if (all->n > before)
        qsort(r + before, all->n - before, sizeof *r, by_offset);
    for (uint32_t i = before; i < all->n; i++) {
        uint64_t bytes = r[i].count * weft_dtype_size(r[i].dtype);
        if (r[i].at != at)
            return bad(r[i].name, r[i].at < at ? "its bytes overlap those of another"
                                               : "the bytes before it belong to no tensor");
        if (!check_range(at, bytes, data_bytes))
            return bad(r[i].name, "its bytes go past the end of the file");
        at += bytes;
    }
    if (at != data_bytes)
        return err_fail(WEFT_DATA, "%" PRIu64 " bytes at the end belong to no tensor",
                        data_bytes - at);
    return WEFT_OK;
}

static bool all_text(json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        if (!json_is_string(value))
            return false;
    }
    return json_is_object(object);
}

static weft_status parse_root(json_t *root, uint64_t data_bytes, uint32_t shard, pool *p,
                              ckpt_ranges *out)
{
    uint32_t before = out->n;
    json_t *meta = json_object_get(root, "__metadata__");
    const char *key;
    json_t *value;
    if (meta && !all_text(meta))
        return err_fail(WEFT_DATA, "__metadata__ in its header is not text by name");
    const char *version = json_string_value(json_object_get(meta, "version"));
    weft_status newer = version
                            ? version_check("the checkpoint shard",
                                            version_after(version, strlen(version), ""), VERSION)
                            : WEFT_OK;
    if (newer != WEFT_OK)
        return newer;
    json_object_foreach (root, key, value) {
        if (value == meta)
            continue;
        ckpt_range r = {.shard = shard};
        weft_status st = parse_entry(key, value, meta, p, &r);
        if (st != WEFT_OK)
            return st;
        *vec_push(out) = r;
    }
    return check_data(out, before, data_bytes);
}

weft_status ckpt_header_parse(const char *text, uint64_t bytes, uint64_t data_bytes, uint32_t shard,
                              pool *p, ckpt_ranges *out)
{
    json_error_t error;
    /* The format wants '{' first, so that no file is also valid in another format. */
    json_t *root =
        bytes && *text == '{' ? json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (!root)
        return err_fail(WEFT_DATA, "its header is not JSON, or gives a name twice");
    weft_status st = parse_root(root, data_bytes, shard, p, out);
    json_decref(root);
    return st;
}
