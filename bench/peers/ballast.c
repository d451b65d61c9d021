/* bench/peers/ballast.c: gives a rank memory that the kernel has to free when it dies.
 *
 *   cc -O2 -shared -fPIC -o ballast.so ballast.c
 *   LD_PRELOAD=ballast.so BALLAST_MIB=5120 weft train -n 3 job.ini
 *
 * Each process that has RANK maps and touches BALLAST_MIB, in pages of 4 KiB: they take longest. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((constructor)) static void take_ballast(void)
{
    const char *mib = getenv("BALLAST_MIB");
    const size_t bytes = getenv("RANK") && mib ? strtoull(mib, NULL, 10) << 20 : 0;
    if (bytes == 0)
        return;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || madvise(at, bytes, MADV_NOHUGEPAGE) ||
        madvise(at, bytes, MADV_POPULATE_WRITE)) {
        perror("ballast");
        _Exit(1);
    }
}
