/* fuzz/must.h: what a fuzzer asserts. */
#ifndef MUST_H
#define MUST_H

#include <stdlib.h>

static inline void must(int holds)
{
    if (!holds)
        abort();
}

#endif
