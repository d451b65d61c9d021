/* formats/llmc.c: checkpoints of llm.c. See internal.h.
 *
 * 256 words of 32 bits: the magic number, the version (3: fp32, 5: bf16), the longest sequence, the
 * vocabulary, the layers, the heads, the channels, the rows of the token table, which are padded to
 * a multiple of 128. Then the tensors, without names: each of those of a layer is a stack of all
 * layers. Each layer's part is a tensor here, as if the file had named it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "formats/internal.h"

#define MAGIC 20240326
#define FP32 3
#define BF16 5

const char *const formats_llmc_names[] = {
    "wte",        "wpe",        "ln1w.*", "ln1b.*", "qkvw.*", "qkvb.*",
    "attprojw.*", "attprojb.*", "ln2w.*", "ln2b.*", "fcw.*",  "fcb.*",
    "fcprojw.*",  "fcprojb.*",  "lnfw",   "lnfb",   NULL};

bool formats_llmc_per_layer(uint32_t i)
{
    return strchr(formats_llmc_names[i], '*') != NULL;
}

static const struct {
    uint32_t word;
    const char *field;
    int64_t max;
} fields[] = {
    {2, "max_seq_len", 1 << 24}, {3, "vocab_size", 1 << 24}, {4, "num_layers", 1024},
    {5, "num_heads", 65536},     {6, "channels", 1 << 20},   {7, "padded_vocab_size", 1 << 25},
};
#define FIELDS (sizeof fields / sizeof *fields)

int64_t formats_llmc_padded(int64_t vocab)
{
    return (vocab + 127) / 128 * 128;
}

static weft_status read_head(const int32_t *head, json_t **root, uint32_t *dtype)
{
    if (head[0] != MAGIC)
        return err_fail(WEFT_DATA, "it is no checkpoint of llm.c: it does not begin with its "
                                   "number");
    if (head[1] != FP32 && head[1] != BF16)
        return err_fail(WEFT_UNSUPPORTED,
                        "it is a checkpoint of llm.c of version %d; weft reads 3 (fp32) and 5 "
                        "(bf16)",
                        head[1]);
    *dtype = head[1] == FP32 ? WEFT_F32 : WEFT_BF16;
    *root = json_pack("{s:[s], s:b}", "architectures", "GPT2", "tied", 1);
    for (size_t i = 0; i < FIELDS; i++) {
        const int32_t value = head[fields[i].word];
        if (value < 1 || value > fields[i].max)
            return err_fail(WEFT_DATA, "its head has %s = %d, which is not from 1 to %lld",
                            fields[i].field, value, (long long)fields[i].max);
        json_object_set_new(*root, fields[i].field, json_integer(value));
    }
    if (head[7] < head[3])
        return err_fail(WEFT_DATA, "its head has fewer rows of the token table than tokens");
    return WEFT_OK;
}

/* The shape of tensor number `i`, a layer's part of a stack. */
static void shape_of(const int32_t *head, uint32_t i, formats_tensor *t)
{
    const int64_t c = head[6], rows[] = {head[3], head[2], c,     c,     3 * c, 3 * c, c, c,
                                         c,       c,       4 * c, 4 * c, c,     c,     c, c};
    static const uint32_t inner[] = {1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 0, 0, 0};
    t->rank = inner[i] ? 2 : 1;
    t->shape[0] = rows[i];
    t->shape[1] = c * inner[i];
    t->count = (uint64_t)rows[i] * (inner[i] ? (uint64_t)t->shape[1] : 1);
}

/* All tensors one after the other; false: more bytes than the file has. */
static bool place(const int32_t *head, uint32_t dtype, uint64_t size, pool *p, formats_tensors *out)
{
    uint64_t at = FORMATS_LLMC_HEAD;
    for (uint32_t i = 0; formats_llmc_names[i]; i++) {
        const uint32_t parts = formats_llmc_per_layer(i) ? (uint32_t)head[4] : 1;
        for (uint32_t layer = 0; layer < parts; layer++) {
            formats_tensor t = {.dtype = dtype};
            const int stem = (int)strcspn(formats_llmc_names[i], "*");
            shape_of(head, i, &t);
            t.name = parts == 1 && !formats_llmc_per_layer(i)
                         ? formats_llmc_names[i]
                         : pool_printf(p, "%.*s%u", stem, formats_llmc_names[i], layer);
            t.bytes = t.count * weft_dtype_size(dtype); /* fits: sizes are bounded */
            t.at = at;
            /* the token table is followed by its padding */
            at += i ? t.bytes : (uint64_t)head[7] * (uint64_t)head[6] * weft_dtype_size(dtype);
            if (at > size)
                return false;
            *vec_push(out) = t;
        }
    }
    return at == size;
}

static weft_status read_file(formats_source *s, int fd, uint64_t size)
{
    int32_t head[FORMATS_LLMC_HEAD / 4];
    uint32_t dtype = 0;
    formats_tensors all = {0};
    if (size < sizeof head || data_file_read(fd, head, sizeof head, 0))
        return err_fail(WEFT_DATA, "it is too short for a checkpoint of llm.c");
    weft_status st = read_head(head, &s->config, &dtype);
    if (st == WEFT_OK && !place(head, dtype, size, &s->mem, &all))
        st = err_fail(WEFT_DATA,
                      "it has %llu bytes, which is not the size of the model in its "
                      "head: it is truncated or damaged",
                      (unsigned long long)size);
    if (st == WEFT_OK)
        st = formats_source_sort(s, all.at, all.n);
    free(all.at);
    return st;
}

weft_status formats_llmc_open(const char *path, formats_source *s)
{
    struct stat info;
    *s = (formats_source){.format = FORMATS_LLMC, .fd = -1, .folder = -1};
    s->path = pool_text(&s->mem, path);
    s->fd = data_file_open_regular(AT_FDCWD, path, true, &info);
    if (s->fd < 0)
        return err_fail_errno(data_file_status(errno), "cannot read %s", path);
    s->files = pool_array(&s->mem, 1, sizeof *s->files);
    s->sizes = pool_array(&s->mem, 1, sizeof *s->sizes);
    s->files[0] = s->path;
    s->sizes[0] = (uint64_t)info.st_size;
    s->nfiles = 1;
    weft_status st = read_file(s, s->fd, s->sizes[0]);
    if (st != WEFT_OK)
        err_context("%s", path);
    return st;
}

void formats_llmc_head(const json_t *root, bool bf16, unsigned char out[FORMATS_LLMC_HEAD])
{
    int32_t head[FORMATS_LLMC_HEAD / 4] = {MAGIC, bf16 ? BF16 : FP32};
    for (size_t i = 0; i < FIELDS; i++)
        head[fields[i].word] = (int32_t)json_integer_value(json_object_get(root, fields[i].field));
    head[7] = (int32_t)formats_llmc_padded(head[3]);
    memcpy(out, head, sizeof head);
}
