/* report.c: weft report. */
#include "cli/cli.h"

#include "base/err.h"
#include "data/file.h"
#include "report/report.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void write_data(const json_t *data, bool as_json, FILE *to)
{
    if (!as_json)
        report_write_page(data, to);
    else if (json_dumpf(data, to, JSON_INDENT(1)) == 0)
        fputc('\n', to);
}

static weft_status close_page(FILE *f, const char *path)
{
    const bool bad = ferror(f);
    return fclose(f) || bad ? err_fail_errno(WEFT_IO, "-o %s could not be written completely", path)
                            : WEFT_OK;
}

/* A device or a pipe, which a rename would replace. */
static weft_status write_in_place(const json_t *data, bool as_json, const char *path)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f)
        return err_fail_errno(WEFT_USAGE, "-o %s cannot be written", path);
    write_data(data, as_json, f);
    return close_page(f, path);
}

/* A reader of the file sees the old page or the new one. */
static weft_status replace_file(const json_t *data, bool as_json, const char *path,
                                const struct stat *old)
{
    char target[PATH_MAX], temp[PATH_MAX + 32];
    if (data_file_follow(path, target))
        return err_fail_errno(WEFT_USAGE, "-o %s cannot be written", path);
    snprintf(temp, sizeof temp, "%s.%ld.tmp", target, (long)getpid());
    const int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f)
        return err_fail_errno(WEFT_USAGE, "-o %s cannot be written", path);
    const int mode = old ? fchmod(fd, old->st_mode & 07777) : 0;
    write_data(data, as_json, f);
    weft_status st = close_page(f, path);
    if (st == WEFT_OK && (mode || rename(temp, target)))
        st = err_fail_errno(WEFT_IO, "-o %s cannot be written", path);
    if (st != WEFT_OK)
        unlink(temp);
    return st;
}

static bool is_special(const char *path)
{
    struct stat info;
    return !stat(path, &info) && !S_ISREG(info.st_mode);
}

static weft_status write_file(const json_t *data, bool as_json, const char *path)
{
    struct stat info;
    sigset_t ends, before;
    if (is_special(path))
        return write_in_place(data, as_json, path);
    cli_ending_signals(&ends); /* they wait until the file is in its place */
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    weft_status st = replace_file(data, as_json, path, stat(path, &info) ? NULL : &info);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return st;
}

static weft_status write_report(const json_t *data, bool as_json, const char *path)
{
    if (strcmp(path, "-"))
        return write_file(data, as_json, path);
    write_data(data, as_json, stdout);
    return WEFT_OK;
}

/* The words of the command; *path and *as_json are unchanged without their options. */
static int read_words(report *r, int argc, char **argv, const char **path, bool *as_json)
{
    uint32_t n = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-o") && i + 1 < argc) {
            *path = argv[++i];
        } else if (!strcmp(argv[i], "--json")) {
            *as_json = true;
        } else if (*argv[i] == '-') {
            return cli_refuse(&cli_cmd_report, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
        } else {
            weft_status st = report_add(r, argv[i]);
            if (st != WEFT_OK)
                return cli_fail(st);
            n++;
        }
    }
    return n ? 0 : cli_usage(&cli_cmd_report, "name the folder of a run or of a sweep");
}

static int run(int argc, char **argv)
{
    const char *path = NULL;
    bool as_json = false;
    report *r = report_create();
    int status = read_words(r, argc, argv, &path, &as_json);
    if (!status) {
        json_t *data = report_json(r, NULL);
        path = path ? path : as_json ? "-" : "report.html";
        status = cli_fail(write_report(data, as_json, path));
        if (!status && strcmp(path, "-") && !as_json && !is_special(path))
            printf("%s: open it in a browser\n", path);
        json_decref(data);
    }
    report_free(r);
    return status;
}

const cli_command cli_cmd_report = {
    "report", "RUN|SWEEP ... [-o FILE] [--json]",
    "Write runs and sweeps as one page of HTML, which opens from disk and needs no network.\n\n"
    "  RUN        a run's folder (run.out): curves, the split of a step, memory and bytes planned\n"
    "             and measured, schedule, mesh, job file; several are laid over one another, and\n"
    "             their jobs compared. It may still be training\n"
    "  SWEEP      a sweep's folder (sweep.out) or its sweep.json: its table, which sorts and\n"
    "             filters, speed against memory, scaling, the effect of each key, the winner's "
    "job\n"
    "  -o FILE    instead of report.html, which is replaced if it exists; - is standard output\n"
    "  --json     instead of the page its data, for programs (docs/REPORT.md), on standard output\n"
    "             unless -o names a file",
    run, NULL};
