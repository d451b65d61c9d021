/* added.c: added tokens in a text: from left to right the longest that begins at a place. */
#include "hf.h"
#include "utf8.h"

typedef struct scan {
    hf_work *w;
    const hf_piece *in;
    const char *s;
    bool normalized, special;
    uint32_t from; /* what is in front of it is done */
} scan;

static void put_piece(scan *k, uint32_t from, uint32_t to, int32_t id)
{
    hf_pieces *out = &k->w->other;
    if (from == to || !HF_CAPACITY(k->w, out, 1))
        return;
    hf_piece p = {.at = k->in->at + from, .n = to - from, .id = id};
    p.inside = !from && k->in->inside;
    p.first = !from && k->in->first;
    out->at[out->n++] = p;
}

/* The character that ends at s[at]. */
static uint32_t char_before(const char *s, uint32_t at, uint32_t *n)
{
    uint32_t i = at - 1;
    while (i && ((unsigned char)s[i] & 0xc0) == 0x80)
        i--;
    *n = at - i;
    return utf8_next(s + i, &(uint32_t){0});
}

static bool stands_alone(const scan *k, uint32_t from, uint32_t to)
{
    uint32_t n;
    return (!from || !utf8_is_word(char_before(k->s, from, &n))) &&
           (to == k->in->n || !utf8_is_word(utf8_next(k->s + to, &n)));
}

static void take(scan *k, const hf_added *a, uint32_t from, uint32_t to)
{
    uint32_t n;
    if ((a->special && !k->special) || (a->single && !stands_alone(k, from, to)))
        return;
    while (a->lstrip && from > k->from && utf8_is_space(char_before(k->s, from, &n)))
        from -= n;
    while (a->rstrip && to < k->in->n && utf8_is_space(utf8_next(k->s + to, &n)))
        to += n;
    if (from < k->from) /* spaces that the token before has taken */
        from = k->from;
    if (to <= from)
        return;
    put_piece(k, k->from, from, -1);
    put_piece(k, from, to, a->id);
    k->from = to;
}

/* The longest added token at s[i]: its number, or -1. */
static int32_t longest(const hf_trie *t, const char *s, uint32_t i, uint32_t n, uint32_t *bytes)
{
    int32_t best = -1;
    uint32_t node = 0;
    for (uint32_t j = i; j < n && (node = hf_trie_step(t, node, (unsigned char)s[j])); j++)
        if (t->at[node].id >= 0) {
            best = t->at[node].id;
            *bytes = j + 1 - i;
        }
    return best;
}

void hf_find_added(hf_work *w, const hf_piece *in, bool normalized, bool special)
{
    const weft_tokenizer *t = w->t;
    const hf_trie *trie = normalized ? &t->normal : &t->plain;
    const uint8_t *starts = normalized ? t->starts_normal : t->starts_plain;
    scan k = {w, in, w->text + in->at, normalized, special, 0};
    for (uint32_t i = 0; trie->at && i < in->n;) {
        uint32_t bytes = 0;
        int32_t number = -1;
        while (i < in->n && !starts[(unsigned char)k.s[i]])
            i++;
        if (i < in->n)
            number = longest(trie, k.s, i, in->n, &bytes);
        if (number >= 0)
            take(&k, &t->added[number], i, i + bytes);
        i += number >= 0 ? bytes : 1;
    }
    put_piece(&k, k.from, in->n, -1);
}
