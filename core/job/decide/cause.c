/* job/decide/cause.c: see blame.h. */
#include "job/decide/cause.h"

#include <stdio.h>

static uint64_t hold_ms(uint32_t weight)
{
    switch (weight) {
    case BLAME_SURE: return 0;
    case BLAME_SECOND: return 300;
    default: return 100;
    }
}

void blame_add(blame *b, uint32_t rank, uint32_t weight, uint64_t now, const char *text)
{
    uint64_t due = now + hold_ms(weight);
    if (b->weight && b->due < due)
        due = b->due;
    if (weight > b->weight) {
        b->rank = rank;
        b->weight = weight;
        snprintf(b->text, sizeof b->text, "%s", text);
    }
    b->due = due;
}

bool blame_due(const blame *b, uint64_t now)
{
    return b->weight && now >= b->due;
}
