/* table.c: see table.h. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

bool hf_table_make(hf_table *t, uint64_t keys)
{
    uint64_t room = 16;
    while (room < 2 * keys + 2)
        room *= 2;
    t->at = room > UINT32_MAX ? NULL : malloc(room * sizeof *t->at);
    if (!t->at)
        return false;
    for (uint64_t i = 0; i < room; i++)
        t->at[i] = (hf_key){.id = -1};
    t->mask = (uint32_t)room - 1;
    return true;
}

void hf_table_free(hf_table *t)
{
    free(t->at);
    *t = (hf_table){0};
}

static hf_key *place(const hf_table *t, const char *s, uint64_t n, uint32_t hash)
{
    uint32_t i = hash & t->mask;
    for (; t->at[i].id >= 0; i = (i + 1) & t->mask)
        if (t->at[i].hash == hash && t->at[i].n == n && !memcmp(t->at[i].at, s, n))
            break;
    return &t->at[i];
}

void hf_table_set(hf_table *t, const char *s, uint32_t n, int32_t id)
{
    const uint32_t hash = table_hash(s, n);
    *place(t, s, n, hash) = (hf_key){s, n, hash, id};
}

int32_t hf_table_get(const hf_table *t, const char *s, uint64_t n)
{
    return t->at ? place(t, s, n, table_hash(s, n))->id : -1;
}

static int by_bytes(const void *x, const void *y)
{
    const hf_key *a = x, *b = y;
    const uint32_t n = a->n < b->n ? a->n : b->n;
    const int c = n ? memcmp(a->at, b->at, n) : 0;
    if (c)
        return c;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    return a->hash < b->hash ? -1 : a->hash > b->hash;
}

/* What is to be made into the children of a node: the keys [low, high) agree in `depth` bytes. */
typedef struct range {
    uint32_t node, low, high, depth;
} range;

static void children(hf_trie *t, const hf_key *keys, range r, range *todo, uint32_t *ntodo)
{
    const uint32_t first = t->n;
    for (; r.low < r.high && keys[r.low].n == r.depth; r.low++)
        t->at[r.node].id = keys[r.low].id;
    while (r.low < r.high) {
        const char byte = keys[r.low].at[r.depth];
        uint32_t end = r.low;
        while (end < r.high && keys[end].at[r.depth] == byte)
            end++;
        t->at[t->n] = (hf_node){.byte = (uint8_t)byte, .id = -1};
        todo[(*ntodo)++] = (range){t->n++, r.low, end, r.depth + 1};
        r.low = end;
    }
    t->at[r.node].child = first;
    t->at[r.node].n = (uint16_t)(t->n - first);
}

bool hf_trie_make(hf_trie *t, hf_key *keys, uint32_t n)
{
    uint64_t nodes = 1;
    *t = (hf_trie){0};
    for (uint32_t i = 0; i < n; i++)
        nodes += keys[i].n;
    if (nodes > INT32_MAX || nodes == 1)
        return nodes == 1;
    range *todo = malloc(nodes * sizeof *todo);
    t->at = malloc(nodes * sizeof *t->at);
    if (todo && t->at) {
        uint32_t ntodo = 1;
        qsort(keys, n, sizeof *keys, by_bytes);
        uint32_t low = 0;
        while (low < n && !keys[low].n)
            low++;
        t->at[0] = (hf_node){.id = -1};
        t->n = 1;
        todo[0] = (range){0, low, n, 0};
        for (uint32_t i = 0; i < ntodo; i++)
            children(t, keys, todo[i], todo, &ntodo);
        for (uint32_t i = 0; i < t->at[0].n; i++)
            t->root[t->at[t->at[0].child + i].byte] = t->at[0].child + i;
    }
    const bool made = todo && t->at;
    free(todo);
    return made;
}

void hf_trie_free(hf_trie *t)
{
    free(t->at);
    *t = (hf_trie){0};
}
