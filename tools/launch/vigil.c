/* launch/vigil.c: see vigil.h. */
#include "launch/vigil.h"

#include "base/clock.h"

#define MARGIN_MS 1000u  /* the other ranks, which go by the same limit, give a rank up first */
#define BEGIN_MS 600000u /* until the first sign: plugins and data from a slow file system */

uint64_t launch_vigil_silence(launch_vigil *v, const job_progress *p)
{
    uint32_t promised;
    v->clock.most = 2 * LAUNCH_VIGIL_MS;
    const uint64_t now = awake_look(&v->clock, clock_ms());
    const uint32_t signs = job_progress_signs(p, &promised);
    const uint64_t most = !signs ? BEGIN_MS : (uint64_t)promised + MARGIN_MS;
    if (signs != v->signs || (signs && !promised))
        v->since = now;
    v->signs = signs;
    return now - v->since > most ? now - v->since : 0;
}
