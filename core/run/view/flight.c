/* run/view/flight.c: see flight.h. */
#include "run/view/flight.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* An empty ring, mapped, under a name that is not `path`. */
static weft_status map_new(const char *temp, const char *path, void **map)
{
    unlink(temp); /* of a rank that was killed here */
    int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return err_fail_errno(WEFT_IO, "the flight record %s cannot be made", path);
    /* Blocks are taken now: a full disk is an error here, not a SIGBUS in a step. */
    int full = posix_fallocate(fd, 0, (off_t)FLIGHT_BYTES);
    *map = full ? MAP_FAILED : mmap(NULL, FLIGHT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int error = full ? full : errno;
    close(fd);
    if (*map != MAP_FAILED)
        return WEFT_OK;
    errno = error;
    return err_fail_errno(WEFT_IO, "no room for the flight record %s", path);
}

/* Renames a new file into place: a process that has mapped the old one keeps it intact. */
static weft_status make_ring(const char *path, void **map)
{
    char temp[4096 + 8];
    snprintf(temp, sizeof temp, "%s.new", path);
    weft_status st = map_new(temp, path, map);
    if (st == WEFT_OK && rename(temp, path)) {
        st = err_fail_errno(WEFT_IO, "the flight record %s cannot be made", path);
        munmap(*map, FLIGHT_BYTES);
    }
    if (st != WEFT_OK)
        unlink(temp);
    return st;
}

weft_status run_flight_open(const char *out_dir, uint32_t rank, uint32_t ranks, run_flight *out)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/flight", out_dir);
    struct stat info;
    if (mkdir(path, 0777) && errno != EEXIST)
        return err_fail_errno(WEFT_IO, "the folder %s cannot be made", path);
    if (lstat(path, &info) || !S_ISDIR(info.st_mode))
        return err_fail(WEFT_USAGE, "%s is no folder but a link or a file: remove it", path);
    void *map;
    if ((size_t)snprintf(path, sizeof path, "%s/flight/rank-%04u.ring", out_dir, rank) >=
        sizeof path)
        return err_fail(WEFT_USAGE, "run.out is longer than a path may be");
    weft_status st = make_ring(path, &map);
    if (st != WEFT_OK)
        return st;
    run_flight_head *h = map;
    memcpy(h->magic, "weftring", 8);
    h->version = FLIGHT_VERSION;
    h->records = FLIGHT_RECORDS;
    h->rank = rank;
    h->ranks = ranks;
    *out = (run_flight){map, FLIGHT_BYTES};
    return WEFT_OK;
}

void run_flight_close(run_flight *f)
{
    if (f->map)
        munmap(f->map, f->bytes);
    f->map = NULL;
}

void run_flight_note(run_flight *f, uint64_t step, uint32_t entry, char kind, const char *name)
{
    if (!f->map)
        return;
    run_flight_head *h = f->map;
    uint64_t next = atomic_load_explicit(&h->next, memory_order_relaxed);
    run_flight_record *r = (run_flight_record *)f->map + 1 + next % FLIGHT_RECORDS;
    r->time_ns = clock_ns();
    r->step = step;
    r->entry = entry;
    r->kind = kind;
    size_t n = strnlen(name, sizeof r->name - 1);
    memcpy(r->name, name, n);
    r->name[n] = 0;
    atomic_store_explicit(&h->next, next + 1, memory_order_release);
}
