/* base/lengthy.c: see lengthy.h. */
#include "base/lengthy.h"

#include "base/clock.h"
#include "base/log.h"

#define EVERY_MS 10000
#define EVERY_MS_OTHERS 60000

void lengthy_begin(lengthy *l, const char *what, uint64_t all)
{
    *l = (lengthy){.what = what, .all = all};
    l->every_ms = log_rank() > 0 ? EVERY_MS_OTHERS : EVERY_MS;
    l->due_ms = clock_ms() + l->every_ms;
}

void lengthy_add(lengthy *l, uint64_t bytes)
{
    l->done += bytes;
    const uint64_t now = clock_ms();
    if (now < l->due_ms)
        return;
    l->due_ms = now + l->every_ms;
    const double mib = 1.0 / 1048576;
    log_line(WEFT_LOG_INFO, "%s: %.0f of %.0f MiB", l->what, (double)l->done * mib,
             (double)l->all * mib);
}
