/* flight.c: weft flight. */
#include "run/view/flight.h"
#include "base/err.h"
#include "base/version.h"
#include "cli/cli.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_word(char kind)
{
    switch (kind) {
    case 'c': return "call";
    case 's': return "start";
    case 'w': return "wait";
    case 'e': return "end";
    default: return "?";
    }
}

static void print_ring(const run_flight_head *h, const run_flight_record *all, uint32_t count,
                       FILE *to)
{
    uint64_t next = h->next, have = next < FLIGHT_RECORDS ? next : FLIGHT_RECORDS;
    uint64_t show = count < have ? count : have;
    fprintf(to, "rank %u of %u: %" PRIu64 " entries, the last %" PRIu64 ":\n", h->rank, h->ranks,
            next, show);
    uint64_t last = show ? all[(next - 1) % FLIGHT_RECORDS].time_ns : 0;
    for (uint64_t i = next - show; i < next; i++) {
        run_flight_record r = all[i % FLIGHT_RECORDS];
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
    char *buffer = malloc(FLIGHT_BYTES);
    ssize_t n = buffer ? read(fd, buffer, FLIGHT_BYTES) : -1;
    close(fd);
    weft_status st = WEFT_OK;
    const run_flight_head *h = (const run_flight_head *)(void *)buffer;
    if (n != (ssize_t)FLIGHT_BYTES || (uint64_t)info.st_size != FLIGHT_BYTES ||
        memcmp(h->magic, "weftring", 8))
        st = err_fail(WEFT_DATA, "%s is not a flight record, or is truncated", path);
    else if ((st = version_check("the flight record", h->version, FLIGHT_VERSION)) != WEFT_OK)
        err_context("%s", path);
    else if (h->records != FLIGHT_RECORDS)
        st = err_fail(WEFT_DATA, "%s counts %u records where there are %u: it is damaged", path,
                      h->records, (unsigned)FLIGHT_RECORDS);
    else
        print_ring(h, (const run_flight_record *)(const void *)(h + 1), count, to);
    free(buffer);
    return st;
}

static int is_ring(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 5 && !strcmp(d->d_name + n - 5, ".ring");
}

/* Print the last `count` records of every ring in the folder `dir` (or its flight/), oldest first.
 * WEFT_DATA: a file is damaged or not a flight record. */
static weft_status print_all(const char *dir, uint32_t count, FILE *to)
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

static int run(int argc, char **argv)
{
    uint64_t count = 20;
    const char *dir = NULL;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "-c") && i + 1 < argc) {
            if (!cli_number(argv[++i], 1, FLIGHT_RECORDS, &count))
                return cli_usage(&cli_cmd_flight, "-c takes a number from 1 to %u", FLIGHT_RECORDS);
        } else if (*argv[i] == '-') {
            return cli_refuse(&cli_cmd_flight, argv[i], argv[i + 1]);
        } else if (dir) {
            return cli_usage(&cli_cmd_flight, "'%s' is one name too many", argv[i]);
        } else {
            dir = argv[i];
        }
    if (!dir)
        return cli_usage(&cli_cmd_flight, "name the folder of a run, or its flight/");
    return cli_fail(print_all(dir, (uint32_t)count, stdout));
}

const cli_command cli_cmd_flight = {
    "flight", "DIR [-c COUNT]",
    "Print the last instructions of every rank of a run, also of one that was killed.\n\n"
    "  -c COUNT   how many of each (20)",
    run, NULL};
