/* launch/hosts/list.c: see list.h. */
#include "launch/hosts/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#define FILE_MAX (1u << 20)
#define SLOTS_MAX 1024u
#define BLANKS " \t\r"

typedef struct place { /* of a line, for messages */
    const char *path;
    uint32_t line;
} place;

/* What ssh may be given: no blank, no quote, nothing that a shell or ssh would read as an option.
 */
static bool is_name(const char *text, size_t n)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  ".-_@:%[]+";
    bool ok = n && n < HOST_NAME_MAX_BYTES && *text != '-';
    for (size_t i = 0; ok && i < n; i++)
        ok = text[i] && strchr(allowed, text[i]);
    return ok;
}

static weft_status take_slots(const place *p, const char *word, size_t n, uint32_t *out)
{
    uint32_t v = 0;
    for (size_t i = 0; i < n && v <= SLOTS_MAX; i++)
        v = word[i] >= '0' && word[i] <= '9' ? v * 10 + (uint32_t)(word[i] - '0') : SLOTS_MAX + 1;
    if (!n || !v || v > SLOTS_MAX)
        return err_fail(WEFT_USAGE, "%s:%u: 'slots=%.*s': 1 to %u ranks can be on a host", p->path,
                        p->line, n > 40 ? 40 : (int)n, word, SLOTS_MAX);
    *out = v;
    return WEFT_OK;
}

/* An address of version 6 may be in brackets, which ssh and the resolver do not know. A name may
 * have USER@ before it. */
static void drop_brackets(char *name)
{
    char *open = strchr(name, '['), *last = name + strlen(name) - 1;
    if (!open || (open != name && open[-1] != '@') || *last != ']' || !strchr(open, ':'))
        return;
    memmove(open, open + 1, (size_t)(last - open - 1));
    last[-1] = 0;
}

static weft_status take_name(const place *p, const char *what, const char *word, size_t n,
                             char out[HOST_NAME_MAX_BYTES])
{
    if (!is_name(word, n))
        return err_fail(WEFT_USAGE,
                        "%s:%u: '%.*s' is not %s: letters, digits and .-_@:%%[]+, not '-' first",
                        p->path, p->line, n > 60 ? 60 : (int)n, word, what);
    memcpy(out, word, n);
    out[n] = 0;
    drop_brackets(out);
    return WEFT_OK;
}

/* One word of a line; the first is the name. */
static weft_status take_word(const place *p, const char *word, size_t n, launch_host *h)
{
    if (!*h->name)
        return take_name(p, "the name of a host", word, n, h->name);
    if (n >= 6 && !strncmp(word, "slots=", 6))
        return take_slots(p, word + 6, n - 6, &h->slots);
    if (n >= 5 && !strncmp(word, "addr=", 5))
        return take_name(p, "an address", word + 5, n - 5, h->addr);
    return err_fail(WEFT_USAGE, "%s:%u: '%.*s' is neither slots=N nor addr=ADDRESS", p->path,
                    p->line, n > 60 ? 60 : (int)n, word);
}

/* `line` has `n` bytes without its end. */
static weft_status take_line(const place *p, const char *line, size_t n, launch_host_list *out)
{
    launch_host h = {.slots = 1, .line = p->line};
    const char *comment = memchr(line, '#', n), *end = comment ? comment : line + n;
    weft_status st = WEFT_OK;
    for (const char *at = line; st == WEFT_OK && at < end;) {
        const char *word = at;
        while (at < end && !strchr(BLANKS, *at))
            at++;
        if (at > word)
            st = take_word(p, word, (size_t)(at - word), &h);
        while (at < end && *at && strchr(BLANKS, *at))
            at++;
    }
    if (st != WEFT_OK || !*h.name)
        return st;
    for (uint32_t i = 0; i < out->n; i++)
        if (!strcmp(out->at[i].name, h.name))
            return err_fail(WEFT_USAGE,
                            "%s:%u: %s is in line %u already: give it slots=N for more ranks",
                            p->path, p->line, h.name, out->at[i].line);
    if (out->n == HOSTS_MAX)
        return err_fail(WEFT_USAGE, "%s:%u: a job has at most %u hosts", p->path, p->line,
                        HOSTS_MAX);
    out->at[out->n++] = h;
    return WEFT_OK;
}

weft_status launch_host_list_parse(const char *path, const char *text, size_t bytes,
                                   launch_host_list *out)
{
    place p = {.path = path};
    weft_status st = WEFT_OK;
    uint32_t lines = 1;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n' && lines < HOSTS_MAX;
    *out = (launch_host_list){.at = mem_alloc(lines * sizeof *out->at)};
    if (memchr(text, 0, bytes))
        st = err_fail(WEFT_USAGE, "%s has a zero byte: it is no hosts file", path);
    for (size_t at = 0; st == WEFT_OK && at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        const size_t n = end ? (size_t)(end - text) - at : bytes - at;
        p.line++;
        st = take_line(&p, text + at, n, out);
        at += n + 1;
    }
    if (st == WEFT_OK && !out->n)
        st = err_fail(WEFT_USAGE, "%s names no host: write a line `NAME slots=N` for each", path);
    if (st != WEFT_OK)
        launch_host_list_free(out);
    return st;
}

weft_status launch_host_list_read(const char *path, launch_host_list *out)
{
    *out = (launch_host_list){0};
    FILE *f = fopen(path, "re");
    if (!f)
        return err_fail_errno(WEFT_USAGE, "cannot read the hosts file %s", path);
    char *text = mem_alloc(FILE_MAX + 1);
    const size_t n = fread(text, 1, FILE_MAX + 1, f);
    weft_status st = WEFT_OK;
    if (ferror(f))
        st = err_fail_errno(WEFT_USAGE, "cannot read the hosts file %s", path);
    else if (n > FILE_MAX)
        st = err_fail(WEFT_USAGE, "%s is larger than 1 MiB: it is no hosts file", path);
    else
        st = launch_host_list_parse(path, text, n, out);
    fclose(f);
    free(text);
    return st;
}

uint32_t launch_host_list_slots(const launch_host_list *l)
{
    uint32_t slots = 0;
    for (uint32_t i = 0; i < l->n; i++)
        slots += l->at[i].lost ? 0 : l->at[i].slots;
    return slots;
}

void launch_host_list_assign(launch_host_list *l, uint32_t ranks)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        launch_host *h = &l->at[i];
        const uint32_t left = ranks - first;
        h->first = first;
        h->count = h->lost ? 0 : h->slots < left ? h->slots : left;
        first += h->count;
    }
}

void launch_host_list_free(launch_host_list *l)
{
    free(l->at);
    *l = (launch_host_list){0};
}
