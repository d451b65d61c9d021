/* formats/folder.c: a folder of Hugging Face as a source: config.json, and model.safetensors or the
 * files that model.safetensors.index.json names. See internal.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/file.h"
#include "formats/internal.h"

#define ONE "model.safetensors"
#define INDEX "model.safetensors.index.json"

bool formats_is_folder(const char *path)
{
    char name[4096 + 32];
    snprintf(name, sizeof name, "%.4096s/manifest.json", path);
    if (access(name, F_OK) == 0)
        return false;
    snprintf(name, sizeof name, "%.4096s/config.json", path);
    return access(name, F_OK) == 0;
}

/* A file of this folder, and nothing else. */
static bool plain_name(const char *name)
{
    const size_t n = name ? strnlen(name, 256) : 0;
    return n && n < 256 && *name != '.' && !strchr(name, '/');
}

static weft_status add_file(formats_source *s, const char *name)
{
    for (uint32_t i = 0; i < s->nfiles; i++)
        if (!strcmp(s->files[i], name))
            return WEFT_OK;
    if (s->nfiles == FORMATS_FILES_MAX)
        return err_fail(WEFT_UNSUPPORTED, "%s names more than %u files", INDEX, FORMATS_FILES_MAX);
    s->files[s->nfiles++] = pool_text(&s->mem, name);
    return WEFT_OK;
}

static weft_status read_map(formats_source *s, const json_t *map)
{
    const char *name;
    json_t *file;
    if (!json_is_object(map))
        return err_fail(WEFT_DATA, "%s: it has no object weight_map", INDEX);
    weft_status st = WEFT_OK;
    json_object_foreach ((json_t *)map, name, file) {
        if (st == WEFT_OK && !plain_name(json_string_value(file)))
            st = err_fail(WEFT_DATA, "%s: weight_map names something that is no file of the folder",
                          INDEX);
        if (st == WEFT_OK)
            st = add_file(s, json_string_value(file));
    }
    return st;
}

/* Every tensor is in the file that the index names, and the index names each. */
static weft_status check_map(const formats_source *s, const json_t *map)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const formats_tensor *t = &s->tensors[i];
        const char *file = json_string_value(json_object_get(map, t->name));
        if (!file || strcmp(file, s->files[t->file]))
            return err_fail(WEFT_DATA, "%s has tensor %s, which %s %s", s->files[t->file], t->name,
                            INDEX, file ? "puts into another file" : "does not name");
    }
    if (json_object_size(map) != s->n)
        return err_fail(WEFT_DATA, "%s names %zu tensors, and the files have %u", INDEX,
                        json_object_size(map), s->n);
    return WEFT_OK;
}

static weft_status read_file(formats_source *s, uint32_t i, formats_tensors *all)
{
    struct stat info;
    const int fd = data_file_open_regular(s->folder, s->files[i], true, &info);
    if (fd < 0)
        return err_fail_errno(data_file_status(errno), "cannot read %s", s->files[i]);
    s->sizes[i] = (uint64_t)info.st_size;
    weft_status st = formats_header_read(fd, s->sizes[i], i, &s->mem, all);
    close(fd);
    if (st != WEFT_OK)
        err_context("%s", s->files[i]);
    return st;
}

static weft_status read_files(formats_source *s, const json_t *map)
{
    formats_tensors all = {0};
    weft_status st = WEFT_OK;
    s->sizes = pool_array(&s->mem, s->nfiles + 1, sizeof *s->sizes);
    for (uint32_t i = 0; st == WEFT_OK && i < s->nfiles; i++)
        st = read_file(s, i, &all);
    if (st == WEFT_OK)
        st = formats_source_sort(s, all.at, all.n);
    free(all.at);
    return st == WEFT_OK && map ? check_map(s, map) : st;
}

/* Which files there are. */
static weft_status find_files(formats_source *s, json_t **index)
{
    s->files = pool_array(&s->mem, FORMATS_FILES_MAX, sizeof *s->files);
    if (faccessat(s->folder, ONE, F_OK, 0) == 0)
        return add_file(s, ONE);
    if (faccessat(s->folder, "manifest.json", F_OK, 0) == 0)
        return err_fail(WEFT_USAGE, "it is a checkpoint of weft already: name it in "
                                    "checkpoint.init, or behind weft export");
    if (faccessat(s->folder, INDEX, F_OK, 0) < 0)
        return err_fail(WEFT_USAGE,
                        "there is neither %s nor %s; files of other kinds, such as "
                        "pytorch_model.bin, are not read: save the model again with "
                        "safe_serialization=True",
                        ONE, INDEX);
    weft_status st = formats_json_read(s->folder, INDEX, true, FORMATS_HEADER_MAX, index);
    return st == WEFT_OK ? read_map(s, json_object_get(*index, "weight_map")) : st;
}

weft_status formats_folder_open(const char *path, formats_source *s)
{
    json_t *index = NULL;
    *s = (formats_source){.format = FORMATS_HUGGINGFACE, .fd = -1};
    s->path = pool_text(&s->mem, path);
    s->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->folder < 0)
        return err_fail_errno(
            data_file_status(errno),
            "cannot open the folder %s (nothing is downloaded: download the model "
            "first and give its folder)",
            path);
    weft_status st =
        formats_json_read(s->folder, "config.json", true, FORMATS_CONFIG_MAX, &s->config);
    if (st == WEFT_OK)
        st = find_files(s, &index);
    if (st == WEFT_OK)
        st = read_files(s, json_object_get(index, "weight_map"));
    json_decref(index);
    if (st != WEFT_OK)
        err_context("%s", path);
    return st;
}
