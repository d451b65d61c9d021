/* launch/vigil.c: see vigil.h. */
#include "launch/vigil.h"

#include <stdio.h>

#include "base/clock.h"

uint64_t launch_vigil_silence(launch_vigil *v, const launch_progress *p)
{
    uint32_t promised;
    v->clock.max = 2 * LAUNCH_VIGIL_MS;
    const uint64_t now = awake_look(&v->clock, clock_ms());
    const uint32_t signs = launch_progress_signs(p, &promised);
    const uint64_t max = signs ? promised + v->margin_ms : v->begin_ms;
    if (signs != v->signs || (signs ? !promised : !v->begin_ms))
        v->since = now;
    v->signs = signs;
    return now - v->since > max ? now - v->since : 0;
}

bool launch_vigil_frozen(launch_vigil *v, const launch_progress *p, char *text, size_t bytes)
{
    const uint64_t silence = launch_vigil_silence(v, p);
    if (silence)
        snprintf(text, bytes,
                 "all ranks are frozen: no sign of life for %.1f s; they were stopped, or a driver "
                 "or a file system holds them; run.frozen_after allows more",
                 (double)silence / 1000);
    return silence > 0;
}
