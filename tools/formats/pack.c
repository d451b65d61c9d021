/* formats/pack.c: see pack.h. */
#define _GNU_SOURCE
#include "formats/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lengthy.h"
#include "data/file.h"
#include "data/folder.h"
#include "formats/output.h"

#define FILE_BYTES ((uint64_t)5000000000u) /* as transformers has it */
#define NAME_BYTES 64

/* --- a folder of Hugging Face --- */

typedef struct packing {
    formats_exporter *x;
    int folder;
    formats_tensor *t; /* [params] */
    uint32_t n, files;
    lengthy progress;
} packing;

static void file_name(const packing *k, uint32_t file, char out[NAME_BYTES])
{
    if (k->files == 1)
        snprintf(out, NAME_BYTES, "model.safetensors");
    else
        snprintf(out, NAME_BYTES, "model-%05u-of-%05u.safetensors", file + 1, k->files);
}

/* WEFT_TEST_FILE_BYTES=N: tests export small models into several files. */
static uint64_t file_bytes(void)
{
    const char *few = getenv("WEFT_TEST_FILE_BYTES");
    const uint64_t bytes = few ? strtoull(few, NULL, 10) : 0;
    return bytes ? bytes : FILE_BYTES;
}

/* Names, shapes and files of all tensors; returns their bytes. */
static uint64_t lay_out(packing *k)
{
    formats_exporter *x = k->x;
    const uint64_t width = weft_dtype_size(x->dtype), most = file_bytes();
    uint64_t all = 0, held = 0;
    k->n = x->model.params.n;
    k->t = pool_array(&x->mem, k->n + 1, sizeof *k->t);
    for (uint32_t i = 0; i < k->n; i++) {
        const formats_view *v = &x->views[i];
        formats_tensor *t = &k->t[i];
        *t = (formats_tensor){.name = x->names[i], .dtype = x->dtype, .rank = v->there, .bytes = 1};
        for (uint32_t a = 0; a < v->there; a++) {
            t->shape[a] = v->shape[a];
            t->bytes *= (uint64_t)v->shape[a];
        }
        t->bytes *= width;
        if (held && held + t->bytes > most) {
            k->files++;
            held = 0;
        }
        t->file = k->files;
        held += t->bytes;
        all += t->bytes;
    }
    k->files++;
    return all;
}

static weft_status write_tensors(packing *k, int fd, uint32_t from, uint32_t to)
{
    char *head;
    uint64_t bytes;
    formats_writer w = {.c = k->x->c, .fd = fd, .dtype = k->x->dtype};
    weft_status st = formats_header_build(k->t + from, to - from, &head, &bytes);
    if (st != WEFT_OK)
        return st;
    st = formats_write_bytes(&w, head, bytes);
    free(head);
    for (uint32_t i = from; st == WEFT_OK && i < to; i++) {
        st = formats_write_param(&w, &k->x->model.params.at[i], &k->x->views[i]);
        lengthy_add(&k->progress, k->t[i].bytes);
    }
    formats_write_end(&w);
    if (st == WEFT_OK && data_file_sync(fd))
        st = err_fail_errno(WEFT_IO, "it cannot be written");
    return st;
}

static weft_status write_file(packing *k, uint32_t file)
{
    char name[NAME_BYTES];
    uint32_t from = 0, to;
    while (k->t[from].file != file)
        from++;
    for (to = from; to < k->n && k->t[to].file == file;)
        to++;
    file_name(k, file, name);
    const int fd =
        openat(k->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_fail_errno(WEFT_IO, "cannot create %s", name);
    weft_status st = write_tensors(k, fd, from, to);
    if (close(fd) < 0 && st == WEFT_OK)
        st = err_fail_errno(WEFT_IO, "it cannot be closed");
    if (st != WEFT_OK)
        err_context("%s", name);
    return st;
}

static weft_status write_json(int folder, const char *name, const json_t *value)
{
    char *text = NULL;
    bool same = false;
    for (unsigned digits = 15; !same && digits <= 17; digits++) { /* the shortest that reads back */
        free(text);
        text = json_dumps(value, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(digits));
        json_t *again = text ? json_loads(text, 0, NULL) : NULL;
        same = again && json_equal(again, (json_t *)value);
        json_decref(again);
    }
    weft_status st = text ? data_folder_file(folder, name, text, strlen(text))
                          : err_fail(WEFT_NO_MEMORY, "no memory for %s", name);
    free(text);
    return st;
}

static weft_status write_index(const packing *k, uint64_t bytes)
{
    json_t *map = json_object();
    char name[NAME_BYTES];
    if (k->files == 1) {
        json_decref(map);
        return WEFT_OK;
    }
    for (uint32_t i = 0; i < k->n; i++) {
        file_name(k, k->t[i].file, name);
        json_object_set_new(map, k->t[i].name, json_string(name));
    }
    json_t *root =
        json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)bytes, "weight_map", map);
    weft_status st = write_json(k->folder, "model.safetensors.index.json", root);
    json_decref(root);
    return st;
}

static weft_status write_config(const packing *k)
{
    json_t *c = k->x->config;
    const char *rest = k->x->format->architecture;
    char name[FORMATS_TEXT];
    const char *type = k->x->dtype == WEFT_F32    ? "float32"
                       : k->x->dtype == WEFT_BF16 ? "bfloat16"
                                                  : "float16";
    formats_next(&rest, name);
    json_object_set_new(c, "architectures", json_pack("[s]", name));
    json_object_set_new(c, "torch_dtype", json_string(type));
    json_object_del(c, "dtype"); /* as later versions call it */
    json_object_del(c, "transformers_version");
    return write_json(k->folder, "config.json", c);
}

static weft_status fill(packing *k)
{
    const uint64_t bytes = lay_out(k);
    lengthy_begin(&k->progress, "the weights are written", bytes);
    weft_status st = write_config(k);
    for (uint32_t i = 0; st == WEFT_OK && i < k->files; i++)
        st = write_file(k, i);
    if (st == WEFT_OK)
        st = write_index(k, bytes);
    if (st == WEFT_OK && k->x->beside)
        st = formats_beside_copy(k->x->beside, k->folder, false, k->x->trusted);
    return st == WEFT_OK ? formats_confirm_end(&k->x->confirm) : st;
}

weft_status formats_pack_folder(formats_exporter *x)
{
    formats_output f;
    packing k = {.x = x};
    weft_status st = formats_output_begin(x->r->to, &f);
    if (st != WEFT_OK)
        return st;
    k.folder = f.fd;
    st = fill(&k);
    if (st == WEFT_OK)
        return formats_output_commit(&f);
    formats_output_abandon(&f);
    err_context("%s", x->r->to);
    return st;
}

/* --- a file of llm.c --- */

static uint32_t param_named(const formats_exporter *x, const char *name)
{
    uint32_t i = 0;
    while (i < x->model.params.n && strcmp(x->names[i], name))
        i++;
    return i;
}

static weft_status write_one(formats_writer *w, formats_exporter *x, const char *name)
{
    const uint32_t i = param_named(x, name);
    if (i == x->model.params.n)
        return err_fail(WEFT_UNSUPPORTED, "family %s has no parameter for its tensor %s",
                        x->model.spec.family.c->name, name);
    return formats_write_param(w, &x->model.params.at[i], &x->views[i]);
}

/* The rows behind the vocabulary are zero. */
static weft_status write_padding(formats_writer *w, const formats_exporter *x)
{
    const int64_t vocab = json_integer_value(json_object_get(x->config, "vocab_size"));
    const int64_t width = json_integer_value(json_object_get(x->config, "channels"));
    const uint64_t bytes =
        (uint64_t)((formats_llmc_padded(vocab) - vocab) * width) * weft_dtype_size(x->dtype);
    void *zeros = mem_alloc(bytes + 1);
    weft_status st = formats_write_bytes(w, zeros, bytes);
    free(zeros);
    return st;
}

static weft_status write_llmc(formats_exporter *x, int fd)
{
    unsigned char head[FORMATS_LLMC_HEAD];
    formats_writer w = {.c = x->c, .fd = fd, .dtype = x->dtype};
    const int64_t layers = json_integer_value(json_object_get(x->config, "num_layers"));
    formats_llmc_head(x->config, x->dtype == WEFT_BF16, head);
    weft_status st = formats_write_bytes(&w, head, sizeof head);
    for (uint32_t i = 0; st == WEFT_OK && formats_llmc_names[i]; i++)
        for (int64_t layer = 0; st == WEFT_OK && layer < (formats_llmc_per_layer(i) ? layers : 1);
             layer++) {
            char name[FORMATS_TEXT];
            const int stem = (int)strcspn(formats_llmc_names[i], "*");
            snprintf(name, sizeof name, "%.*s", stem, formats_llmc_names[i]);
            if (formats_llmc_per_layer(i))
                snprintf(name + stem, sizeof name - (size_t)stem, "%lld", (long long)layer);
            st = write_one(&w, x, name);
            if (st == WEFT_OK && !i)
                st = write_padding(&w, x);
        }
    formats_write_end(&w);
    if (st == WEFT_OK && data_file_sync(fd))
        st = err_fail_errno(WEFT_IO, "it cannot be written");
    return st;
}

weft_status formats_pack_llmc(formats_exporter *x)
{
    char temp[PATH_MAX];
    if (x->dtype == WEFT_F16)
        return err_fail(WEFT_USAGE, "llm.c has files in fp32 and bf16; give --dtype fp32 or bf16");
    if (snprintf(temp, sizeof temp, "%s.%ld.tmp", x->r->to, (long)getpid()) >= (int)sizeof temp)
        return err_fail(WEFT_USAGE, "the name %.64s... is too long", x->r->to);
    const int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_fail_errno(data_file_status(errno), "cannot create %s", temp);
    weft_status st = write_llmc(x, fd);
    if (close(fd) < 0 && st == WEFT_OK)
        st = err_fail_errno(WEFT_IO, "cannot close it");
    if (st == WEFT_OK)
        st = formats_confirm_end(&x->confirm);
    if (st == WEFT_OK && link(temp, x->r->to) < 0)
        st = err_fail_errno(data_file_status(errno), "it cannot get its name");
    if (unlink(temp) < 0 && st == WEFT_OK)
        st = err_fail_errno(WEFT_IO, "cannot remove %s", temp);
    if (st == WEFT_OK && data_file_sync_parent(x->r->to))
        st = err_fail_errno(WEFT_IO, "cannot sync its folder");
    if (st != WEFT_OK)
        err_context("%s", x->r->to);
    return st;
}
