/* check/run.c: the parent: starts a process for each check, two at a time, and reports.
 *
 * The parent never loads the plugin. A first process lists its interfaces, so that checks of others
 * need no process. */
#define _GNU_SOURCE /* memfd_create, nftw */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/time/pressure.h"
#include "check/child.h"
#include "check/harness/harness.h"
#include "check/report.h"
#include "check/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE 2u
#define MAX_LATE 3u    /* time-outs in one call of the plugin */
#define LEFT_MS 10000u /* for a process that is killed to end */

typedef struct slot {
    pid_t pid; /* 0: free */
    check_page *page;
    int output;
    uint64_t since; /* ms */
    uint64_t until; /* by pressure_ms() */
    uint64_t look;  /* ms, when that may be over */
    check_result *of;
} slot;

/* --- one process --- */

_Noreturn static void become(const check_request *q, uint32_t number, int result, int output)
{
    char only[16], seed[24], fd[16];
    snprintf(only, sizeof only, "%u", number);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)q->seed);
    snprintf(fd, sizeof fd, "%d", result);
    setpgid(0, 0); /* ended with all that it starts */
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(output);
    const char *argv[8 + 2 * CHECK_SETS + 2] = {"weft-check", q->path, "--only", only,
                                                "--seed",     seed,    "--of",   fd};
    for (uint32_t i = 0; i < q->nset; i++) {
        argv[8 + 2 * i] = "--set";
        argv[9 + 2 * i] = q->set[i];
    }
    if (q->threads)
        argv[8 + 2 * q->nset] = "--threads";
    execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
    _exit(2);
}

static weft_status start(const check_request *q, uint32_t number, check_result *of, slot *s)
{
    const check_group *group;
    const check *c = check_find(number, &group);
    const int result = check_page_create(&s->page);
    s->output = memfd_create("weft-check-output", MFD_CLOEXEC);
    if (result < 0 || s->output < 0)
        return err_fail_errno(WEFT_IO, "no memory for the result of a check");
    fflush(NULL);
    s->since = clock_ms();
    s->until = pressure_ms() + check_seconds(c) * 1000u + CHECK_GRACE_MS;
    s->look = s->since + check_seconds(c) * 1000u + CHECK_GRACE_MS;
    s->of = of;
    s->pid = fork();
    if (!s->pid)
        become(q, number, result, s->output);
    close(result);
    return s->pid < 0 ? err_fail_errno(WEFT_IO, "no process for a check") : WEFT_OK;
}

static char *text_of(int fd)
{
    enum { LIMIT = 4000 };
    const off_t size = lseek(fd, 0, SEEK_END), from = size > LIMIT ? size - LIMIT : 0;
    char *text = mem_alloc(LIMIT + 1);
    ssize_t n = pread(fd, text, LIMIT, from);
    text[n > 0 ? n : 0] = 0;
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < 32 || (unsigned char)*at > 126)
            *at = *at == '\n' ? '\n' : '?';
    return text;
}

/* What a process that wrote no result died of. */
static void without_result(check_result *r, int status, bool late)
{
    r->outcome = late ? CHECK_TIMEOUT : CHECK_CRASH;
    if (late)
        snprintf(r->text, sizeof r->text,
                 "the process did not end after its deadline: the plugin "
                 "blocks signals, or waits in the system");
    else if (WIFSIGNALED(status))
        snprintf(r->text, sizeof r->text, "the process was ended by SIG%s",
                 sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(r->text, sizeof r->text,
                 "the process ended with status %d in the middle of the check: _exit() or a "
                 "system call ended it",
                 WEXITSTATUS(status));
}

/* The clock counts a little faster the more often it is looked at, so it is asked as rarely as the
 * process itself asks it (on_alarm() of watch.c). */
static bool is_late(slot *s)
{
    const uint64_t wall = clock_ms(), now = wall < s->look ? 0 : pressure_ms();
    if (wall >= s->look && now <= s->until)
        s->look = wall + s->until - now + 1;
    return now > s->until;
}

/* Take the result of a process that has ended, or end it if it is late. */
static bool finish(slot *s)
{
    int status = 0;
    const bool late = is_late(s);
    if (late)
        kill(s->pid, SIGKILL);
    const pid_t got = waitpid(s->pid, &status, late ? 0 : WNOHANG);
    if (!got || (got < 0 && errno == EINTR))
        return false;
    kill(-s->pid, SIGKILL); /* ranks and whatever the plugin has started */
    check_result *r = s->of;
    r->outcome = (check_outcome)atomic_load(&s->page->outcome);
    r->foreign = atomic_load(&s->page->foreign);
    snprintf(r->text, sizeof r->text, "%s", s->page->text);
    snprintf(r->call, sizeof r->call, "%s", s->page->call);
    if (r->outcome == CHECK_NONE)
        without_result(r, status, late);
    r->seconds = (double)(clock_ms() - s->since) / 1000;
    r->output = text_of(s->output);
    munmap(s->page, sizeof *s->page);
    close(s->output);
    s->pid = 0;
    return true;
}

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* --- all --- */

static bool is_wanted(const char *only, uint32_t number)
{
    for (const char *at = only; *at;) {
        char *end;
        const unsigned long from = strtoul(at, &end, 10);
        unsigned long to = from;
        if (*end == '-')
            to = strtoul(end + 1, &end, 10);
        if (number >= from && number <= to)
            return true;
        at = end + (*end == ',');
    }
    return false;
}

static weft_status parse_only(const char *only)
{
    for (const char *at = only; *at;) {
        const size_t digits = strspn(at, "0123456789");
        const char *end = at + digits;
        size_t second = 1;
        if (*end == '-' && strtoul(at, NULL, 10) > strtoul(end + 1, NULL, 10))
            return err_fail(WEFT_USAGE, "--only takes ranges as 1-14; one of '%s' runs backwards",
                            only);
        if (*end == '-') {
            second = strspn(end + 1, "0123456789");
            end += 1 + second;
        }
        if (!digits || digits > 6 || !second || second > 6 || (*end && (*end != ',' || !end[1])))
            return err_fail(WEFT_USAGE,
                            "--only takes numbers and ranges of checks, as 1-14,53; '%s' is "
                            "neither (--list prints the numbers)",
                            only);
        at = end + (*end == ',');
    }
    return WEFT_OK;
}

static bool is_foreign(const check *c, const char *interfaces)
{
    char one[WEFT_MAX_NAME];
    if (!c->ifaces || !interfaces)
        return false;
    for (const char *at = interfaces; *at; at += strcspn(at, " "), at += *at == ' ') {
        snprintf(one, sizeof one, "%.*s", (int)strcspn(at, " "), at);
        if (check_lists(c->ifaces, one))
            return false;
    }
    return true;
}

/* Each process loads the file anew, so a file that is built again meanwhile would be judged in part
 * by what it was before. */
static weft_status same_file(const check_request *q, const struct stat *was)
{
    struct stat is = {0};
    if (!stat(q->path, &is) && is.st_dev == was->st_dev && is.st_ino == was->st_ino &&
        is.st_size == was->st_size && is.st_mtim.tv_sec == was->st_mtim.tv_sec &&
        is.st_mtim.tv_nsec == was->st_mtim.tv_nsec)
        return WEFT_OK;
    return err_fail(WEFT_IO,
                    "%s was replaced or changed while it was checked, so there is no result; run "
                    "the command again",
                    q->path);
}

/* Why no further check is to run after `r`: the host refuses the file, so that all fail for one
 * cause; or a call has not returned in several of them. */
static void look_for_end(check_report *report, const check_result *first, const check_result *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; r->outcome == CHECK_TIMEOUT && *r->call && i < report->n; i++)
        n += report->at[i].outcome == CHECK_TIMEOUT && !strcmp(r->call, report->at[i].call);
    if (first->outcome != CHECK_PASS && check_report_failed(r))
        snprintf(report->stopped, sizeof report->stopped, "%s%s",
                 first->outcome == CHECK_FAIL ? "" : "while the file is loaded, ", first->text);
    else if (n >= MAX_LATE)
        snprintf(report->stopped, sizeof report->stopped,
                 "%s does not return: %u checks have waited for it until their deadline", r->call,
                 n);
}

/* A check whose interfaces the plugin lacks is done without a process. */
static uint32_t skip_foreign(check_report *report, const char *interfaces, uint32_t *next)
{
    uint32_t n = 0;
    for (; *next < report->n && is_foreign(report->at[*next].of, interfaces); n++) {
        check_result *r = &report->at[(*next)++];
        r->outcome = CHECK_NOT_APPLICABLE;
        r->foreign = true;
        snprintf(r->text, sizeof r->text, CHECK_FOREIGN, r->of->ifaces);
    }
    return n;
}

/* Of a file that the host refuses the checks run one by one, since the first that fails is the
 * last. A result is shown once the file is known to be the one that it is about. */
static weft_status run_all(const check_request *q, const struct stat *file, check_report *report,
                           const check_result *first)
{
    slot slots[AT_ONCE] = {0};
    weft_status st = WEFT_OK;
    const bool refused = first->outcome != CHECK_PASS;
    uint32_t next = 0, done = 0;
    while (st == WEFT_OK && done < report->n && !*report->stopped) {
        for (uint32_t i = 0; i < (refused ? 1 : AT_ONCE) && st == WEFT_OK; i++) {
            if (slots[i].pid && finish(&slots[i])) {
                done++;
                look_for_end(report, first, slots[i].of);
            }
            done += skip_foreign(report, refused ? NULL : first->text, &next);
            if (!slots[i].pid && next < report->n && !*report->stopped) {
                check_result *r = &report->at[next++];
                st = start(q, r->of->number, r, &slots[i]);
            }
        }
        if (st == WEFT_OK)
            st = same_file(q, file);
        if (st == WEFT_OK)
            check_report_news(report);
        wait_a_little();
    }
    check_report_clear(report);
    for (uint32_t i = 0; i < AT_ONCE; i++)
        if (slots[i].pid > 0) {
            kill(-slots[i].pid, SIGKILL);
            kill(slots[i].pid, SIGKILL);
            waitpid(slots[i].pid, NULL, 0);
        }
    return st;
}

static weft_status find_interfaces(const check_request *q, check_result *found)
{
    slot s = {0};
    weft_status st = start(q, 0, found, &s);
    while (st == WEFT_OK && !finish(&s))
        wait_a_little();
    return st;
}

static weft_status choose(const check_request *q, check_report *report)
{
    for (const check_group *const *g = check_groups; *g; g++)
        for (const check *c = (*g)->checks; c->number; c++)
            if (!q->only || is_wanted(q->only, c->number))
                *vec_push(report) = (check_result){.of = c, .group = *g};
    return report->n
               ? WEFT_OK
               : err_fail(WEFT_USAGE, "no check has the number %s (--list prints them)", q->only);
}

/* --- files of the checks --- */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    return remove(path) && errno != ENOENT;
}

/* A folder for temporary files of all processes, so that those of a process that crashes are
 * removed, too. */
static weft_status begin_files(char folder[PATH_MAX])
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, PATH_MAX, "%.*s/weft-check-XXXXXX", PATH_MAX - 32, tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder) || setenv("TMPDIR", folder, 1))
        return err_fail_errno(WEFT_USAGE,
                              "cannot make a folder for temporary files of the checks, %s; set "
                              "TMPDIR to a folder that can be written",
                              folder);
    return WEFT_OK;
}

/* --- processes that a plugin has left --- */

/* Whether a process was started by one of the checks: they alone have the folder in TMPDIR. */
static bool is_of_checks(const char *pid, const char *folder)
{
    char path[64], text[65536];
    snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    for (const char *at = text; at < text + (n > 0 ? n : 0); at += strlen(at) + 1)
        if (!strncmp(at, "TMPDIR=", 7) && !strcmp(at + 7, folder))
            return true;
    return false;
}

/* How many processes of the checks were there to be ended. One that has ended has no TMPDIR. */
static uint32_t kill_left(const char *folder)
{
    uint32_t n = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *e = all ? readdir(all) : NULL; e; e = readdir(all)) {
        const pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid > 1 && pid != getpid() && is_of_checks(e->d_name, folder))
            n += !kill(pid, SIGKILL);
    }
    if (all)
        closedir(all);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    return n;
}

/* End what outlives its check: a process in a session of its own is not in the group that finish()
 * ends. It has become a child of this process, which is a subreaper. A killed process takes a
 * moment to end, and may have forked before. */
static void end_left(const char *folder)
{
    siginfo_t any = {0};
    if (waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT))
        return; /* no child */
    const uint64_t until = pressure_ms() + LEFT_MS;
    while (kill_left(folder) && pressure_ms() < until)
        wait_a_little();
}

static weft_status parent(const check_request *q, const struct stat *file, check_report *report)
{
    char folder[PATH_MAX];
    weft_status st = begin_files(folder);
    if (st != WEFT_OK)
        return st;
    check_result found = {0};
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    st = find_interfaces(q, &found);
    free(found.output);
    if (st == WEFT_OK && found.outcome == CHECK_NOT_APPLICABLE) /* an option of the request */
        st = err_fail(WEFT_USAGE, "%s", found.text);
    const uint64_t since = clock_ms();
    if (st == WEFT_OK)
        st = run_all(q, file, report, &found);
    report->seconds = (double)(clock_ms() - since) / 1000;
    end_left(folder);
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return st;
}

static int answer(weft_status st)
{
    fprintf(stderr, "weft plugins check: %s\n", err_text());
    return st == WEFT_USAGE ? 2 : 1;
}

int check_command(const check_request *given)
{
    check_request q = *given;
    check_report report = {.request = &q};
    char path[PATH_MAX];
    struct stat info = {0};
    weft_status st = host_check_path(q.path);
    if (st == WEFT_OK && q.only)
        st = parse_only(q.only);
    if (st == WEFT_OK && (!realpath(q.path, path) || stat(path, &info)))
        st = err_fail_errno(WEFT_USAGE, "cannot find the plugin %s", q.path);
    if (st == WEFT_OK && !S_ISREG(info.st_mode))
        st = err_fail(WEFT_USAGE, "%s is not a file, so it is no plugin", q.path);
    q.path = path;
    if (st == WEFT_OK)
        st = host_check_path(path);
    if (st == WEFT_OK && (q.result >= 0 || q.in_process)) {
        const check_group *group;
        const uint32_t number = q.only ? (uint32_t)strtoul(q.only, NULL, 10) : 0;
        if (q.result >= 0 || check_find(number, &group))
            return check_child_run(&q, number);
        st = err_fail(WEFT_USAGE, "--in-process takes --only with the number of one check");
    }
    if (st == WEFT_OK)
        st = choose(&q, &report);
    if (st == WEFT_OK)
        st = parent(&q, &info, &report);
    const int status = st == WEFT_OK ? check_report_end(&report) : answer(st);
    for (uint32_t i = 0; i < report.n; i++)
        free(report.at[i].output);
    free(report.at);
    return status;
}
