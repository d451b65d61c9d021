/* doctor/checks/memory.c: memory, swap and overcommitment; huge pages; /dev/shm. */
#include "doctor/checks/checks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define MEMINFO "/proc/meminfo"
#define THP "/sys/kernel/mm/transparent_hugepage"

/* --- memory --- */

static void assess_swap(doctor *d, uint64_t total, uint64_t swap, uint64_t swap_free)
{
    if (swap_free > swap || swap - swap_free <= total / 50)
        return;
    doctor_add_finding(d, DOCTOR_NOTE, "%s of swap are in use", mem_size(swap - swap_free).text);
    doctor_add_reason(d, "The machine has run out of memory before. A rank with swapped pages "
                         "waits for the disk, and all others wait for it.");
    doctor_add_command(d,
                       "sudo swapoff -a && sudo swapon -a  # when `free` shows as much available");
}

static void assess_overcommit(doctor *d)
{
    int64_t mode;
    uint64_t limit, promised;
    if (!doctor_read_number(d, &mode, "/proc/sys/vm/overcommit_memory") || mode != 2)
        return;
    if (doctor_read_bytes(d, MEMINFO, "CommitLimit", &limit) &&
        doctor_read_bytes(d, MEMINFO, "Committed_AS", &promised))
        doctor_add_number(d, "promisable", limit > promised ? (int64_t)(limit - promised) : 0);
    doctor_add_finding(d, DOCTOR_WARNING,
                       "the kernel does not overcommit memory (overcommit_memory 2)");
    doctor_add_reason(d, "Reserved address space counts in full, used or not: GPU libraries and "
                         "mappings of large files fail while memory is free.");
    doctor_add_command(d, "sudo sysctl vm.overcommit_memory=0");
}

void doctor_check_memory(doctor *d)
{
    uint64_t total = 0, available = 0, swap = 0, swap_free = 0;
    if (!doctor_read_bytes(d, MEMINFO, "MemTotal", &total) ||
        !doctor_read_bytes(d, MEMINFO, "MemAvailable", &available)) {
        doctor_add_unknown(d, "not reported by the kernel");
        return;
    }
    bool swaps = doctor_read_bytes(d, MEMINFO, "SwapTotal", &swap) && swap &&
                 doctor_read_bytes(d, MEMINFO, "SwapFree", &swap_free);
    doctor_add_line(d, "%s, %s available, %s", mem_size(total).text, mem_size(available).text,
                    swaps ? "with swap" : "no swap");
    doctor_add_number(d, "total", (int64_t)total);
    doctor_add_number(d, "available", (int64_t)available);
    if (swaps)
        assess_swap(d, total, swap, swap_free);
    assess_overcommit(d);
}

/* --- huge pages --- */

static void assess_transparent(doctor *d, const char *own, const char *shared)
{
    if (!strcmp(own, "never")) {
        doctor_add_finding(d, DOCTOR_WARNING, "transparent huge pages are disabled");
        doctor_add_reason(d, "A step accesses gigabytes of arena. With pages of 4 KiB that causes "
                             "a TLB miss every 64 cache lines.");
        doctor_add_command(d, "echo madvise | sudo tee " THP "/enabled");
    }
    if (!strcmp(shared, "never") || !strcmp(shared, "deny")) {
        doctor_add_finding(d, DOCTOR_NOTE, "shared memory gets no huge pages (shmem_enabled is %s)",
                           shared);
        doctor_add_reason(d,
                          "Arenas that ranks of a machine map from each other are shared memory.");
        doctor_add_command(d, "echo advise | sudo tee " THP "/shmem_enabled");
    }
}

static void assess_reserved(doctor *d)
{
    uint64_t pages = 0, unused = 0, size = 0, total = 0;
    if (!doctor_read_bytes(d, MEMINFO, "HugePages_Total", &pages) || !pages ||
        !doctor_read_bytes(d, MEMINFO, "HugePages_Free", &unused) ||
        !doctor_read_bytes(d, MEMINFO, "Hugepagesize", &size) ||
        !doctor_read_bytes(d, MEMINFO, "MemTotal", &total) || !size || unused > UINT64_MAX / size)
        return;
    doctor_add_line(d, "%s reserved as huge pages, %s of it unused", mem_size(pages * size).text,
                    mem_size(unused * size).text);
    if (unused * size <= total / 20)
        return;
    doctor_add_finding(d, DOCTOR_NOTE, "%s of memory are reserved as huge pages that are unused",
                       mem_size(unused * size).text);
    doctor_add_reason(
        d, "weft uses transparent huge pages; reserved pages are not available to other programs.");
    doctor_add_command(d, "sudo sysctl vm.nr_hugepages=%llu", (unsigned long long)(pages - unused));
}

void doctor_check_huge_pages(doctor *d)
{
    char text[128], own[32] = "unknown", shared[32] = "unknown";
    if (doctor_read_text(d, text, sizeof text, THP "/enabled"))
        doctor_bracketed_word(text, own, sizeof own);
    if (doctor_read_text(d, text, sizeof text, THP "/shmem_enabled"))
        doctor_bracketed_word(text, shared, sizeof shared);
    doctor_add_line(d, "transparent: %s; of shared memory: %s", own, shared);
    if (!strcmp(own, "unknown") || !strcmp(shared, "unknown"))
        doctor_set_unknown(d);
    doctor_add_text(d, "transparent", "%s", own);
    doctor_add_text(d, "shared", "%s", shared);
    assess_transparent(d, own, shared);
    assess_reserved(d);
}

/* --- /dev/shm --- */

/* Of "tmpfs /dev/shm tmpfs rw,size=65536k 0 0" 64 MiB; false where no size is written. */
static bool size_written(const doctor *d, uint64_t *out)
{
    char line[1024];
    if (!doctor_read_line(d, "/proc/self/mounts", "tmpfs /dev/shm", line, sizeof line) &&
        !doctor_read_line(d, "/proc/self/mounts", "shm /dev/shm", line, sizeof line))
        return false;
    const char *at = strstr(line, "size=");
    if (!at || at[5] < '0' || at[5] > '9')
        return false;
    char *end;
    unsigned long long n = strtoull(at + 5, &end, 10);
    unsigned shift = *end == 'k' ? 10 : *end == 'm' ? 20 : *end == 'g' ? 30 : 0;
    if (n > UINT64_MAX >> shift)
        return false;
    *out = n << shift;
    return true;
}

void doctor_check_shared(doctor *d)
{
    uint64_t size = 0, unused = 0;
    struct statvfs s;
    bool known = size_written(d, &size), gpus = doctor_fact_number(d, "gpus", "gpus", 0) > 0;
    if (!*d->root && statvfs("/dev/shm", &s) == 0) {
        known = true;
        size = (uint64_t)s.f_blocks * s.f_frsize;
        unused = (uint64_t)s.f_bavail * s.f_frsize;
        doctor_add_line(d, "/dev/shm: %s, %s free", mem_size(size).text, mem_size(unused).text);
    } else if (known) {
        doctor_add_line(d, "/dev/shm: %s", mem_size(size).text);
    } else {
        doctor_add_unknown(d, "/dev/shm: default size of half the memory, or absent");
    }
    if (!known)
        return;
    doctor_add_number(d, "size", (int64_t)size);
    if (size >= 512u << 20)
        return;
    doctor_add_finding(d, gpus ? DOCTOR_WARNING : DOCTOR_NOTE, "/dev/shm has only %s",
                       mem_size(size).text);
    doctor_add_reason(d, "weft's own arenas are not limited by it. NCCL and MPI put their buffers "
                         "there and end with a bus error when it is full.");
    doctor_add_command(d, "sudo mount -o remount,size=8G /dev/shm  # docker run --shm-size=8g ...");
}
