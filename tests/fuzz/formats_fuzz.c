/* Any bytes as a file of another program: the header of a safetensors file ("h", a byte that is the
 * length of the data, the JSON), a configuration ("c", the JSON), a file of llm.c ("l", the words
 * of its head, the length of the rest) or model.safetensors.index.json ("i", the JSON) of a folder
 * with two files: refused with words, or read with what the readers promise. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "formats/internal.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_tensors(const formats_tensor *t, uint32_t n, uint64_t from, uint64_t end)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t count = 1;
        must(*t[i].name && t[i].rank <= WEFT_MAX_AXES);
        for (uint32_t k = 0; k < t[i].rank; k++)
            count *= (uint64_t)t[i].shape[k];
        must(count == t[i].count && t[i].at >= from && t[i].at <= end);
        must(t[i].bytes <= end - t[i].at);
        must(!t[i].dtype || t[i].bytes == count * weft_dtype_size(t[i].dtype));
    }
}

static void try_header(const uint8_t *data, size_t bytes)
{
    pool p = {0};
    formats_tensors all = {0};
    const uint64_t data_bytes = data[0];
    if (formats_header_parse((const char *)data + 1, bytes - 1, data_bytes, 0, &p, &all) == WEFT_OK)
        check_tensors(all.at, all.n, 0, data_bytes);
    else
        must(err_text()[0]);
    free(all.at);
    pool_free(&p);
}

#define FIELD(flags, field, key, values, dflt)                                                     \
    &(const weft_model_field)                                                                      \
    {                                                                                              \
        sizeof(weft_model_field), flags, key, field, dflt, values                                  \
    }

static const weft_model_field *const fields[] = {
    FIELD(0, "n", "layers", NULL, NULL),
    FIELD(0, "m|a.m", "ffn", NULL, "4*n"),
    FIELD(0, "a.b.c", "tied", "true=on|false=off", "false"),
    FIELD(0, "q", NULL, "m/n|null|1.0", "null"),
    FIELD(WEFT_FIELD_IMPLIED, "bias", "bias", NULL, "off"),
    NULL,
};
static const weft_model_format format = {.struct_size = sizeof format,
                                         .format = "huggingface",
                                         .architecture = "A|B",
                                         .prefix = "",
                                         .fields = fields};

static void try_config(const uint8_t *data, size_t bytes)
{
    pool p = {0};
    formats_settings s = {0};
    json_t *root = json_loadb((const char *)data, bytes, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(root)) {
        if (formats_settings_of(&format, root, &p, &s) == WEFT_OK)
            for (uint32_t i = 0; i < s.n; i++)
                must(config_text_lawful(s.at[i].value) && strlen(s.at[i].value) < FORMATS_TEXT);
        else
            must(err_text()[0]);
        formats_json_put(root, "x.y.z", json_true());
        formats_json_put(root, "a.b.c", json_true());
        must(formats_json_find(root, "none|a.b.c", NULL) == json_true());
        formats_json_drop(root, "a.b.c");
        must(!formats_json_find(root, "a.b.c", NULL));
    }
    json_decref(root);
    free(s.at);
    pool_free(&p);
}

/* The head is at most 32 bytes of the input; two more are the length of what follows it. */
static void try_llmc(const uint8_t *data, size_t bytes)
{
    char path[64], head[FORMATS_LLMC_HEAD] = {0};
    formats_source s;
    const int fd = memfd_create("llmc", MFD_CLOEXEC);
    const uint64_t rest = bytes >= 34 ? data[32] + 256u * data[33] : 0;
    must(fd >= 0);
    memcpy(head, data, bytes < 32 ? bytes : 32);
    must(write(fd, head, bytes < 32 ? bytes : sizeof head) >= 0);
    must(ftruncate(fd, bytes < 32 ? (off_t)bytes : (off_t)(sizeof head + rest)) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (formats_llmc_open(path, &s) == WEFT_OK)
        check_tensors(s.tensors, s.n, FORMATS_LLMC_HEAD, sizeof head + rest);
    else
        must(err_text()[0]);
    formats_source_close(&s);
    close(fd);
}

#define INDEX "model.safetensors.index.json"
#define HEAD "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"

static char folder[64];

static void put(const char *name, const void *data, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes && close(fd) == 0);
}

static void remove_folder(void)
{
    static const char *const names[] = {"config.json", "a", "b", INDEX};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* The file `name` has the tensor of its name, with "t" in front of it. */
static void put_shard(const char *name, const char *called)
{
    char file[256] = {0};
    const int n = snprintf(file + 8, sizeof file - 8, HEAD, called);
    file[0] = (char)n;
    put(name, file, (size_t)n + 12);
}

static void try_index(const uint8_t *data, size_t bytes)
{
    formats_source s;
    if (!*folder) {
        snprintf(folder, sizeof folder, "/dev/shm/weft-fuzz-XXXXXX");
        must(mkdtemp(folder) != NULL && atexit(remove_folder) == 0);
        put("config.json", "{}", 2);
        put_shard("a", "ta");
        put_shard("b", "tb");
    }
    put(INDEX, data, bytes);
    if (formats_folder_open(folder, &s) == WEFT_OK) {
        must(s.nfiles <= 2 && s.n == s.nfiles);
        check_tensors(s.tensors, s.n, 8, 256);
    } else {
        must(err_text()[0]);
    }
    formats_source_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    err_clear();
    if (bytes > 1 && data[0] == 'h')
        try_header(data + 1, bytes - 1);
    else if (bytes && data[0] == 'c')
        try_config(data + 1, bytes - 1);
    else if (bytes && data[0] == 'l')
        try_llmc(data + 1, bytes - 1);
    else if (bytes && data[0] == 'i')
        try_index(data + 1, bytes - 1);
    return 0;
}
