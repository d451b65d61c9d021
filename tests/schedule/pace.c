/* tests/schedule/pace.c: see pace.h. */
#include "pace.h"

#define CAUTION 16 /* how slow: of so many chances, those that are not used */

uint32_t pace_draw(pace *p, uint32_t n)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((p->random >> 33) % n);
}

void pace_begin(pace *p, uint64_t seed, uint32_t flags, uint32_t n)
{
    *p = (pace){.flags = flags, .n = n, .random = seed * 2 + 1, .seed = seed};
    for (uint32_t i = 0; i < n && flags; i++)
        p->slow[i] = pace_draw(p, CAUTION);
    p->starved = flags ? pace_draw(p, n) : 0;
}

uint32_t pace_first(pace *p)
{
    if (!(p->flags & PACE_BURSTS))
        return pace_draw(p, p->n);
    if (p->burst == 0) {
        p->burst = 1 + pace_draw(p, 64);
        p->first = pace_draw(p, p->n);
    }
    p->burst--;
    return p->first;
}

int pace_holds(pace *p, uint32_t rank)
{
    if (p->eager)
        return 0;
    if ((p->flags & PACE_STARVED) && rank == p->starved)
        return 1;
    return (p->flags & PACE_RANKS) && pace_draw(p, CAUTION) < p->slow[rank];
}

int pace_holds_way(pace *p, uint32_t from, uint32_t to)
{
    if (p->eager || !(p->flags & PACE_LINKS))
        return 0;
    uint64_t own = (p->seed + from * 64 + to + 1) * 0x9e3779b97f4a7c15u;
    return pace_draw(p, CAUTION) < (own >> 40) % (CAUTION + 1); /* some are always held */
}

int pace_buffers(pace *p)
{
    return (p->flags & PACE_BUFFERS) && pace_draw(p, 2);
}
