/* run/view/flight.c: see flight.h. The file is one header record and FLIGHT_RECORDS records. */
#include "run/view/flight.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/version.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct ring_head {
    char magic[8]; /* "weftring" */
    uint32_t version, records;
    uint32_t rank, ranks;
    _Atomic uint64_t next; /* records ever written */
    char unused[32];
} ring_head;

typedef struct ring_record {
    uint64_t time_ns, step;
    uint32_t entry;
    char kind; /* c call, s start, w wait, b and e begin and end of a list */
    char name[43];
} ring_record;

_Static_assert(sizeof(ring_head) == 64 && sizeof(ring_record) == 64, "records are 64 bytes");

#define RING_VERSION 1u
#define RING_BYTES ((uint64_t)(FLIGHT_RECORDS + 1) * 64)

/* An empty ring, mapped, under a name that is not `path`. */
static weft_status map_new(const char *temp, const char *path, void **map)
{
    unlink(temp); /* of a rank that was killed here */
    int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return err_fail_errno(WEFT_IO, "the flight record %s cannot be made", path);
    /* Blocks are taken now: a full disk is an error here, not a SIGBUS in a step. */
    int full = posix_fallocate(fd, 0, (off_t)RING_BYTES);
    *map = full ? MAP_FAILED : mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
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
        munmap(*map, RING_BYTES);
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
    ring_head *h = map;
    memcpy(h->magic, "weftring", 8);
    h->version = RING_VERSION;
    h->records = FLIGHT_RECORDS;
    h->rank = rank;
    h->ranks = ranks;
    *out = (run_flight){map, RING_BYTES};
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
    ring_head *h = f->map;
    uint64_t next = atomic_load_explicit(&h->next, memory_order_relaxed);
    ring_record *r = (ring_record *)f->map + 1 + next % FLIGHT_RECORDS;
    r->time_ns = clock_ns();
    r->step = step;
    r->entry = entry;
    r->kind = kind;
    size_t n = strnlen(name, sizeof r->name - 1);
    memcpy(r->name, name, n);
    r->name[n] = 0;
    atomic_store_explicit(&h->next, next + 1, memory_order_release);
}

static const char *kind_word(char kind)
{
    switch (kind) {
    case 'c': return "call";
    case 's': return "start";
    case 'w': return "wait";
    case 'b': return "begin";
    case 'e': return "end";
    default: return "?";
    }
}

static void print_ring(const ring_head *h, const ring_record *all, uint32_t count, FILE *to)
{
    uint64_t next = h->next, have = next < FLIGHT_RECORDS ? next : FLIGHT_RECORDS;
    uint64_t show = count < have ? count : have;
    fprintf(to, "rank %u of %u: %" PRIu64 " entries, the last %" PRIu64 ":\n", h->rank, h->ranks,
            next, show);
    uint64_t last = show ? all[(next - 1) % FLIGHT_RECORDS].time_ns : 0;
    for (uint64_t i = next - show; i < next; i++) {
        ring_record r = all[i % FLIGHT_RECORDS];
        r.name[sizeof r.name - 1] = 0;
        for (char *p = r.name; *p; p++)
            *p = *p >= 32 && *p < 127 ? *p : '?'; /* the file is untrusted */
        fprintf(to, "  %12.3f ms  step %-6" PRIu64 " entry %-5u %-5s %s\n",
                ((double)r.time_ns - (double)last) * 1e-6, r.step, r.entry, kind_word(r.kind),
                r.name);
    }
}

static weft_status print_file(const char *path, uint32_t count, FILE *to)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat info;
    if (fd < 0 || fstat(fd, &info)) {
        weft_status st = err_fail_errno(WEFT_USAGE, "%s cannot be read", path);
        if (fd >= 0)
            close(fd);
        return st;
    }
    char *buffer = malloc(RING_BYTES);
    ssize_t n = buffer ? read(fd, buffer, RING_BYTES) : -1;
    close(fd);
    weft_status st = WEFT_OK;
    const ring_head *h = (const ring_head *)(void *)buffer;
    if (n != (ssize_t)RING_BYTES || (uint64_t)info.st_size != RING_BYTES ||
        memcmp(h->magic, "weftring", 8))
        st = err_fail(WEFT_DATA, "%s is not a flight record, or is truncated", path);
    else if ((st = version_check("the flight record", h->version, RING_VERSION)) != WEFT_OK)
        err_context("%s", path);
    else if (h->records != FLIGHT_RECORDS)
        st = err_fail(WEFT_DATA, "%s counts %u records where there are %u: it is damaged", path,
                      h->records, (unsigned)FLIGHT_RECORDS);
    else
        print_ring(h, (const ring_record *)(const void *)(h + 1), count, to);
    free(buffer);
    return st;
}

static int is_ring(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 5 && !strcmp(d->d_name + n - 5, ".ring");
}

weft_status run_flight_print(const char *dir, uint32_t count, FILE *to)
{
    char path[4096];
    struct dirent **list = NULL;
    snprintf(path, sizeof path, "%s/flight", dir);
    int n = scandir(path, &list, is_ring, alphasort);
    if (n < 0) {
        snprintf(path, sizeof path, "%s", dir);
        n = scandir(path, &list, is_ring, alphasort);
    }
    if (n < 0)
        return err_fail_errno(WEFT_USAGE, "the folder %s cannot be read", dir);
    weft_status st = n ? WEFT_OK : err_fail(WEFT_USAGE, "there are no flight records in %s", path);
    for (int i = 0; i < n; i++) {
        char file[8192];
        snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
        if (st == WEFT_OK)
            st = print_file(file, count, to);
        free(list[i]);
    }
    free(list);
    return st;
}
