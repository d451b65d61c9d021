/* ckpt/manifest.c: manifest.json.
 *
 *   {"format":"weft checkpoint","version":1,"step":100,"job":"[run]\n...",
 *    "shards":[{"bytes":1064,"sha256":"..."},...],
 *    "tensors":{"block.0.attn.qkv.w":{"dtype":"F32","shape":[768,2304],
 *               "pieces":[[shard,first,count],...]},...},"sha256":"..."}
 *
 * on one line. A piece that is of a block of its tensor has two more members, the block's first
 * element and its size on each axis: [shard,first,count,[0,768],[768,768]]. The last member is the
 * SHA-256 of all that stands before it, byte for byte, so that a damaged manifest is known before
 * any of it is parsed. Where in its shard a piece lies, the shard's own header says. Shards have
 * numbers; a name of a file is never taken from here. */
#include <jansson.h>
#include <openssl/evp.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/number/check.h"
#include "base/number/hex.h"
#include "base/version.h"
#include "ckpt/internal.h"

#define FORMAT "weft checkpoint"
#define VERSION 1

weft_status ckpt_trailer(const char *body, uint64_t bytes, char out[CKPT_TRAILER + 1])
{
    uint8_t sum[32];
    char hex[65];
    if (!EVP_Digest(body, bytes, sum, NULL, EVP_sha256(), NULL))
        return err_fail(WEFT_NO_MEMORY, "no memory for the sum of a manifest");
    hex_write(sum, sizeof sum, hex);
    snprintf(out, CKPT_TRAILER + 1, ",\"sha256\":\"%s\"}\n", hex);
    return WEFT_OK;
}

/* --- building: every function returns a new reference, or NULL when out of memory; jansson accepts
 * NULL and passes the failure on --- */

static json_t *shards_json(const ckpt_manifest *m)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < m->shards; i++) {
        char hex[65];
        hex_write(m->sums[i].sha256, 32, hex);
        json_t *one = json_pack("{s:I, s:s}", "bytes", (json_int_t)m->sums[i].bytes, "sha256", hex);
        if (json_array_append_new(out, one)) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

json_t *ckpt_sizes_json(uint32_t rank, const int64_t *size)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < rank; i++)
        if (json_array_append_new(out, json_integer(size[i]))) {
            json_decref(out);
            return NULL;
        }
    return out;
}

static json_t *piece_json(const ckpt_range *r)
{
    json_int_t shard = r->shard, first = (json_int_t)r->first, count = (json_int_t)r->count;
    if (!r->block)
        return json_pack("[I,I,I]", shard, first, count);
    return json_pack("[I,I,I,o,o]", shard, first, count, ckpt_sizes_json(r->rank, r->block->start),
                     ckpt_sizes_json(r->rank, r->block->size));
}

/* Ranges r[0 .. n) of one tensor. */
static json_t *tensor_json(const ckpt_range *r, uint32_t n)
{
    json_t *shape = ckpt_sizes_json(r->rank, r->shape), *pieces = json_array();
    bool ok = true;
    for (uint32_t i = 0; i < n && ok; i++)
        ok = !json_array_append_new(pieces, piece_json(&r[i]));
    json_t *out = json_pack("{s:s, s:o, s:o}", "dtype", ckpt_dtype_name(r->dtype), "shape", shape,
                            "pieces", pieces);
    if (ok)
        return out;
    json_decref(out);
    return NULL;
}

static json_t *tensors_json(const ckpt_ranges *r)
{
    json_t *out = json_object();
    for (uint32_t i = 0, next; i < r->n; i = next) {
        for (next = i + 1; next < r->n && !strcmp(r->at[next].name, r->at[i].name);)
            next++;
        if (json_object_set_new(out, r->at[i].name, tensor_json(&r->at[i], next - i))) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* The text with its last brace replaced by the checksum and a brace. */
static weft_status sign(char *body, char **text, uint64_t *bytes)
{
    uint64_t n = strlen(body) - 1;
    if (n + CKPT_TRAILER > CKPT_JSON_MAX)
        return err_fail(WEFT_UNSUPPORTED,
                        "the checkpoint has so many pieces that its manifest of %" PRIu64
                        " bytes is over the limit of %u",
                        n, CKPT_JSON_MAX);
    char *out = mem_alloc(n + CKPT_TRAILER + 1);
    memcpy(out, body, n);
    weft_status st = ckpt_trailer(out, n, out + n);
    if (st != WEFT_OK) {
        free(out);
        return st;
    }
    *text = out;
    *bytes = n + CKPT_TRAILER;
    return WEFT_OK;
}

weft_status ckpt_manifest_build(const ckpt_manifest *m, char **text, uint64_t *bytes)
{
    json_t *job = json_string(m->job);
    if (!job)
        return err_fail(WEFT_USAGE, "the text of the job is not UTF-8, which a manifest must be");
    json_t *root = json_pack("{s:s, s:i, s:I, s:o, s:o, s:o}", "format", FORMAT, "version", VERSION,
                             "step", (json_int_t)m->step, "job", job, "shards", shards_json(m),
                             "tensors", tensors_json(&m->ranges));
    char *body = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (!body)
        return err_fail(WEFT_NO_MEMORY, "no memory for the manifest of a checkpoint");
    weft_status st = sign(body, text, bytes);
    free(body);
    return st;
}

/* --- parsing --- */

static weft_status parse_shards(const json_t *list, pool *p, ckpt_manifest *m)
{
    uint64_t n = json_is_array(list) ? json_array_size(list) : 0;
    if (!n || n > CKPT_SHARDS_MAX)
        return err_fail(WEFT_DATA, "the list of shards is missing, empty or over %u long",
                        CKPT_SHARDS_MAX);
    m->shards = (uint32_t)n;
    ckpt_shard_sum *sums = pool_array(p, n, sizeof *sums);
    m->sums = sums;
    for (uint32_t i = 0; i < n; i++) {
        json_int_t bytes;
        const char *hex;
        if (json_unpack_ex(json_array_get(list, i), NULL, JSON_STRICT, "{s:I, s:s}", "bytes",
                           &bytes, "sha256", &hex) ||
            bytes < 0 || strspn(hex, hex_digits) != 64 || hex[64] ||
            !hex_parse(hex, 32, sums[i].sha256))
            return err_fail(WEFT_DATA, "the entry of shard %" PRIu32 " is malformed", i);
        sums[i].bytes = (uint64_t)bytes;
    }
    return WEFT_OK;
}

bool ckpt_sizes_parse(const json_t *list, uint32_t *rank, int64_t *out)
{
    if (!json_is_array(list) || json_array_size(list) > WEFT_MAX_AXES)
        return false;
    *rank = (uint32_t)json_array_size(list);
    for (size_t i = 0; i < *rank; i++) {
        const json_t *size = json_array_get(list, i);
        if (!json_is_integer(size))
            return false;
        out[i] = json_integer_value(size);
    }
    return true;
}

static bool parse_block(const json_t *start, const json_t *size, pool *p, ckpt_range *r,
                        uint64_t *elements)
{
    box b = {0};
    uint32_t rank;
    if (!ckpt_sizes_parse(start, &rank, b.start) || rank != r->rank ||
        !ckpt_sizes_parse(size, &b.rank, b.size) || b.rank != rank ||
        !ckpt_block_ok(&b, r->shape, elements))
        return false;
    box *copy = pool_alloc(p, sizeof *copy);
    *copy = b;
    r->block = copy;
    return true;
}

static bool parse_piece(json_t *piece, uint64_t whole, uint32_t shards, pool *p, ckpt_range *r)
{
    json_int_t shard, first, count;
    uint64_t last;
    bool block = json_array_size(piece) == 5;
    r->block = NULL;
    if (json_unpack_ex(piece, NULL, block ? 0 : JSON_STRICT, "[I,I,I]", &shard, &first, &count))
        return false;
    if (block && !parse_block(json_array_get(piece, 3), json_array_get(piece, 4), p, r, &whole))
        return false;
    if (shard < 0 || shard >= shards || first < 0 || count < 1 ||
        !check_add((uint64_t)first, (uint64_t)count, &last) || last > whole)
        return false;
    r->shard = (uint32_t)shard;
    r->first = (uint64_t)first;
    r->count = (uint64_t)count;
    return true;
}

static weft_status parse_tensor(const char *name, json_t *value, pool *p, ckpt_manifest *m)
{
    const char *dtype;
    json_t *shape, *pieces;
    uint64_t whole;
    if (!ckpt_name_ok(name))
        return err_fail(WEFT_DATA, "a tensor name is empty, too long or not printable");
    ckpt_range r = {.name = pool_text(p, name)};
    if (json_unpack_ex(value, NULL, JSON_STRICT, "{s:s, s:o, s:o}", "dtype", &dtype, "shape",
                       &shape, "pieces", &pieces) ||
        !(r.dtype = ckpt_dtype_from(dtype)) || !ckpt_sizes_parse(shape, &r.rank, r.shape) ||
        !ckpt_elements(r.rank, r.shape, r.dtype, &whole) || !json_is_array(pieces))
        return err_fail(WEFT_DATA, "tensor %s: its type, shape or list of pieces is malformed",
                        r.name);
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        if (!parse_piece(json_array_get(pieces, i), whole, m->shards, p, &r))
            return err_fail(WEFT_DATA, "tensor %s: piece %zu is malformed or outside the tensor",
                            r.name, i);
        *vec_push(&m->ranges) = r;
    }
    return WEFT_OK;
}

static weft_status parse_root(json_t *root, pool *p, ckpt_manifest *m)
{
    const char *format, *job, *hex;
    int version;
    json_int_t step;
    json_t *shards, *tensors;
    if (json_unpack_ex(root, NULL, 0, "{s:s, s:i}", "format", &format, "version", &version) ||
        strcmp(format, FORMAT))
        return err_fail(WEFT_DATA, "it is not the manifest of a weft checkpoint");
    weft_status st =
        version_check("the checkpoint manifest", version > 0 ? (uint64_t)version : 0, VERSION);
    if (st != WEFT_OK)
        return st;
    if (json_unpack_ex(root, NULL, JSON_STRICT, "{s:s, s:i, s:I, s:s, s:o, s:o, s:s}", "format",
                       &format, "version", &version, "step", &step, "job", &job, "shards", &shards,
                       "tensors", &tensors, "sha256", &hex) ||
        step < 0 || !json_is_object(tensors))
        return err_fail(WEFT_DATA, "a member is missing, unknown or of the wrong type");
    m->step = (uint64_t)step;
    m->job = pool_text(p, job);
    st = parse_shards(shards, p, m);
    const char *name;
    json_t *value;
    json_object_foreach (tensors, name, value) {
        if (st == WEFT_OK)
            st = parse_tensor(name, value, p, m);
    }
    return st;
}

weft_status ckpt_manifest_parse(const char *text, uint64_t bytes, pool *p, ckpt_manifest *m)
{
    char trailer[CKPT_TRAILER + 1];
    *m = (ckpt_manifest){0};
    if (bytes <= CKPT_TRAILER)
        return err_fail(WEFT_DATA, "it is truncated");
    weft_status st = ckpt_trailer(text, bytes - CKPT_TRAILER, trailer);
    if (st != WEFT_OK)
        return st;
    if (memcmp(trailer, text + bytes - CKPT_TRAILER, CKPT_TRAILER))
        return err_fail(WEFT_DATA,
                        "its sum does not agree with its text: it is damaged or truncated");
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return err_fail(WEFT_DATA, "it is not JSON, or gives a name twice");
    st = parse_root(root, p, m);
    json_decref(root);
    return st;
}
