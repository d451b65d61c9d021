/* formats/source.c: what all opened files have in common. See internal.h. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/file.h"
#include "formats/internal.h"

static volatile sig_atomic_t interrupted;

void formats_interrupt(int number)
{
    interrupted = number;
}

int formats_interrupted(void)
{
    return interrupted;
}

weft_status formats_check_interrupted(void)
{
    return interrupted ? err_fail(WEFT_IO, "interrupted by a signal (%s); nothing is left of it",
                                  strsignal(interrupted))
                       : WEFT_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const formats_tensor *)a)->name, ((const formats_tensor *)b)->name);
}

weft_status formats_source_sort(formats_source *s, const formats_tensor *tensors, uint32_t n)
{
    s->tensors = pool_array(&s->mem, n + 1, sizeof *s->tensors);
    s->n = n;
    if (n) {
        memcpy(s->tensors, tensors, n * sizeof *tensors);
        qsort(s->tensors, n, sizeof *s->tensors, by_name);
    }
    for (uint32_t i = 1; i < n; i++)
        if (!strcmp(s->tensors[i].name, s->tensors[i - 1].name))
            return err_fail(WEFT_DATA, "tensor %s is there twice", s->tensors[i].name);
    return WEFT_OK;
}

formats_tensor *formats_source_find(const formats_source *s, const char *name)
{
    const formats_tensor wanted = {.name = name};
    return s->n ? bsearch(&wanted, s->tensors, s->n, sizeof *s->tensors, by_name) : NULL;
}

static weft_status open_file(formats_source *s, uint32_t file)
{
    struct stat info;
    if (s->fd >= 0 && s->opened == file)
        return WEFT_OK;
    if (s->fd >= 0)
        close(s->fd);
    s->opened = file;
    s->fd = data_file_open_regular(s->folder, s->files[file], true, &info);
    if (s->fd < 0)
        return err_fail_errno(WEFT_IO, "%s: cannot read %s", s->path, s->files[file]);
    if ((uint64_t)info.st_size != s->sizes[file])
        return err_fail(WEFT_DATA, "%s: %s was changed while it was read", s->path, s->files[file]);
    return WEFT_OK;
}

weft_status formats_source_bytes(formats_source *s, uint32_t file, uint64_t at, uint64_t bytes,
                                 void *out)
{
    weft_status st = open_file(s, file);
    const int rc = st == WEFT_OK ? data_file_read(s->fd, out, bytes, at) : 0;
    if (rc < 0)
        return err_fail_errno(WEFT_IO, "%s: cannot read %s", s->path, s->files[file]);
    if (rc)
        return err_fail(WEFT_DATA, "%s: %s was changed while it was read", s->path, s->files[file]);
    return st;
}

void formats_source_close(formats_source *s)
{
    if (s->fd >= 0)
        close(s->fd);
    if (s->folder >= 0)
        close(s->folder);
    json_decref(s->config);
    pool_free(&s->mem);
    *s = (formats_source){.fd = -1, .folder = -1};
}
