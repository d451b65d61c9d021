/* claim.c: detects cores that other processes are pinned to.
 *
 * A process that pins threads to a core holds an exclusive flock() on the core's folder in /sys, so
 * jobs on one machine take different cores. The kernel drops the lock when the process ends, and no
 * file is written. A separate network namespace has its own /sys: processes in different containers
 * do not see each other's locks. */
#include "cpu.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

/* True when the core is locked for this process, or when the system has no such locks. *fd: the
 * lock's descriptor, or -1 for none. */
static bool claim(hwloc_const_cpuset_t core, int *fd)
{
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d", hwloc_bitmap_first(core));
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return true;
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    const bool taken = errno == EWOULDBLOCK;
    close(*fd);
    *fd = -1;
    return !taken;
}

void cpu_claim_drop(int *lock, int32_t n)
{
    for (int32_t k = 0; k < n; k++)
        if (lock[k] >= 0)
            close(lock[k]);
}

bool cpu_claim_cores(hwloc_cpuset_t *core, int32_t n, int32_t first, int32_t want, int32_t *chosen,
                     int *lock)
{
    int32_t have = 0;
    for (int32_t i = 0; i < n && have < want; i++) {
        const int32_t k = (first + i) % n;
        if (claim(core[k], &lock[have]))
            chosen[have++] = k;
    }
    if (have == want)
        return true;
    cpu_claim_drop(lock, have);
    return false;
}
