/* bpe.c: a byte-level BPE tokenizer, as GPT-2's, from its merges.txt.
 *
 * PCRE2 cuts a text into words by GPT-2's regular expression. A word is its bytes; the pair of
 * neighbours that comes first in merges.txt becomes one token everywhere in the word, again and
 * again until no pair is there. With room for fewer ids than a word has, the word ends where the
 * room does. Ids: the 256 bytes in the order of the alphabet below, what the merges make, in their
 * order, then <|endoftext|>. */
#define _GNU_SOURCE /* memmem */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <weft/data.h>

/* Bytes: of a token, of merges.txt, of a word (a longer one is cut), behind a word that can change
 * where it ends. */
enum { MAX_TOKEN = 1024, MAX_BYTES = 16 << 20, MAX_WORD = 4096, AHEAD = 16 };
#define SPECIAL "<|endoftext|>"
static const char pattern[] = "'(?:[stmd]|re|ve|ll)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                              "|\\s+(?!\\S)|\\s+";

typedef struct token { /* a place in weft_tokenizer.bytes */
    uint32_t at, bytes;
} token;
typedef struct pair { /* rank 0: an empty place of the table */
    int32_t left, right, to, rank;
} pair;

struct weft_tokenizer {
    const weft_host *host;
    pcre2_code *words;
    char *bytes;    /* of all tokens */
    token *tokens;  /* [vocab] */
    int32_t *names; /* hash table of tokens by their bytes: id + 1, or 0 */
    pair *pairs;    /* hash table of merges */
    uint32_t vocab, npairs, filled, mask;
    int32_t byte[256]; /* ids of single bytes */
    char identity[96];
};

/* --- merges.txt: a pair of tokens a line. Each byte of a token is written as a character:
 * printable ones of Latin-1 stand for themselves, the others for U+0100 on. --- */

typedef struct input {
    weft_tokenizer *t;
    const char *path, *at; /* at: in the line */
    uint64_t line;
    int16_t byte_of[324]; /* of a character; -1: it stands for none */
} input;

static weft_status bad(const input *in, weft_status code, const char *what)
{
    char text[512];
    snprintf(text, sizeof text, "acme.bpe: %.300s:%llu: %s", in->path, (unsigned long long)in->line,
             what);
    return (in->t->host->fail)(in->t->host->ctx, code, text);
}

static uint32_t hash(uint32_t h, const char *s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

/* The place of a token in the table of names. */
static int32_t *name(weft_tokenizer *t, const char *s, uint32_t n)
{
    uint32_t i = hash(2166136261u, s, n) & t->mask;
    for (; t->names[i]; i = (i + 1) & t->mask) {
        const token *k = &t->tokens[t->names[i] - 1];
        if (k->bytes == n && !memcmp(t->bytes + k->at, s, n))
            break;
    }
    return &t->names[i];
}

/* The id of a token, a new one if it is not there. */
static int32_t add(weft_tokenizer *t, const char *s, uint32_t n)
{
    int32_t *place = name(t, s, n);
    if (!*place) {
        t->tokens[t->vocab] = (token){t->filled, n};
        memcpy(t->bytes + t->filled, s, n);
        t->filled += n;
        *place = (int32_t)++t->vocab;
    }
    return *place - 1;
}

static pair *find(const weft_tokenizer *t, int32_t left, int32_t right)
{
    uint32_t i = ((uint32_t)left * 0x9e3779b1u ^ (uint32_t)right * 0x85ebca6bu) >> 7;
    for (i &= t->mask; t->pairs[i].rank; i = (i + 1) & t->mask)
        if (t->pairs[i].left == left && t->pairs[i].right == right)
            break;
    return &t->pairs[i];
}

/* Tables for what `bytes` of the file can hold, and the 256 bytes as the first tokens. */
static weft_status begin(input *in, uint64_t bytes)
{
    weft_tokenizer *t = in->t;
    const uint64_t max = bytes / 4 + 258; /* "a b\n" */
    uint64_t room = 2;
    weft_status st = WEFT_OK;
    int16_t next = 256;
    while (room <= 2 * max)
        room *= 2;
    t->names = weft_new(t->host, room * sizeof *t->names, &st);
    t->pairs = weft_new(t->host, room * sizeof *t->pairs, &st);
    t->tokens = weft_new(t->host, max * sizeof *t->tokens, &st);
    t->bytes = weft_new(t->host, bytes + 256 + sizeof SPECIAL, &st);
    t->mask = (uint32_t)room - 1;
    memset(in->byte_of, -1, sizeof in->byte_of);
    for (int16_t b = 0; b < 256; b++)
        in->byte_of[(b > 32 && b < 127) || (b > 160 && b != 173) ? b : next++] = b;
    for (int c = 0; st == WEFT_OK && c < 324; c++) {
        const char b = (char)in->byte_of[c];
        if (in->byte_of[c] >= 0)
            t->byte[(unsigned char)b] = add(t, &b, 1);
    }
    return st;
}

/* One token of a line: its bytes, or 0 where there is none. */
static uint32_t next_token(input *in, char *out, uint32_t room)
{
    uint32_t n = 0;
    for (; *in->at && !strchr(" \r\n", *in->at); in->at++, n++) {
        uint32_t c = (unsigned char)*in->at;
        if (c >= 0xc2 && c < 0xc6 && (in->at[1] & 0xc0) == 0x80)
            c = (c & 0x1f) << 6 | (unsigned char)(*++in->at & 0x3f);
        else if (c >= 0x80)
            return 0;
        if (n == room || c >= 324 || in->byte_of[c] < 0)
            return 0;
        out[n] = (char)in->byte_of[c];
    }
    return n;
}

static weft_status merge(input *in)
{
    weft_tokenizer *t = in->t;
    char s[MAX_TOKEN];
    const uint32_t left = next_token(in, s, MAX_TOKEN / 2);
    const int gap = left && *in->at == ' ';
    in->at += gap;
    const uint32_t right = gap ? next_token(in, s + left, MAX_TOKEN / 2) : 0;
    if (!right || (*in->at && strcmp(in->at, "\n") && strcmp(in->at, "\r\n")))
        return bad(in, WEFT_DATA,
                   "a line is two tokens in GPT-2's alphabet, of at most 512 bytes each, with a "
                   "space between them");
    const int32_t a = *name(t, s, left) - 1, b = *name(t, s + left, right) - 1;
    if (a < 0 || b < 0)
        return bad(in, WEFT_DATA, "a token of this merge is no byte, and no merge before makes it");
    pair *m = find(t, a, b);
    if (!m->rank)
        *m = (pair){a, b, add(t, s, left + right), (int32_t)++t->npairs};
    return WEFT_OK;
}

static weft_status read_merges(input *in, FILE *f)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    uint32_t digest = 2166136261u;
    struct stat info;
    weft_status st = WEFT_OK;
    if (fstat(fileno(f), &info) || !S_ISREG(info.st_mode) || info.st_size > MAX_BYTES)
        st = bad(in, WEFT_DATA, "it is not a file of at most 16 MiB");
    if (st == WEFT_OK)
        st = begin(in, (uint64_t)info.st_size);
    for (uint64_t all = 0; st == WEFT_OK && (n = getline(&line, &room, f)) > 0;) {
        in->line++;
        in->at = line;
        digest = hash(digest, line, (uint64_t)n);
        if ((all += (uint64_t)n) > (uint64_t)info.st_size || strlen(line) != (size_t)n)
            st = bad(in, WEFT_DATA, "it has a byte 0, or grows while it is read");
        else if (!strchr("\r\n", *line) && (in->line > 1 || strncmp(line, "#version", 8)))
            st = merge(in);
    }
    if (st == WEFT_OK && ferror(f))
        st = bad(in, WEFT_IO, "it cannot be read");
    if (st == WEFT_OK && *name(in->t, SPECIAL, sizeof SPECIAL - 1))
        st = bad(in, WEFT_DATA, "a merge makes " SPECIAL ", the name of another token");
    if (st == WEFT_OK)
        add(in->t, SPECIAL, sizeof SPECIAL - 1);
    snprintf(in->t->identity, sizeof in->t->identity, "bpe of %u tokens, %u merges %08x",
             in->t->vocab, in->t->npairs, digest);
    free(line);
    return st;
}

static weft_status load(weft_tokenizer *t, const char *path)
{
    input in = {.t = t, .path = path};
    FILE *f = fopen(path, "rb");
    if (!f)
        return bad(&in, errno == ENOMEM ? WEFT_NO_MEMORY : WEFT_USAGE, strerror(errno));
    const weft_status st = read_merges(&in, f);
    fclose(f);
    return st;
}

static void bpe_close(weft_tokenizer *t)
{
    if (!t)
        return;
    const weft_host *host = t->host;
    void *const own[] = {t->bytes, t->tokens, t->names, t->pairs, t};
    pcre2_code_free(t->words);
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++)
        (host->free)(host->ctx, own[i]);
}

static weft_status bpe_open(void *module, const weft_conf *conf, weft_tokenizer **out)
{
    const weft_host *host = (const weft_host *)module;
    weft_status st = WEFT_OK;
    weft_tokenizer *t = weft_new(host, sizeof *t, &st);
    if (!t)
        return st;
    int error;
    size_t place;
    t->host = host;
    t->words = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_MATCH_INVALID_UTF,
                             &error, &place, NULL);
    if (!t->words)
        st = (host->fail)(host->ctx, WEFT_NO_MEMORY, "acme.bpe: PCRE2 cannot compile its pattern");
    else
        pcre2_jit_compile(t->words, PCRE2_JIT_COMPLETE); /* without it matching is slower */
    if (st == WEFT_OK)
        st = load(t, conf->text(conf->ctx, "merges"));
    if (st != WEFT_OK)
        bpe_close(t);
    else
        *out = t;
    return st;
}

static weft_status bpe_info(weft_tokenizer *t, weft_tokenizer_info *out)
{
    const weft_tokenizer_info info = {.struct_size = sizeof info,
                                      .vocab = t->vocab,
                                      .begin = t->vocab, /* the last id, plus 1 */
                                      .end = t->vocab,
                                      .identity = t->identity};
    weft_give(out, &info);
    return WEFT_OK;
}

/* --- words --- */

/* A text that is being cut. A byte that is not UTF-8 is a word. */
typedef struct cut {
    const weft_tokenizer *t;
    pcre2_match_data *match;
    const char *text;
    uint64_t n; /* bytes */
    int last;
} cut;

/* Bytes of the word at `at`; 0: text that follows decides. */
static uint64_t next_word(const cut *c, uint64_t at)
{
    const uint64_t rest = c->n - at, max = rest < MAX_WORD + AHEAD ? rest : MAX_WORD + AHEAD;
    uint64_t len = 1;
    if (pcre2_match(c->t->words, (PCRE2_SPTR)c->text + at, max, 0, 0, c->match, NULL) > 0)
        len = pcre2_get_ovector_pointer(c->match)[1];
    if (len > MAX_WORD)
        for (len = MAX_WORD; len > 1 && (c->text[at + len] & 0xc0) == 0x80;)
            len--;
    return !c->last && len + AHEAD > rest ? 0 : len;
}

/* The ids of a word. */
static uint32_t encode_word(const weft_tokenizer *t, const char *s, uint64_t bytes, int32_t *ids)
{
    uint32_t n = (uint32_t)bytes;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = t->byte[(unsigned char)s[i]];
    for (;;) {
        const pair *best = NULL;
        for (uint32_t i = 0; i + 1 < n; i++) {
            const pair *m = find(t, ids[i], ids[i + 1]);
            if (m->rank && (!best || m->rank < best->rank))
                best = m;
        }
        if (!best)
            return n;
        uint32_t to = 0;
        for (uint32_t i = 0; i < n; to++) {
            const int both = i + 1 < n && ids[i] == best->left && ids[i + 1] == best->right;
            ids[to] = both ? best->to : ids[i];
            i += both ? 2 : 1;
        }
        n = to;
    }
}

/* --- the table --- */

static uint64_t find_special(const weft_encode_args *a, uint64_t from)
{
    const char *at = from < a->bytes && a->flags & WEFT_TEXT_SPECIAL
                         ? memmem(a->text + from, a->bytes - from, SPECIAL, sizeof SPECIAL - 1)
                         : NULL;
    return at ? (uint64_t)(at - a->text) : UINT64_MAX;
}

static void encode_text(cut *c, const weft_encode_args *a, uint64_t *used, uint64_t *n)
{
    uint64_t special = find_special(a, 0), bytes;
    while (*used < a->bytes && *n < a->room) {
        if (*used == special) {
            a->out[(*n)++] = (int32_t)c->t->vocab - 1;
            *used += sizeof SPECIAL - 1;
            special = find_special(a, *used);
            continue;
        }
        int32_t ids[MAX_WORD];
        c->n = special < a->bytes ? special : a->bytes;
        c->last = special < a->bytes || a->flags & WEFT_TEXT_LAST;
        if (!(bytes = next_word(c, *used)))
            return;
        const uint32_t count = encode_word(c->t, c->text + *used, bytes, ids);
        if (count > a->room - *n && *n)
            return;
        for (uint32_t i = 0; i < count && *n < a->room; i++) {
            a->out[(*n)++] = ids[i];
            *used += c->t->tokens[ids[i]].bytes;
        }
    }
}

static weft_status bpe_encode(weft_tokenizer *t, const weft_encode_args *args, uint64_t *used,
                              uint64_t *n)
{
    weft_encode_args a = {0};
    const uint32_t flags = WEFT_TEXT_LAST | WEFT_TEXT_SPECIAL;
    weft_status st = weft_check_args(t->host, args, sizeof *args, flags);
    if (st != WEFT_OK)
        return st;
    weft_take(&a, sizeof a, args);
    *used = *n = 0;
    cut c = {t, pcre2_match_data_create(1, NULL), a.text, a.bytes, 0};
    if (!c.match)
        return (t->host->fail)(t->host->ctx, WEFT_NO_MEMORY, "acme.bpe: no memory for a match");
    encode_text(&c, &a, used, n);
    pcre2_match_data_free(c.match);
    return WEFT_OK;
}

static weft_status bpe_decode(weft_tokenizer *t, const weft_decode_args *args, uint64_t *used,
                              uint64_t *bytes)
{
    weft_decode_args a = {0};
    weft_status st = weft_check_args(t->host, args, sizeof *args, 0);
    if (st != WEFT_OK)
        return st;
    weft_take(&a, sizeof a, args);
    for (*used = *bytes = 0; *used < a.n; ++*used) {
        const int32_t id = a.ids[*used];
        if (id < 0 || (uint32_t)id >= t->vocab)
            return (t->host->fail)(t->host->ctx, WEFT_USAGE,
                                   "decode(): an id is not below the vocabulary of acme.bpe");
        const token *k = &t->tokens[id];
        if (k->bytes > a.room - *bytes)
            break;
        memcpy(a.out + *bytes, t->bytes + k->at, k->bytes);
        *bytes += k->bytes;
    }
    return WEFT_OK;
}

static const weft_option merge_file = {.struct_size = sizeof merge_file,
                                       .type = WEFT_OPT_STRING,
                                       .key = "merges",
                                       .dflt = "merges.txt",
                                       .help = "file of the pairs that become one token, in order"};
static const weft_option *const options[] = {&merge_file, NULL};

static const weft_tokenizer_table table = {sizeof table, 0,          bpe_open,   bpe_close,
                                           bpe_info,     bpe_encode, bpe_decode, NULL};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.tokenizer/1",
                                         .name = "acme.bpe",
                                         .help = "byte-level BPE with the merges of GPT-2",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("com.acme.bpe", "2.0", "Apache-2.0", components, weft_open_host, NULL);
