/* unigram.c: the ids of a word with the largest sum of scores, found from left to right.
 *
 * A character for which there is no token costs 10 more than the worst token; unknown neighbours
 * are one token, or their bytes. The order in which candidates are compared is the library's, since
 * of equal sums the first counts. */
#include "hf.h"
#include "utf8.h"

#define PENALTY 10.0

static void offer(hf_best *b, double score, int32_t id, uint32_t from)
{
    if (b->from == UINT32_MAX || score > b->score)
        *b = (hf_best){score, id, from};
}

static void find_best(hf_work *w, const char *s, uint32_t n)
{
    const weft_tokenizer *t = w->t;
    hf_best *best = w->best.at;
    for (uint32_t i = 0; i <= n; i++)
        best[i] = (hf_best){0, 0, UINT32_MAX};
    for (uint32_t i = 0, bytes; i < n; i += bytes) {
        const double here = best[i].score;
        bool single = false;
        uint32_t node = 0;
        bytes = utf8_bytes((unsigned char)s[i]);
        for (uint32_t j = i; j < n && (node = hf_trie_step(&t->trie, node, (unsigned char)s[j]));
             j++) {
            const int32_t id = t->trie.at[node].id;
            if (id < 0)
                continue;
            offer(&best[j + 1], t->score[id] + here, id, i);
            single |= j + 1 - i == bytes;
        }
        if (!single)
            offer(&best[i + bytes], t->least - PENALTY + here, t->unknown, i);
    }
}

/* The id of a part of the word that the path has as one token. */
static void put_part(hf_work *w, const char *s, uint32_t n)
{
    const weft_tokenizer *t = w->t;
    const int32_t id = hf_table_get(&t->keys, s, n);
    bool bytes = id < 0 && t->fallback;
    for (uint32_t i = 0; bytes && i < n; i++)
        bytes = t->byte_id[(unsigned char)s[i]] >= 0;
    if (!bytes)
        hf_put_id(w, id >= 0 ? id : t->unknown);
    for (uint32_t i = 0; bytes && i < n; i++)
        hf_put_id(w, t->byte_id[(unsigned char)s[i]]);
}

static void encode(hf_work *w, const char *s, uint32_t n)
{
    w->best.n = 0;
    if (!HF_CAPACITY(w, &w->best, (uint64_t)n + 1))
        return;
    find_best(w, s, n);
    /* The path from its end; turned around in place: `from` of a node becomes where it ends. */
    hf_best *best = w->best.at;
    uint32_t end = n, next = UINT32_MAX;
    while (end) {
        const uint32_t from = best[end].from;
        best[end].from = next;
        next = end;
        end = from;
    }
    for (uint32_t at = 0, to = next; to != UINT32_MAX;) {
        uint32_t after = best[to].from;
        if (best[to].id == w->t->unknown)
            while (after != UINT32_MAX && best[after].id == w->t->unknown) {
                to = after;
                after = best[to].from;
            }
        put_part(w, s + at, to - at);
        at = to;
        to = after;
    }
}

/* Short words are looked up among those that came before. */
void hf_unigram(hf_work *w, const char *s, uint32_t n)
{
    if (n > HF_CACHE_KEY) {
        encode(w, s, n);
        return;
    }
    const uint32_t hash = table_hash(s, n);
    hf_cached *c = w->cache + (uint64_t)(hash & (HF_CACHE_SETS - 1)) * HF_CACHE_WAYS;
    if (c->hash == hash && c->n == n && !memcmp(c->key, s, n)) {
        for (uint32_t i = 0; i < c->ids; i++)
            hf_put_id(w, c->id[i]);
        return;
    }
    const uint64_t before = w->ids.n;
    encode(w, s, n);
    const uint64_t made = w->ids.n - before;
    if (w->failed || made > HF_CACHE_IDS)
        return;
    *c = (hf_cached){.hash = hash, .n = (uint8_t)n, .ids = (uint8_t)made};
    memcpy(c->key, s, n);
    memcpy(c->id, w->ids.at + before, made * sizeof *w->ids.at);
}
