/* chunk.c: places where a text may be cut without changing an id, whatever stands before and
 * behind.
 *
 *   space   between a letter or digit and a space that a letter follows, where no normalization
 *           changes them (utf8_is_gap()). A word ends there in every tokenizer whose words begin at
 *           spaces
 *   line    behind a newline that follows no blank, and that a letter, a digit or no ASCII follows:
 *           known of patterns that take blanks by themselves. (Of several blanks such a pattern
 * leaves the last one to what follows, if something does.)
 *
 * Whether they hold follows from the stages of the tokenizer, once, when it is opened. Where
 * nothing is known of a stage there are no such places, and a text is encoded as a whole. */
#include "hf.h"
#include "utf8.h"

/* What is known on the way through the stages. */
typedef struct known {
    char space[8];    /* what a space of the text has become */
    uint32_t n;       /* its bytes */
    bool holds, line; /* so far nothing looks across a place */
    bool ends;        /* a word ends there */
    bool line_ends;
} known;

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static void become(known *k, const char *s, uint32_t n)
{
    k->holds = k->holds && n && n <= sizeof k->space;
    k->n = k->holds ? n : 1;
    memcpy(k->space, k->holds ? s : " ", k->n);
}

static bool is_space(const known *k)
{
    return k->n == 1 && *k->space == ' ';
}

/* s has what a space has become, with something else in front of it. */
static bool has_inner_space(const known *k, const char *s, uint32_t n)
{
    bool other = false;
    for (uint32_t i = 0; i + k->n <= n;) {
        const bool space = !memcmp(s + i, k->space, k->n);
        if (space && other)
            return true;
        other |= !space;
        i += space ? k->n : 1;
    }
    return false;
}

/* A literal that no letter, digit or space is in does not match at a place. */
static bool is_apart(const known *k, const char *s, uint32_t n)
{
    bool apart = true;
    for (uint32_t i = 0, bytes; i < n; i += bytes) {
        const uint32_t c = utf8_next(s + i, &bytes);
        apart &= c >= 0x80 ? !utf8_is_firm(c) : !is_alnum(s[i]) && c != ' ' && c != '\n';
    }
    for (uint32_t i = 0; i + k->n <= n; i++)
        apart &= memcmp(s + i, k->space, k->n) != 0;
    return apart;
}

static bool is_space_literal(const hf_pattern *p)
{
    return !p->code && p->n == 1 && *p->literal == ' ';
}

static void pass_normalizer(known *k, const hf_normalizer *z)
{
    char mark[4];
    switch (z->kind) {
    case HF_REPLACE:
        k->line = false;
        if (is_space_literal(&z->pattern) && is_space(k))
            become(k, z->text, z->n);
        else if (z->pattern.sync != HF_SYNC_RUNS &&
                 (z->pattern.code || !is_apart(k, z->pattern.literal, z->pattern.n)))
            k->holds = false;
        return;
    case HF_BYTES:
        become(k, mark, utf8_write(utf8_of_byte(' '), mark));
        k->line = false;
        return;
    case HF_STRIP:
    case HF_PRECOMPILED:
    case HF_NMT:
    case HF_BERT: k->line = false; return;
    default: return;
    }
}

static void pass_split(known *k, const hf_splitter *z)
{
    const hf_pattern *p = &z->pattern;
    const bool keeps = z->invert ? z->behavior == HF_REMOVED : z->behavior == HF_ISOLATED;
    if (p->sync == HF_SYNC_ENDS && keeps && is_space(k)) {
        k->ends = k->line_ends = true;
    } else if (is_space_literal(p) && is_space(k) && !z->invert &&
               z->behavior != HF_WITH_PREVIOUS) {
        k->ends = true;
        k->line = false;
    } else if (p->sync != HF_SYNC_APART &&
               (p->code || z->invert || !is_apart(k, p->literal, p->n))) {
        k->holds = k->line = false;
    }
}

static void pass_splitter(known *k, const hf_splitter *z)
{
    char mark[4];
    switch (z->kind) {
    case HF_SPLIT: pass_split(k, z); return;
    case HF_WHITESPACE:
    case HF_WHITESPACE_SPLIT:
        if (is_space(k))
            k->ends = k->line_ends = true;
        return;
    case HF_METASPACE:
        if (is_space(k))
            become(k, z->mark, z->n);
        else
            k->holds &= k->n == z->n && !memcmp(k->space, z->mark, z->n);
        k->ends |= z->cuts;
        return;
    case HF_BYTE_CHARS:
        if (is_space(k))
            become(k, mark, utf8_write(utf8_of_byte(' '), mark));
        return;
    default: return;
    }
}

/* Where no stage ends a word there, a model of merges may: none makes a token across it. */
static void pass_model(known *k, const weft_tokenizer *t)
{
    k->line &= k->line_ends;
    if (k->ends || !k->holds)
        return;
    k->holds = !t->unigram && !t->whole_words && !t->prefix && !t->suffix &&
               hf_table_get(&t->keys, k->space, k->n) >= 0;
    for (uint32_t i = 0; k->holds && i <= t->keys.mask; i++)
        if (t->keys.at[i].id >= 0)
            k->holds = !has_inner_space(k, t->keys.at[i].at, t->keys.at[i].n);
}

static void pass_added(known *k, const hf_added *a)
{
    const known plain = {.space = " ", .n = 1};
    const char *newline = memchr(a->text, '\n', a->n);
    k->holds &= !a->rstrip && !has_inner_space(&plain, a->text, a->n) &&
                !has_inner_space(k, a->text, a->n) && !(a->single && *a->text == ' ');
    k->line &= !a->rstrip && !a->lstrip && !(newline && newline != a->text + a->n - 1);
}

void hf_chunks_settle(weft_tokenizer *t)
{
    known k = {.space = " ", .n = 1, .holds = true, .line = true};
    for (uint32_t i = 0; i < t->nnormalizers; i++)
        pass_normalizer(&k, &t->normalizer[i]);
    for (uint32_t i = 0; i < t->nsplitters; i++)
        pass_splitter(&k, &t->splitter[i]);
    pass_model(&k, t);
    for (uint32_t i = 0; i < t->nadded; i++)
        pass_added(&k, &t->added[i]);
    t->cuts_space = k.holds;
    t->cuts_line = k.line;
}

/* The character that ends at s[n] is no blank. */
static bool ends_word(const char *s, uint64_t n)
{
    uint64_t i = n - 1;
    while (i && n - i < 4 && ((unsigned char)s[i] & 0xc0) == 0x80)
        i--;
    return utf8_valid(s + i, n - i) == n - i && !utf8_is_space(utf8_next(s + i, &(uint32_t){0}));
}

/* A place behind a newline: what follows is not ASCII or may begin a word, and is no blank. */
static bool begins_line(const char *s, uint64_t rest)
{
    const unsigned char c = (unsigned char)*s;
    if (c < 0x80)
        return is_alnum(*s);
    return utf8_valid(s, rest < 4 ? rest : 4) && !utf8_is_space(utf8_next(s, &(uint32_t){0}));
}

uint64_t hf_cut(const weft_tokenizer *t, const char *text, uint64_t bytes)
{
    if (!t->cuts_space && !t->cuts_line)
        return 0;
    for (uint64_t i = bytes; i-- > 1;) {
        if (t->cuts_space && utf8_is_gap(text, bytes, i))
            return i;
        if (t->cuts_line && text[i - 1] == '\n' && i > 1 && ends_word(text, i - 1) &&
            begins_line(text + i, bytes - i))
            return i;
    }
    return 0;
}
