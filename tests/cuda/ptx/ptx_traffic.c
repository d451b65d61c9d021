/* ptx_traffic.c: see ptx.h. What a warp asks of memory, and what has to be moved for it.
 *
 * Global memory moves in sectors of 32 bytes: a load or store of a warp costs as many as its lanes
 * touch, however few bytes of each. Shared memory has 32 banks of 4 bytes: lanes that want
 * different words of one bank wait for each other, a quarter or half of a warp at a time where each
 * has 16 or 8 bytes. */
#include "ptx.h"

enum { SECTOR = 32, BANKS = 32, WORD = 4 };

/* Adds x to a set of n; true: it was not there. */
static bool add(uint64_t *set, int *n, uint64_t x)
{
    for (int i = *n; i-- > 0;)
        if (set[i] == x)
            return false;
    set[(*n)++] = x;
    return true;
}

/* Sectors that the lanes touch, and as many as their bytes would fill. */
static void count_sectors(const uint64_t *at, int lanes, uint64_t bytes, struct ptx_moved *m)
{
    uint64_t sectors[PTX_LANES], places[PTX_LANES];
    int n = 0, different = 0;
    for (int l = 0; l < lanes; l++) {
        add(sectors, &n, at[l] / SECTOR); /* no more than one: they are aligned */
        add(places, &different, at[l]);
    }
    m->moved += (uint64_t)n;
    m->asked += ((uint64_t)different * bytes + SECTOR - 1) / SECTOR;
}

/* How often the busiest bank is asked, and how often the lanes have to be served in parts. */
static void count_banks(const uint64_t *at, int lanes, uint64_t bytes, struct ptx_moved *m)
{
    const int part = bytes <= WORD ? PTX_LANES : (int)(PTX_LANES * WORD / bytes);
    for (int from = 0; from < lanes; from += part) {
        uint64_t words[4 * PTX_LANES];
        int n = 0, of[BANKS] = {0}, max = 1;
        for (int l = from; l < lanes && l < from + part; l++)
            for (uint64_t w = at[l] / WORD; w * WORD < at[l] + bytes; w++)
                if (add(words, &n, w) && ++of[w % BANKS] > max)
                    max = of[w % BANKS];
        m->moved += (uint64_t)max;
        m->asked++;
    }
}

const struct ptx_traffic *ptx_traffic_of(const char *kernel)
{
    const struct kernel *k = kernel_find(kernel);
    return k ? ((const struct ptx_kernel *)k)->traffic : NULL;
}

void ptx_count_traffic(const struct ptx_place *p)
{
    const struct ptx_instr *i = p->instr;
    const uint64_t bytes = (uint64_t)(i->kind.bits / 8 * i->vector);
    struct ptx_traffic *t = p->kernel->traffic;
    uint64_t at[PTX_LANES];
    int lanes = 0;
    for (int l = 0; l < PTX_LANES; l++)
        if (p->lanes >> l & 1)
            at[lanes++] = p->rows[i->in[0]][l] + (uint64_t)i->offset;
    if (i->space == PTX_GLOBAL)
        count_sectors(at, lanes, bytes, i->op == ptx_ld ? &t->loads : &t->stores);
    else if (i->space == PTX_SHARED)
        count_banks(at, lanes, bytes, &t->banks);
}
