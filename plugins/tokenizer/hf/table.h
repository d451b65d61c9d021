/* table.h: strings by their bytes: a hash table for whole ones, a trie for those that begin a text.
 */
#ifndef HF_TABLE_H
#define HF_TABLE_H

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t table_hash(const char *s, uint64_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ n;
    for (; n >= 8; n -= 8, s += 8) {
        uint64_t x;
        __builtin_memcpy(&x, s, 8);
        h = (h ^ x) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    uint64_t x = 0;
    for (uint64_t i = 0; i < n; i++)
        x |= (uint64_t)(unsigned char)s[i] << 8 * i;
    h = (h ^ x) * 0xc4ceb9fe1a85ec53u;
    return (uint32_t)(h ^ h >> 32);
}

typedef struct hf_key {
    const char *at; /* the caller's, and lives as long as the table */
    uint32_t n, hash;
    int32_t id; /* -1: an empty place */
} hf_key;

typedef struct hf_table {
    hf_key *at;
    uint32_t mask;
} hf_table;

bool hf_table_make(hf_table *t, uint64_t keys); /* false: no memory */
void hf_table_free(hf_table *t);
void hf_table_set(hf_table *t, const char *s, uint32_t n, int32_t id); /* replaces an equal key */
int32_t hf_table_get(const hf_table *t, const char *s, uint64_t n);    /* -1: it is not there */

/* Children of a node stand one after the other, in the order of their bytes. */
typedef struct hf_node {
    uint32_t child;
    uint16_t n;
    uint8_t byte;
    int32_t id; /* of the string that ends here; -1: none */
} hf_node;

typedef struct hf_trie {
    hf_node *at; /* [0] the root; NULL: it is empty */
    uint32_t n;
    uint32_t root[256]; /* node of the first byte; 0: none */
} hf_trie;

/* Of `n` keys, whose order is changed; of equal ones the last by `hash`, a number of the caller,
 * counts. Empty keys are left out. */
bool hf_trie_make(hf_trie *t, hf_key *keys, uint32_t n);
void hf_trie_free(hf_trie *t);

/* The child of `node` for a byte; 0: there is none. */
static inline uint32_t hf_trie_step(const hf_trie *t, uint32_t node, unsigned char byte)
{
    if (!node)
        return t->root[byte];
    const hf_node *p = &t->at[node];
    uint32_t low = p->child, high = p->child + p->n;
    while (high - low > 4) {
        const uint32_t middle = low + (high - low) / 2;
        if (t->at[middle].byte <= byte)
            low = middle;
        else
            high = middle;
    }
    for (; low < high; low++)
        if (t->at[low].byte == byte)
            return low;
    return 0;
}

#endif
