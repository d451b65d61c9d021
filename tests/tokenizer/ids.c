/* ids.c: what a tokenizer plugin makes of texts, for scripts.
 *
 *   tokenizer_ids PLUGIN.so KEY VALUE ...
 *
 * opens the plugin's tokenizer with these options and answers requests on standard input until it
 * ends. All numbers are little endian and have 32 bits:
 *
 *   request   what ('e' encode, 'p' encode in pieces, 'c' encode the parts between places of
 *             cut(), 'd' decode, 'i' info), flags, bytes of a piece or a part, bytes that
 *             follow, bytes
 *   answer    status of weft, bytes that follow, bytes: ids, text, the tokenizer's numbers and
 *             identity, or the sentence of a failure
 *
 * If it cannot be opened the sentence is the only answer. */
#include <dlfcn.h>
#include <weft/data.h>

#include "../data/lone.h"

typedef struct tokenizer {
    const weft_tokenizer_table *table;
    weft_tokenizer *t;
} tokenizer;

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "tokenizer_ids: %s: %s\n", what, lone_why);
    exit(2);
}

static void answer(weft_status st, const void *bytes, uint64_t n)
{
    const uint32_t head[2] = {(uint32_t)st, (uint32_t)n};
    fwrite(head, sizeof head, 1, stdout);
    fwrite(bytes, 1, n, stdout);
    fflush(stdout);
}

/* The text in pieces of `step` bytes; what a call leaves stands in front of the next piece. */
static weft_status encode(const tokenizer *k, const char *text, uint64_t bytes, uint32_t flags,
                          uint64_t step, int32_t *ids, uint64_t room, uint64_t *n)
{
    uint64_t at = 0, end = 0;
    for (*n = 0; at < bytes;) {
        uint64_t used = 0, made = 0;
        end = end + step < bytes ? end + step : bytes;
        weft_encode_args a = {.struct_size = sizeof a,
                              .flags = (flags & ~WEFT_TEXT_FIRST) |
                                       (at ? 0 : flags & WEFT_TEXT_FIRST) |
                                       (end == bytes ? WEFT_TEXT_LAST : 0),
                              .text = text + at,
                              .bytes = end - at,
                              .out = ids + *n,
                              .room = room - *n};
        const weft_status st = k->table->encode(k->t, &a, &used, &made);
        if (st != WEFT_OK)
            return st;
        must(used <= end - at && made <= room - *n, "encode() answers too much");
        must(used || end < bytes, "encode() uses nothing");
        at += used;
        *n += made;
    }
    return WEFT_OK;
}

/* The text in parts that end at the last place within `step` bytes; without one they are longer. */
static weft_status encode_parts(const tokenizer *k, const char *text, uint64_t bytes,
                                uint32_t flags, uint64_t step, int32_t *ids, uint64_t room,
                                uint64_t *n)
{
    weft_status st = WEFT_OK;
    *n = 0;
    for (uint64_t at = 0, part, made; st == WEFT_OK && at < bytes; at += part, *n += made) {
        uint64_t want = step;
        made = part = 0;
        for (; st == WEFT_OK && !part && want < bytes - at; want *= 2)
            st = k->table->cut(k->t, text + at, want, &part);
        must(part <= want, "cut() answers too much");
        part = part ? part : bytes - at;
        if (st == WEFT_OK)
            st = encode(k, text + at, part, at ? flags & ~WEFT_TEXT_FIRST : flags, part, ids + *n,
                        room - *n, &made);
    }
    return st;
}

static weft_status decode(const tokenizer *k, const int32_t *ids, uint64_t n, uint32_t flags,
                          char *out, uint64_t room, uint64_t *bytes)
{
    *bytes = 0;
    for (uint64_t at = 0; at < n;) {
        uint64_t used = 0, made = 0;
        weft_decode_args a = {.struct_size = sizeof a,
                              .flags = at ? 0 : flags,
                              .ids = ids + at,
                              .n = n - at,
                              .out = out + *bytes,
                              .room = room - *bytes};
        const weft_status st = k->table->decode(k->t, &a, &used, &made);
        if (st != WEFT_OK)
            return st;
        must(used && used <= n - at && made <= a.room, "decode() answers too much or nothing");
        at += used;
        *bytes += made;
    }
    return WEFT_OK;
}

static void serve(const tokenizer *k, const uint32_t head[4], const char *bytes)
{
    const uint64_t n = head[3], room = head[0] == 'd' ? n / 4 * 1024 + 1024 : 32 * n + 64;
    const uint64_t step = head[0] != 'e' && head[2] ? head[2] : UINT32_MAX;
    uint64_t made = 0;
    weft_status st = WEFT_OK;
    lone_clear();
    if (head[0] == 'i') {
        weft_tokenizer_info info = {.struct_size = sizeof info};
        char line[1024];
        st = k->table->info(k->t, &info);
        snprintf(line, sizeof line, "%u %u %u %u %s", info.flags, info.vocab, info.begin, info.end,
                 info.identity);
        answer(st, line, strlen(line));
        return;
    }
    char *out = malloc(room * (head[0] == 'd' ? 1 : 4));
    must(out != NULL, "no memory");
    if (head[0] == 'd')
        st = decode(k, (const int32_t *)(const void *)bytes, n / 4, head[1], out, room, &made);
    else if (head[0] == 'c')
        st = encode_parts(k, bytes, n, head[1], step, (int32_t *)(void *)out, room, &made);
    else
        st = encode(k, bytes, n, head[1], step, (int32_t *)(void *)out, room, &made);
    if (st != WEFT_OK)
        answer(st, lone_why, strlen(lone_why));
    else
        answer(st, out, made * (head[0] == 'd' ? 1 : 4));
    free(out);
}

int main(int argc, char **argv)
{
    void *module, *object = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    must(object != NULL, argc > 1 ? dlerror() : "name a plugin");
    weft_plugin_entry_fn entry;
    *(void **)&entry = dlsym(object, "weft_plugin_entry");
    must(entry && entry()->open(&lone_host, &module) == WEFT_OK, "open()");
    const char *pairs[32] = {"begin", "auto", "end", "auto"};
    for (int i = 2; i < argc && i < 24; i++)
        pairs[i - 2] = argv[i];
    const char *fill[] = {"begin", "auto", "end", "auto"};
    for (int i = argc - 2, j = 0; j < 4 && i < 30; i++, j++)
        pairs[i] = fill[j];
    const weft_conf conf = lone_conf(pairs);
    tokenizer k = {.table = entry()->components[0]->table};
    const weft_status st = k.table->open(module, &conf, &k.t);
    if (st != WEFT_OK) {
        answer(st, lone_why, strlen(lone_why));
        return 3;
    }
    uint32_t head[4];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        char *bytes = malloc(head[3] + 1u);
        must(bytes && fread(bytes, 1, head[3], stdin) == head[3], "a request is cut off");
        serve(&k, head, bytes);
        free(bytes);
    }
    k.table->close(k.t);
    if (entry()->close)
        entry()->close(module);
    must(!lone_blocks, "memory of the host is left");
    return 0;
}
