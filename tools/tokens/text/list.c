/* tokens/text/list.c: see list.h. */
#define _GNU_SOURCE
#include "tokens/text/list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "data/file.h"

#define MAX_FILES 10000000u
#define MAX_DEPTH 64

static bool ends(const char *s, size_t n, const char *with)
{
    const size_t m = strlen(with);
    return n > m && !memcmp(s + n - m, with, m);
}

static weft_status add_file(tokens_text_list *l, const char *path, const struct stat *st)
{
    if (l->n == MAX_FILES)
        return err_fail(WEFT_USAGE, "there are more than %u text files", MAX_FILES);
    if (l->n == l->capacity) {
        l->capacity = l->capacity ? 2 * l->capacity : 64;
        l->at = mem_grow(l->at, l->capacity * sizeof *l->at);
    }
    size_t n = strlen(path);
    tokens_text_file f = {.path = mem_alloc(n + 1),
                          .bytes = (uint64_t)st->st_size,
                          .changed =
                              (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec};
    memcpy(f.path, path, n);
    f.packing = ends(path, n, ".gz") ? DATA_GZ : ends(path, n, ".zst") ? DATA_ZST : DATA_PLAIN;
    n -= f.packing == DATA_GZ ? 3 : f.packing == DATA_ZST ? 4 : 0;
    f.records = ends(path, n, ".jsonl") || ends(path, n, ".ndjson");
    l->at[l->n++] = f;
    l->bytes += f.bytes;
    return WEFT_OK;
}

typedef struct folder_id {
    dev_t device;
    ino_t inode;
} folder_id;

/* One named path: links that lead to a folder again do not multiply its files. */
typedef struct walk {
    tokens_text_list *l;
    void *seen; /* tsearch(): folder_id of each folder so far */
} walk;

static int by_id(const void *a, const void *b)
{
    const folder_id *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static weft_status first_visit(walk *w, const char *path, bool *first)
{
    struct stat st;
    if (stat(path, &st))
        return err_fail_errno(data_file_status(errno), "cannot read the folder %s", path);
    folder_id *id = mem_alloc(sizeof *id);
    *id = (folder_id){st.st_dev, st.st_ino};
    folder_id **found = tsearch(id, &w->seen, by_id);
    *first = found && *found == id;
    if (!*first)
        free(id);
    return found ? WEFT_OK : err_fail(WEFT_NO_MEMORY, "no memory for the folders below %s", path);
}

static weft_status add_folder(walk *w, const char *path, int depth);

/* What weft data keeps while it works (spool.h) is no text. */
static int visible(const struct dirent *e)
{
    return *e->d_name != '.' && !ends(e->d_name, strlen(e->d_name), ".part");
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Files of other formats would become tokens without a sign that they are no text. */
static weft_status check_format(int fd, const char *path)
{
    static const struct {
        const char *head, *what, *todo;
        size_t bytes;
    } formats[] = {
#define COLUMNS                                                                                    \
    "write its column of text as records, {\"text\": ...} a line, into a file whose name ends in " \
    ".jsonl (--field NAME says which field is the text)"
        {"PAR1\x15", "a Parquet file", COLUMNS, 5},
        {"ARROW1\0\0", "an Arrow file", COLUMNS, 8},
#undef COLUMNS
        {"PK\3\4", "a zip archive", "unpack it first and give the texts in it", 4},
        {"%PDF-", "a PDF file", "extract its text first, for instance with pdftotext", 5},
        {"\3757zXZ\0", "packed by xz", "unpack it first; .gz and .zst are unpacked by weft", 6},
        {"BZh", "packed by bzip2", "unpack it first; .gz and .zst are unpacked by weft", 3},
    };
    char head[10] = {0}; /* of a shorter text the rest stays 0 */
    if (data_file_read(fd, head, sizeof head, 0) < 0)
        return err_fail_errno(data_file_status(errno), "cannot read text %s", path);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const bool same = !memcmp(head, formats[i].head, formats[i].bytes);
        if (same && (formats[i].head[0] != 'B' || !memcmp(head + 4, "1AY&SY", 6)))
            return err_fail(WEFT_USAGE, "%s is %s, and no text: %s", path, formats[i].what,
                            formats[i].todo);
    }
    return WEFT_OK;
}

/* A regular file or a folder; what is neither is left out below a folder. */
static weft_status add_path(walk *w, const char *path, bool named, int depth)
{
    struct stat st;
    const int fd = data_file_open_regular(AT_FDCWD, path, true, &st);
    if (fd >= 0) {
        const weft_status text = check_format(fd, path);
        close(fd);
        return text == WEFT_OK ? add_file(w->l, path, &st) : text;
    }
    const int error = errno;
    if (error == EISDIR)
        return add_folder(w, path, depth + 1);
    if (!named && error == ENODEV)
        return WEFT_OK;
    errno = error;
    return err_fail_errno(data_file_status(error), "cannot read text %s", path);
}

static weft_status add_folder(walk *w, const char *path, int depth)
{
    struct dirent **entries;
    char below[PATH_MAX];
    bool first;
    weft_status st = first_visit(w, path, &first);
    if (st != WEFT_OK || !first)
        return st;
    if (depth > MAX_DEPTH)
        return err_fail(WEFT_USAGE, "folders below %s are more than %d deep", path, MAX_DEPTH);
    const int n = scandir(path, &entries, visible, by_bytes);
    if (n < 0)
        return err_fail_errno(data_file_status(errno), "cannot read the folder %s", path);
    for (int i = 0; i < n; i++) {
        const int length = snprintf(below, sizeof below, "%s%s%s", path,
                                    ends(path, strlen(path), "/") ? "" : "/", entries[i]->d_name);
        if (st == WEFT_OK && (length < 0 || length >= (int)sizeof below))
            st = err_fail(WEFT_USAGE, "a name below %s is too long", path);
        if (st == WEFT_OK)
            st = add_path(w, below, false, depth);
        free(entries[i]);
    }
    free(entries);
    return st;
}

weft_status tokens_text_list_make(const char *const *paths, uint32_t n, tokens_text_list *out)
{
    *out = (tokens_text_list){0};
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < n; i++) {
        const uint32_t before = out->n;
        walk w = {.l = out};
        st = add_path(&w, paths[i], true, 0);
        tdestroy(w.seen, free);
        if (st == WEFT_OK && out->n == before)
            st = err_fail(WEFT_USAGE, "the folder %s has no text files", paths[i]);
    }
    if (st != WEFT_OK)
        tokens_text_list_free(out);
    return st;
}

void tokens_text_list_free(tokens_text_list *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        free(l->at[i].path);
    free(l->at);
    *l = (tokens_text_list){0};
}
