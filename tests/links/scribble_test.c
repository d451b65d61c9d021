/* A peer that shares memory with us may write anything into it. Whatever it writes, a link neither
 * crashes nor touches memory beyond its messages; at worst the connection fails. */
#include "rig.h"
#include <test.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 200000, GUARD = 4096 };

typedef struct shared {
    uint64_t *at;
    uint64_t words;
} shared;

/* The memory that links of this process share: every memfd that is open here. */
static int find_shared(shared out[], int cap)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; (e = readdir(d)) && n < cap;) {
        char path[300], target[64] = "";
        struct stat s;
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        if (readlink(path, target, sizeof target - 1) < 0 || strncmp(target, "/memfd:", 7) != 0 ||
            fstat((int)strtol(e->d_name, NULL, 10), &s) != 0 || s.st_size < 4096)
            continue;
        void *p = mmap(NULL, (size_t)s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED,
                       (int)strtol(e->d_name, NULL, 10), 0);
        if (p != MAP_FAILED)
            out[n++] = (shared){p, (uint64_t)s.st_size / 8};
    }
    closedir(d);
    return n;
}

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33 ^ *seed;
}

/* Values that a reader might trip over: huge, off by little, sign bits, plausible cell numbers. */
static uint64_t nasty(uint64_t *seed, uint64_t was)
{
    switch (next(seed) % 7) {
    case 0: return 0;
    case 1: return UINT64_MAX;
    case 2: return was + next(seed) % 3 - 1;
    case 3: return 1ull << next(seed) % 64;
    case 4: return 0xffff000000000000u | next(seed) % 16;
    case 5: return (next(seed) % 70) << 48 | next(seed) % 16;
    default: return next(seed);
    }
}

/* Words that hold something get more than their share, for most of the memory is empty. */
static void scribble(const shared *s, uint64_t *seed)
{
    for (int i = 0; i < 400; i++) {
        uint64_t w = next(seed) % (i % 2 ? s->words : s->words < 40000 ? s->words : 40000);
        for (int k = 0; k < 64 && s->at[w] == 0 && i % 4 != 0; k++)
            w = (w + 1) % s->words;
        __atomic_store_n(&s->at[w], nasty(seed, s->at[w]), __ATOMIC_RELAXED);
    }
}

/* Aimed: where a word tells the length of the message, lie in the words beside it. */
static void forge(const shared *s, uint64_t bytes, uint64_t *seed)
{
    for (uint64_t w = 1; w + 1 < s->words; w++)
        if (s->at[w] == bytes)
            for (int side = -1; side <= 1; side += 2)
                if (next(seed) % 3 == 0 && s->at[w + (uint64_t)side] < 1 << 20)
                    s->at[w + (uint64_t)side] = bytes + (next(seed) % 2 ? next(seed) >> 40 : 1);
}

static void one_life(uint64_t seed)
{
    static uint8_t out[BYTES], in[GUARD + BYTES + GUARD];
    node n[2];
    shared s[4];
    uint64_t a, b;
    nodes_up(n, 2);
    memset(in, 0x77, sizeof in);
    pair p = {node_connect(&n[0], &n[1], 0), node_connect(&n[1], &n[0], 0)};
    int shares = find_shared(s, 4);
    assert_true(shares >= 2);
    if (seed % 4 == 0) /* before the directories are read */
        scribble(&s[seed % 2], &seed);
    for (int i = 0; i < 4; i++) {
        (void)!rig_table->ready(p.a);
        (void)!rig_table->ready(p.b);
    }
    for (int round = 0; round < 6; round++) {
        uint64_t bytes = next(&seed) % 3 ? next(&seed) % 57 : next(&seed) % BYTES;
        (void)!rig_table->send(p.a, out, bytes, NULL, 0);
        (void)!rig_table->recv(p.b, in + GUARD, bytes, NULL, 0);
        for (int i = 0; i < 5; i++) {
            (void)!rig_table->progress(p.a, 0, &a, &b);
            for (int k = 0; k < shares && i == 0 && bytes > 64 && seed % 2 == 0; k++)
                forge(&s[k], bytes, &seed);
            if (i == 2)
                scribble(&s[next(&seed) % (uint64_t)shares], &seed);
            (void)!rig_table->progress(p.b, 0, &a, &b);
        }
        (void)!rig_table->wait(n[1].link, 0, 10, 0);
    }
    for (int i = 0; i < GUARD; i++)
        assert_true(in[i] == 0x77 && in[GUARD + BYTES + i] == 0x77);
    node_close(&n[0]);
    node_close(&n[1]);
    for (int i = 0; i < shares; i++)
        munmap(s[i].at, s[i].words * 8);
}

TEST(test_scribbled_memory)
{
    if ((rig_table->caps & WEFT_LINK_MAP) == 0)
        skip();
    for (uint64_t seed = 0; seed < 200; seed++)
        one_life(seed * 77);
}

int main(int argc, char **argv)
{
    return rig_main(argc, argv);
}
