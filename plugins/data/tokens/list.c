/* list.c: see list.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "list.h"

#define DIGITS 6u        /* behind the point of a weight */
#define MILLION 1000000u /* 10 ^ DIGITS */
#define MAX_WEIGHT 1000000u

static weft_status add_path(list *l, list_part *p, const char *path)
{
    weft_status st = WEFT_OK;
    if (l->files == LIST_FILES)
        return source_fail(l->host, WEFT_USAGE, "%s: more than %u files; join some of them", l->key,
                           LIST_FILES);
    if (p->n == p->room) {
        const uint32_t room = p->room ? 2 * p->room : 8;
        char **more = (char **)weft_new(l->host, room * sizeof *more, &st);
        if (!more)
            return st;
        if (p->n)
            memcpy(more, p->paths, p->n * sizeof *more);
        (l->host->free)(l->host->ctx, p->paths);
        p->paths = more;
        p->room = room;
    }
    const size_t bytes = strlen(path) + 1;
    char *own = (char *)weft_new(l->host, bytes, &st);
    if (!own)
        return st;
    memcpy(own, path, bytes);
    p->paths[p->n++] = own;
    l->files++;
    return WEFT_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of the locale's order would differ between machines. */
static void sort_from(list_part *p, uint32_t first)
{
    if (p->n > first)
        qsort(p->paths + first, p->n - first, sizeof *p->paths, by_bytes);
}

static bool ends_in(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n > k && !strcmp(name + n - k, end);
}

static weft_status add_folder(list *l, list_part *p, const char *path)
{
    char full[2 * LIST_PATH];
    const uint32_t first = p->n;
    weft_status st = WEFT_OK;
    DIR *d = opendir(path);
    if (!d)
        return source_fail(l->host, source_status(errno), "%s: cannot read folder %s: %s", l->key,
                           path, strerror(errno));
    for (struct dirent *e; st == WEFT_OK && (e = readdir(d));) {
        if (*e->d_name == '.' || (!ends_in(e->d_name, ".bin") && !ends_in(e->d_name, ".tokens")))
            continue;
        snprintf(full, sizeof full, "%s%s%s", path, ends_in(path, "/") ? "" : "/", e->d_name);
        st = add_path(l, p, full);
    }
    closedir(d);
    if (st == WEFT_OK && p->n == first)
        st = source_fail(l->host, WEFT_USAGE,
                         "%s: folder %s has no file NAME.bin or NAME.tokens; name the files, or "
                         "give a pattern such as %s/*",
                         l->key, path, path);
    sort_from(p, first);
    return st;
}

static weft_status add_pattern(list *l, list_part *p, const char *pattern)
{
    glob_t found = {0};
    const uint32_t first = p->n;
    const int rc = glob(pattern, GLOB_NOSORT, NULL, &found);
    weft_status st = WEFT_OK;
    if (rc)
        st = source_fail(l->host, rc == GLOB_NOSPACE ? WEFT_NO_MEMORY : WEFT_USAGE,
                         "%s: no file has a name like %s", l->key, pattern);
    for (size_t i = 0; st == WEFT_OK && i < found.gl_pathc; i++)
        st = add_path(l, p, found.gl_pathv[i]);
    globfree(&found);
    sort_from(p, first);
    return st;
}

/* The files of one name. What is not there is an error when it is opened. */
static weft_status add_name(list *l, list_part *p, const char *name)
{
    struct stat st;
    const bool there = stat(name, &st) == 0;
    if (there && S_ISDIR(st.st_mode))
        return add_folder(l, p, name);
    return there || !strpbrk(name, "*?[") ? add_path(l, p, name) : add_pattern(l, p, name);
}

/* --- weights --- */

/* The number behind the last ':' of an item, in millionths; it is cut off then. 0: there is none.
 */
static weft_status take_weight(const list *l, char *item, uint64_t *weight)
{
    char *colon = strrchr(item, ':');
    *weight = 0;
    if (!colon || access(item, F_OK) == 0)
        return WEFT_OK;
    const char *at = colon + 1 + strspn(colon + 1, " \t");
    const size_t whole = strspn(at, "0123456789"), point = at[whole] == '.';
    const size_t rest = point ? strspn(at + whole + 1, "0123456789") : 0;
    if (whole + rest == 0 || at[whole + point + rest])
        return WEFT_OK; /* part of a name */
    const double value = strtod(at, NULL);
    if (value <= 0 || value > MAX_WEIGHT || rest > DIGITS)
        return source_fail(l->host, WEFT_USAGE,
                           "%s: the weight %s: weights are above 0 and at most %u, with at most %u "
                           "digits behind the point; a set that is not wanted is left out",
                           l->key, at, MAX_WEIGHT, DIGITS);
    uint64_t part = 0;
    for (size_t i = 0; i < DIGITS; i++)
        part = part * 10 + (i < rest ? (uint64_t)(at[whole + 1 + i] - '0') : 0);
    *weight = strtoull(at, NULL, 10) * MILLION + part;
    *colon = 0;
    while (colon > item && (colon[-1] == ' ' || colon[-1] == '\t'))
        *--colon = 0;
    return WEFT_OK;
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static void reduce(list *l)
{
    uint64_t common = 0;
    for (uint32_t i = 0; i < l->nparts; i++)
        common = divisor(l->parts[i].weight, common);
    for (uint32_t i = 0; common && i < l->nparts; i++)
        l->parts[i].weight /= common;
}

/* --- the value --- */

/* An item with a weight is a part of its own; those without are one part. */
static weft_status add_item(list *l, char *item)
{
    uint64_t weight;
    weft_status st = take_weight(l, item, &weight);
    if (st != WEFT_OK)
        return st;
    if (l->nparts && !weight != !l->parts[0].weight)
        return source_fail(l->host, WEFT_USAGE,
                           "%s: some names have a weight (NAME:WEIGHT) and some have none: all are "
                           "one data set without weights, or each is one of a mixture",
                           l->key);
    if (l->nparts == LIST_PARTS)
        return source_fail(l->host, WEFT_USAGE, "%s: a mixture of more than %u data sets", l->key,
                           LIST_PARTS);
    if (weight || !l->nparts)
        l->parts[l->nparts++].weight = weight;
    return *item ? add_name(l, &l->parts[l->nparts - 1], item)
                 : source_fail(l->host, WEFT_USAGE, "%s: a name in the list of files is empty",
                               l->key);
}

weft_status list_read(const weft_host *host, const char *key, const char *value, list *out)
{
    list l = {.host = host, .key = key};
    char item[LIST_PATH];
    weft_status st = WEFT_OK;
    l.parts = (list_part *)weft_new(host, LIST_PARTS * sizeof *l.parts, &st);
    if (!l.parts)
        return st;
    if (strlen(value) < LIST_PATH && access(value, F_OK) == 0) {
        l.nparts = 1;
        st = add_name(&l, &l.parts[0], value);
    }
    for (uint32_t left = l.nparts ? 0 : source_names_count(value); st == WEFT_OK && left; left--)
        st = source_names_next(&value, item, sizeof item)
                 ? add_item(&l, item)
                 : source_fail(host, WEFT_USAGE,
                               "%s: a name in the list of files is longer than %u bytes", key,
                               LIST_PATH - 1);
    reduce(&l);
    if (st != WEFT_OK)
        list_free(&l);
    else
        *out = l;
    return st;
}

void list_free(list *l)
{
    for (uint32_t i = 0; l->host && i < l->nparts; i++) {
        for (uint32_t k = 0; k < l->parts[i].n; k++)
            (l->host->free)(l->host->ctx, l->parts[i].paths[k]);
        (l->host->free)(l->host->ctx, l->parts[i].paths);
    }
    if (l->host)
        (l->host->free)(l->host->ctx, l->parts);
    *l = (list){0};
}
