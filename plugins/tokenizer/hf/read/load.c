/* read/load.c: reads a tokenizer.json. Fields that are unknown are refused by name, since an
 * unknown stage could change ids. `truncation` and `padding` belong to a call of the library, not
 * to the text, and are left out. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "read.h"

#define MAX_BYTES (256u << 20)
#define MAX_VALUES (4u << 20) /* of JSON; 262,144 tokens and their merges are 2 million */

static weft_status fail(const weft_tokenizer *t, weft_status code, const char *why)
{
    char text[512];
    const bool moved = access(t->path, F_OK) != 0;
    snprintf(text, sizeof text, "cannot read the tokenizer %.280s: %.120s%s", t->path, why,
             moved ? "; if it was moved, give tokenizer.file=FILE" : "");
    return (t->host->fail)(t->host->ctx, code, text);
}

/* The whole file; NULL with *st. */
static char *read_file(const weft_tokenizer *t, uint64_t *bytes, weft_status *st)
{
    struct stat info;
    const int fd = open(t->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info)) {
        *st = fail(t, errno == ENOMEM ? WEFT_NO_MEMORY : WEFT_USAGE, strerror(errno));
    } else if (!S_ISREG(info.st_mode) || info.st_size > MAX_BYTES) {
        *st = fail(t, WEFT_USAGE, "it is not a file of at most 256 MiB");
    } else {
        char *text = malloc((uint64_t)info.st_size + 1);
        ssize_t got = 1;
        for (*bytes = 0;
             text && got > 0 && *bytes<(uint64_t)info.st_size; *bytes += got> 0 ? (uint64_t)got : 0)
            got = read(fd, text + *bytes, (uint64_t)info.st_size - *bytes);
        if (!text || got < 0)
            *st = fail(t, text ? WEFT_IO : WEFT_NO_MEMORY, strerror(errno));
        close(fd);
        if (*st == WEFT_OK)
            return text;
        free(text);
        return NULL;
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* Jansson makes a tree of the file, which may take a hundred bytes for each byte of it. */
static bool is_modest(const char *text, uint64_t bytes)
{
    uint64_t values = 0;
    bool quoted = false;
    for (uint64_t i = 0; i < bytes; i++) {
        quoted ^= text[i] == '"';
        i += quoted && text[i] == '\\';
        values += !quoted && i < bytes && (text[i] == ',' || text[i] == '{' || text[i] == '[');
    }
    return values <= MAX_VALUES;
}

/* The tree of the file; NULL with *st. */
static json_t *parse(const reader *r, const char *text, uint64_t bytes, weft_status *st)
{
    json_error_t error = {.line = -1};
    if (!is_modest(text, bytes)) {
        *st = read_bad(r, "", "it has more than %u values", MAX_VALUES);
        return NULL;
    }
    json_t *top = json_loadb(text, bytes, JSON_ALLOW_NUL, &error);
    if (!top && (error.line < 0 || json_error_code(&error) == json_error_out_of_memory))
        *st = read_no_memory(r);
    else if (!top)
        *st = read_bad(r, "", "line %d, column %d: it is not JSON: %.150s", error.line,
                       error.column, error.text);
    return top;
}

static weft_status read_all(const reader *r, const json_t *top, const weft_conf *conf)
{
    static const char *const fields[] = {
        "version",       "truncation",     "padding", "added_tokens", "normalizer",
        "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
    const char *version = json_string_value(json_object_get(top, "version"));
    weft_status st = read_known(r, top, fields);
    if (st == WEFT_OK && version && strcmp(version, "1.0"))
        st = read_bad(r, "version", "it is \"%.20s\"; \"1.0\" is supported", version);
    if (st == WEFT_OK)
        st = read_normalizers(r, json_object_get(top, "normalizer"));
    if (st == WEFT_OK)
        st = read_splitters(r, json_object_get(top, "pre_tokenizer"));
    if (st == WEFT_OK)
        st = read_model(r, json_object_get(top, "model"));
    if (st == WEFT_OK)
        st = read_added(r, json_object_get(top, "added_tokens"));
    if (st == WEFT_OK)
        st = read_ends(r, json_object_get(top, "post_processor"), conf);
    return st == WEFT_OK ? read_decoders(r, json_object_get(top, "decoder")) : st;
}

static void identify(weft_tokenizer *t, const char *text, uint64_t bytes)
{
    uint64_t digest = 1469598103934665603u;
    for (uint64_t i = 0; i < bytes; i++)
        digest = (digest ^ (unsigned char)text[i]) * 1099511628211u;
    snprintf(t->identity, sizeof t->identity,
             "hf %s of %" PRIu32 " ids, content %016" PRIx64 ", begin %" PRId64 ", end %" PRId64,
             t->unigram ? "unigram" : "bpe", t->vocab, digest, (int64_t)t->begin - 1,
             (int64_t)t->end - 1);
}

weft_status hf_load(weft_tokenizer *t, const weft_conf *conf)
{
    weft_status st = WEFT_OK;
    uint64_t bytes = 0;
    const char *path = conf->text(conf->ctx, "file");
    reader r = {.t = t};
    t->path = read_copy(path, strlen(path));
    char *text = t->path ? read_file(t, &bytes, &st) : NULL;
    if (!text)
        return st != WEFT_OK ? st : read_no_memory(&r);
    t->names = malloc(bytes + 1);
    json_t *top = t->names ? parse(&r, text, bytes, &st) : NULL;
    if (!t->names)
        st = read_no_memory(&r);
    else if (top)
        st = read_all(&r, top, conf);
    json_decref(top);
    if (st == WEFT_OK)
        st = hf_decode_settle(t);
    if (st == WEFT_OK) {
        hf_chunks_settle(t);
        identify(t, text, bytes);
    }
    free(text);
    return st;
}

void hf_unload(weft_tokenizer *t)
{
    for (uint32_t i = 0; i < t->nadded; i++)
        free(t->added[i].text);
    for (int i = 0; i < HF_MAX_STAGES; i++) {
        hf_pattern_free(&t->normalizer[i].pattern);
        hf_pattern_free(&t->splitter[i].pattern);
        hf_pattern_free(&t->decoder[i].from);
        free(t->normalizer[i].text);
        free(t->normalizer[i].trie);
        free(t->normalizer[i].blob);
        free(t->decoder[i].to);
    }
    while (t->idle) {
        hf_work *next = t->idle->next;
        hf_work_free(t->idle);
        t->idle = next;
    }
    if (t->raw_names || t->keys.at != t->by_name.at)
        hf_table_free(&t->keys);
    hf_table_free(&t->by_name);
    hf_trie_free(&t->trie);
    hf_trie_free(&t->plain);
    hf_trie_free(&t->normal);
    void *const own[] = {t->path,   t->names, t->name,    t->raw_names,  t->merges, t->prefix,
                         t->suffix, t->score, t->decodes, t->decoded.at, t->added};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        free(own[i]);
}
