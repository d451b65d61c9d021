/* base/time/pressure.c: see pressure.h. The kernel's count is the total of "some" in
 * /proc/pressure/cpu. */
#include "base/time/pressure.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define LOOK_MS 20u /* between two looks at the kernel's count */

static _Atomic uint64_t looked, waited, counted; /* ms, the kernel's count in us, ms */

/* Microseconds; 0: not known. */
static uint64_t waits(void)
{
    char text[256];
    const int fd = open("/proc/pressure/cpu", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    uint64_t total = 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, "total=");
    for (at = at ? at + strlen("total=") : ""; *at >= '0' && *at <= '9'; at++)
        total = total * 10 + (uint64_t)(*at - '0');
    return total;
}

uint64_t pressure_ms(void)
{
    uint64_t last = looked; /* before the clock: else another thread's look may be after `now` */
    const uint64_t now = clock_ms();
    if (last && now - last < LOOK_MS)
        return counted;
    if (!atomic_compare_exchange_strong(&looked, &last, now))
        return counted; /* another thread does it */
    const uint64_t total = waits(), before = waited, passed = last ? now - last : 0;
    const uint64_t lost = last && total > before ? (total - before) / 1000 : 0;
    waited = last ? before + lost * 1000 : total; /* what is left counts the next time */
    const uint64_t least = passed / PRESSURE_MAX;
    counted += lost + least < passed ? passed - lost : least;
    return counted;
}
