/* doctor/checks/memory.c: memory, swap and overcommitment; huge pages; /dev/shm. */
#include "doctor/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define MEMINFO "/proc/meminfo"
#define THP "/sys/kernel/mm/transparent_hugepage"

/* --- memory --- */

static void judge_swap(doctor *d, uint64_t total, uint64_t swap, uint64_t swap_free)
{
    if (swap_free > swap || swap - swap_free <= total / 50)
        return;
    tell(d, DOCTOR_NOTE, "%s of swap are in use", tell_size(swap - swap_free));
    tell_why(d, "The machine has run out of memory before. A rank whose pages have been written "
                "out waits for the disk, and all others wait for it.");
    tell_type(d, "sudo swapoff -a && sudo swapon -a  # when `free` shows as much available");
}

static void judge_overcommit(doctor *d)
{
    int64_t mode;
    uint64_t limit, promised;
    if (!see_number(d, &mode, "/proc/sys/vm/overcommit_memory") || mode != 2)
        return;
    if (see_bytes(d, MEMINFO, "CommitLimit", &limit) &&
        see_bytes(d, MEMINFO, "Committed_AS", &promised))
        tell_number(d, "promisable", limit > promised ? (int64_t)(limit - promised) : 0);
    tell(d, DOCTOR_WARNING, "the kernel promises no more memory than it has (overcommit_memory 2)");
    tell_why(d, "Address space that is reserved and hardly used counts in full: GPU libraries and "
                "large files that are mapped are refused while memory is free.");
    tell_type(d, "sudo sysctl vm.overcommit_memory=0");
}

void check_memory(doctor *d)
{
    uint64_t total = 0, available = 0, swap = 0, swap_free = 0;
    if (!see_bytes(d, MEMINFO, "MemTotal", &total) ||
        !see_bytes(d, MEMINFO, "MemAvailable", &available)) {
        tell_line(d, "the kernel does not say");
        return;
    }
    bool swaps = see_bytes(d, MEMINFO, "SwapTotal", &swap) && swap &&
                 see_bytes(d, MEMINFO, "SwapFree", &swap_free);
    tell_line(d, "%s, %s available, %s", tell_size(total), tell_size(available),
              swaps ? "with swap" : "no swap");
    tell_number(d, "total", (int64_t)total);
    tell_number(d, "available", (int64_t)available);
    if (swaps)
        judge_swap(d, total, swap, swap_free);
    judge_overcommit(d);
}

/* --- huge pages --- */

static void judge_transparent(doctor *d, const char *own, const char *shared)
{
    if (!strcmp(own, "never")) {
        tell(d, DOCTOR_WARNING, "transparent huge pages are switched off");
        tell_why(d, "Arenas are gigabytes that every step walks through: in pages of 4 KiB the CPU "
                    "looks up an address every 64 cache lines.");
        tell_type(d, "echo madvise | sudo tee " THP "/enabled");
    }
    if (!strcmp(shared, "never") || !strcmp(shared, "deny")) {
        tell(d, DOCTOR_NOTE, "shared memory gets no huge pages (shmem_enabled is %s)", shared);
        tell_why(d, "An arena that ranks of a machine map of each other is shared memory.");
        tell_type(d, "echo advise | sudo tee " THP "/shmem_enabled");
    }
}

static void judge_reserved(doctor *d)
{
    uint64_t pages = 0, unused = 0, size = 0, total = 0;
    if (!see_bytes(d, MEMINFO, "HugePages_Total", &pages) || !pages ||
        !see_bytes(d, MEMINFO, "HugePages_Free", &unused) ||
        !see_bytes(d, MEMINFO, "Hugepagesize", &size) ||
        !see_bytes(d, MEMINFO, "MemTotal", &total) || !size || unused > UINT64_MAX / size)
        return;
    tell_line(d, "%s reserved as huge pages, %s of it unused", tell_size(pages * size),
              tell_size(unused * size));
    if (unused * size <= total / 20)
        return;
    tell(d, DOCTOR_NOTE, "%s of memory are set aside as huge pages that nobody uses",
         tell_size(unused * size));
    tell_why(d, "weft takes transparent ones; reserved pages are missing to everything else.");
    tell_type(d, "sudo sysctl vm.nr_hugepages=%llu", (unsigned long long)(pages - unused));
}

void check_huge_pages(doctor *d)
{
    char text[128], own[32] = "unknown", shared[32] = "unknown";
    if (see_text(d, text, sizeof text, THP "/enabled"))
        see_choice(text, own, sizeof own);
    if (see_text(d, text, sizeof text, THP "/shmem_enabled"))
        see_choice(text, shared, sizeof shared);
    tell_line(d, "transparent: %s; of shared memory: %s", own, shared);
    tell_fact(d, "transparent", "%s", own);
    tell_fact(d, "shared", "%s", shared);
    judge_transparent(d, own, shared);
    judge_reserved(d);
}

/* --- /dev/shm --- */

/* Of "tmpfs /dev/shm tmpfs rw,size=65536k 0 0" 64 MiB; false where no size is written. */
static bool size_written(const doctor *d, uint64_t *out)
{
    char line[1024];
    if (!see_line(d, "/proc/self/mounts", "tmpfs /dev/shm", line, sizeof line) &&
        !see_line(d, "/proc/self/mounts", "shm /dev/shm", line, sizeof line))
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

void check_shared(doctor *d)
{
    uint64_t size = 0, unused = 0;
    struct statvfs s;
    bool known = size_written(d, &size), gpus = see_fact(d, "gpus", "gpus", 0) > 0;
    if (!*d->root && statvfs("/dev/shm", &s) == 0) {
        known = true;
        size = (uint64_t)s.f_blocks * s.f_frsize;
        unused = (uint64_t)s.f_bavail * s.f_frsize;
        tell_line(d, "/dev/shm: %s, %s free", tell_size(size), tell_size(unused));
    } else if (known) {
        tell_line(d, "/dev/shm: %s", tell_size(size));
    } else {
        tell_line(d, "/dev/shm: as the kernel has it, half of memory, or not there");
    }
    if (!known)
        return;
    tell_number(d, "size", (int64_t)size);
    if (size >= 512u << 20)
        return;
    tell(d, gpus ? DOCTOR_WARNING : DOCTOR_NOTE, "/dev/shm has %s only", tell_size(size));
    tell_why(d, "weft's own arenas are not bounded by it. Collectives between GPUs of a machine, "
                "and MPI, put their buffers there, and end with a bus error when it is full.");
    tell_type(d, "sudo mount -o remount,size=8G /dev/shm  # docker run --shm-size=8g ...");
}
