/* formats/text.c: JSON files and their fields. See internal.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/file.h"
#include "formats/internal.h"

weft_status formats_cannot_read(const char *name, bool follow)
{
    if (errno != ELOOP || follow)
        return err_fail_errno(data_file_status(errno), "cannot read %s", name);
    return err_fail(WEFT_USAGE,
                    "%s is a link, and a checkpoint's are not followed elsewhere: name the folder "
                    "with --tokenizer if it is yours",
                    name);
}

weft_status formats_json_read(int folder, const char *name, bool follow, uint64_t max, json_t **out)
{
    struct stat info;
    json_error_t error;
    const int fd = data_file_open_regular(folder, name, follow, &info);
    if (fd < 0)
        return formats_cannot_read(name, follow);
    const uint64_t bytes = (uint64_t)info.st_size;
    char *text = NULL;
    weft_status st = WEFT_OK;
    if (bytes > max)
        st = err_fail(WEFT_DATA, "%s: it is over %llu bytes long", name, (unsigned long long)max);
    else if (data_file_read(fd, text = mem_alloc(bytes + 1), bytes, 0))
        st = err_fail(WEFT_IO, "%s: it cannot be read to its end", name);
    close(fd);
    if (st == WEFT_OK) {
        *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
        if (!*out)
            st = err_fail(WEFT_DATA, "%s:%d: it is not JSON: %s", name, error.line, error.text);
        else if (!json_is_object(*out))
            st = err_fail(WEFT_DATA, "%s: it is not a JSON object", name);
    }
    free(text);
    return st;
}

bool formats_next(const char **rest, char out[FORMATS_TEXT])
{
    const char *from = *rest;
    if (!from || !*from)
        return false;
    const size_t n = strcspn(from, "|"), kept = n < FORMATS_TEXT - 1 ? n : FORMATS_TEXT - 1;
    memcpy(out, from, kept);
    out[kept] = 0;
    *rest = from[n] ? from + n + 1 : NULL;
    return true;
}

static const json_t *at_path(const json_t *root, const char *path)
{
    char part[FORMATS_TEXT];
    while (root && *path) {
        const size_t n = strcspn(path, ".");
        memcpy(part, path, n); /* paths are at most 255 bytes: host/formats.c */
        part[n] = 0;
        root = json_object_get(root, part); /* NULL where `root` is no object */
        path += n + (path[n] == '.');
    }
    return root;
}

const json_t *formats_json_find(const json_t *root, const char *names, char path[FORMATS_TEXT])
{
    char one[FORMATS_TEXT];
    while (formats_next(&names, one)) {
        const json_t *value = at_path(root, one);
        if (!value || json_is_null(value))
            continue;
        if (path)
            memcpy(path, one, sizeof one);
        return value;
    }
    return NULL;
}

void formats_json_put(json_t *root, const char *path, json_t *value)
{
    char part[FORMATS_TEXT];
    for (size_t n; (n = strcspn(path, ".")), path[n]; path += n + 1) {
        memcpy(part, path, n);
        part[n] = 0;
        json_t *inner = json_object_get(root, part);
        if (!json_is_object(inner)) {
            inner = json_object();
            json_object_set_new(root, part, inner);
        }
        root = inner;
    }
    json_object_set_new(root, path, value);
}

void formats_json_drop(json_t *root, const char *path)
{
    char part[FORMATS_TEXT];
    const size_t n = strcspn(path, ".");
    memcpy(part, path, n);
    part[n] = 0;
    json_t *inner = json_object_get(root, part);
    if (!path[n]) {
        json_object_del(root, part);
        return;
    }
    if (!json_is_object(inner))
        return;
    formats_json_drop(inner, path + n + 1);
    if (!json_object_size(inner))
        json_object_del(root, part);
}

const char *formats_json_word(const json_t *value, char out[FORMATS_TEXT])
{
    if (json_is_real(value))
        return formats_real_text(json_real_value(value), out);
    char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(out, FORMATS_TEXT, "%s", text ? text : json_string_value(value));
    free(text);
    return out;
}

json_t *formats_json_value(const char *word)
{
    json_t *value = json_loads(word, JSON_DECODE_ANY, NULL);
    return value ? value : json_string(word);
}

const char *formats_real_text(double x, char out[FORMATS_TEXT])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, FORMATS_TEXT, "%.*g", digits, x);
        if (strtod(out, NULL) == x)
            break;
    }
    return out;
}

bool formats_same_value(const char *a, const char *b)
{
    char *end_a, *end_b;
    const double x = strtod(a, &end_a), y = strtod(b, &end_b);
    const bool numbers = *a && *b && !*end_a && !*end_b;
    return !strcmp(a, b) || (numbers && x == y);
}
