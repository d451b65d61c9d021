/* The launcher: what it starts, what it says and returns when ranks fail in every way, and that
 * nothing of a job is left behind, whoever is killed. This program is its own rank: it is started
 * again as `PROGRAM rank MODE`. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/prctl.h>
#include <test.h>

#include "job/control/control.h"
#include "launch/launch.h"
#include "ranks.h"
/* after ranks.h */
#include "marks.h"

#define N 4

/* --- the program as a rank --- */

static int end(weft_status st)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", err_text());
    if (st != WEFT_OK && !job_control_say(text))
        log_line(WEFT_LOG_ERROR, "%s", text);
    return err_exit_code(st);
}

static weft_status until_failure(job *j)
{
    weft_status st = WEFT_OK;
    while ((st = job_failure(j)) == WEFT_OK)
        usleep(1000);
    err_context("in all-reduce 12");
    return st;
}

/* At work for as long as there is a file. */
static weft_status while_there(job *j, const char *path)
{
    weft_status st;
    while ((st = job_failure(j)) == WEFT_OK && !access(path, F_OK))
        usleep(1000);
    return st;
}

/* The key as it was handed over, for the test that looks for it. */
static void show_key(const char *path)
{
    uint8_t key[KEY_BYTES];
    FILE *f = fopen(path, "we");
    if (f &&
        pread((int)strtol(getenv(KEY_FD_ENV), NULL, 10), key, sizeof key, 0) == (ssize_t)sizeof key)
        fwrite(key, 1, sizeof key, f);
    if (f)
        fclose(f);
}

static weft_status misbehave(job *j, uint32_t me, const char *mode, const char *path)
{
    if (!strcmp(mode, "segv") && me == 2) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would only report it */
        raise(SIGSEGV);
    }
    if (!strcmp(mode, "exit0") && me == 1)
        _exit(0);
    if (!strcmp(mode, "exit3") && me == 1)
        _exit(3);
    if (!strcmp(mode, "words") && me == 3)
        return (err_fail)(WEFT_IO, "disk full in instruction 12");
    if (!strcmp(mode, "words77") && me == 0)
        return (err_fail)(WEFT_ABSENT, "no such device");
    if (!strcmp(mode, "refused") && me == 0) {
        usleep(100000); /* the others wait already */
        return (err_fail)(WEFT_USAGE, "checkpoints are of another job");
    }
    if (!strcmp(mode, "refused"))
        return job_exchange(j, "resume", NULL, 0, NULL);
    if (!strcmp(mode, "second") && me == 1)
        return (err_fail)(WEFT_PEER, "the connection with rank 2 is broken");
    if (!strcmp(mode, "second") && me == 2) {
        usleep(patience_is_timed() ? 30000 : 0); /* it may take 300 ms */
        raise(SIGKILL);
    }
    if (!strcmp(mode, "helper") && me == 1 && fork() == 0) {
        prctl(PR_SET_NAME, "weft-helper");
        sleep(290);
        _exit(0);
    }
    if (!strcmp(mode, "work"))
        return WEFT_OK;
    return path ? while_there(j, path) : until_failure(j);
}

static int as_rank(const char *mode, const char *path)
{
    job_identity who;
    job *j = NULL;
    weft_status st = job_identify(&who);
    alarm(290);
    if (st != WEFT_OK)
        return end(st);
    if (!strcmp(mode, "usage"))
        return end((err_fail)(WEFT_USAGE, "job.ini:3: unknown key 'lrr'; did you mean 'lr'?"));
    if (!strcmp(mode, "absent") && who.rank == 1)
        return end((err_fail)(WEFT_ABSENT, "no such device on this machine"));
    if (!strcmp(mode, "stubborn"))
        signal(SIGTERM, SIG_IGN);
    if (path && !who.rank)
        show_key(path);
    if ((st = job_join(&who, NULL, &j)) != WEFT_OK)
        return end(st);
    job_mark(j, 17, 34);
    if (!strcmp(mode, "wait"))
        st = ranks_marked(j);
    if (st == WEFT_OK)
        st = job_exchange(j, "start", NULL, 0, NULL);
    if (st == WEFT_OK)
        (void)!write(STDERR_FILENO, "ready\n", 6);
    if (st == WEFT_OK)
        st = misbehave(j, who.rank, mode, path);
    char text[1024];
    snprintf(text, sizeof text, "%s", err_text());
    bool well = job_leave(j, st, text);
    job_free(j);
    return end(st != WEFT_OK || well ? st : WEFT_PEER);
}

/* --- the launcher as a child of the test --- */

typedef struct launched {
    pid_t pid, rank[16];
    int err; /* its standard error */
    char text[8192];
    size_t n;
} launched;

static void start(launched *l, uint32_t n, const char *mode, const char *path)
{
    int ends[2];
    *l = (launched){0};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    l->pid = fork();
    if (l->pid == 0) {
        char *argv[] = {(char[]){"weft-test"}, (char[]){"rank"}, strdup(mode),
                        path ? strdup(path) : NULL, NULL};
        dup2(ends[1], STDERR_FILENO);
        alarm(290);
        _exit(launch_ranks(n, argv, !strncmp(mode, "stop", 4)));
    }
    close(ends[1]);
    l->err = ends[0];
}

/* The setting NAME=... in the environment of a process; -1: none. */
static long setting(pid_t pid, const char *name)
{
    char path[64], *text = calloc(1, 1 << 17);
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, (1 << 17) - 1) : 0;
    long value = -1;
    size_t len = strlen(name);
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(text + at) + 1)
        if (!strncmp(text + at, name, len) && text[at + (ssize_t)len] == '=')
            value = strtol(text + at + len + 1, NULL, 10);
    if (fd >= 0)
        close(fd);
    free(text);
    return value;
}

/* Fill in l->rank once all `n` have been started. */
static void find_ranks(launched *l, uint32_t n)
{
    char path[64];
    uint32_t found = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", l->pid, l->pid);
    for (int tries = 0; found < n && tries < RANKS_WAIT_MS / 10; tries++) {
        usleep(10000);
        FILE *f = fopen(path, "re");
        int pid;
        found = 0;
        while (f && fscanf(f, "%d", &pid) == 1) {
            long rank = setting(pid, "RANK");
            if (rank < 0 || rank >= (long)n)
                continue;
            l->rank[rank] = pid;
            found++;
        }
        if (f)
            fclose(f);
    }
    assert_int_equal(found, n);
}

static int times(const char *text, const char *word)
{
    int n = 0;
    while ((text = strstr(text, word))) {
        n++;
        text++;
    }
    return n;
}

/* More of what it and its ranks write; false at the end, or when `until` has come. */
static bool read_more(launched *l, uint64_t until)
{
    struct pollfd p = {.fd = l->err, .events = POLLIN};
    uint64_t now = clock_ms();
    if (now >= until || poll(&p, 1, (int)(until - now)) < 1)
        return false;
    ssize_t got = read(l->err, l->text + l->n, sizeof l->text - 1 - l->n);
    l->n += got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* All ranks are at work. */
static void await_ready(launched *l, uint32_t n)
{
    find_ranks(l, n);
    while (times(l->text, "ready\n") < (int)n)
        if (!read_more(l, clock_ms() + RANKS_WAIT_MS))
            fail_msg("not all ranks are at work:\n%s", l->text);
}

/* Its exit status, with what it and its ranks wrote in l->text; -1 when it does not end. */
static int finish(launched *l)
{
    uint64_t until = clock_ms() + RANKS_WAIT_MS;
    while (read_more(l, until)) /* to the end: nobody holds the pipe any more */
        continue;
    close(l->err);
    if (clock_ms() >= until)
        return -1;
    int status;
    assert_int_equal(waitpid(l->pid, &status, 0), l->pid);
    for (int r = 0; r < 16; r++)
        if (l->rank[r] && kill(l->rank[r], 0) == 0)
            fail_msg("rank %d is still there", r);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void expect(launched *l, int code, const char *word)
{
    int got = finish(l);
    if (got != code || !strstr(l->text, word))
        fail_msg("status %d for %d; '%s' in:\n%s", got, code, word, l->text);
}

/* --- tests --- */

TEST(ends_well)
{
    for (uint32_t n = 1; n <= 5; n += 2) {
        launched l;
        start(&l, n, "work", NULL);
        expect(&l, 0, "");
        assert_null(strstr(l.text, "weft")); /* nobody complains */
    }
    char *argv[] = {(char[]){"x"}, NULL};
    assert_int_equal(launch_ranks(0, argv, false), 2);
    assert_int_equal(launch_ranks(LAUNCH_MAX + 1, argv, false), 2);
}

TEST(killed)
{
    for (uint32_t victim = 0; victim < N; victim++) {
        launched l;
        char word[96];
        start(&l, N, "wait", NULL);
        await_ready(&l, N);
        kill(l.rank[victim], SIGKILL);
        uint64_t at = clock_ms();
        snprintf(word, sizeof word, "error: rank %u was killed by signal 9 (SIGKILL)", victim);
        expect(&l, 1, word);
        assert_true(clock_ms() - at < patience(1500));
        snprintf(word, sizeof word, "in all-reduce 12: rank %u was killed by signal 9", victim);
        /* All say the same, so it is printed once; a slow rank may be killed before, or hear only
         * that the victim is gone. */
        assert_in_range(times(l.text, word), patience_is_timed(), 1);
        assert_true(!times(l.text, word) || strstr(l.text, "last seen at step 17, place 34"));
    }
}

TEST(frozen)
{
    for (uint32_t victim = 0; victim < N; victim += 2) {
        launched l;
        char word[96];
        start(&l, N, "wait", NULL);
        await_ready(&l, N);
        kill(l.rank[victim], SIGSTOP);
        uint64_t at = clock_ms();
        snprintf(word, sizeof word, "error: rank %u is frozen: no sign of life for %s", victim,
                 patience_is_timed() ? "2." : "");
        expect(&l, 1, word);
        assert_true(clock_ms() - at < patience(3000));
    }
}

TEST(statuses)
{
    launched l;
    start(&l, N, "usage", NULL);
    expect(&l, 2, "job.ini:3: unknown key");
    assert_int_equal(times(l.text, "unknown key"), 1);
    assert_int_equal(times(l.text, "rank "), 0); /* of all ranks, so of none */
    assert_int_equal(times(l.text, "\n"), 1);
    start(&l, N, "refused", NULL);
    expect(&l, 2, "error: rank 0: checkpoints are of another job\n");
    assert_int_equal(times(l.text, "another job"), 1);
    assert_int_equal(times(l.text, "error"), 1); /* and none of those who wait for it */
    start(&l, N, "absent", NULL);
    expect(&l, 77, "rank 1: no such device on this machine");
    assert_null(strstr(l.text, "ended by itself"));
    start(&l, N, "words77", NULL);
    expect(&l, 77, "rank 0: no such device");
    start(&l, N, "words", NULL);
    expect(&l, 1, "rank 3: disk full in instruction 12");
    assert_non_null(strstr(l.text, "rank 3 failed: disk full in instruction 12"));
    start(&l, N, "segv", NULL);
    expect(&l, 1, "rank 2 was killed by signal 11 (SIGSEGV)");
    start(&l, N, "exit3", NULL);
    expect(&l, 1, "error: rank 1 ended by itself with status 3");
    start(&l, N, "exit0", NULL);
    expect(&l, 1, "error: rank 1 ");
    start(&l, N, "second", NULL);
    expect(&l, 1, "error: rank 2 was killed by signal 9");
}

/* Orphans come to us, so that they can be waited for and none is a zombie by our fault. */
TEST(launcher_killed)
{
    launched l;
    start(&l, N, "wait", NULL);
    await_ready(&l, N);
    kill(l.rank[3], SIGSTOP);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    kill(l.pid, SIGKILL);
    const uint64_t at = clock_ms();
    for (uint32_t r = 0; r < N;) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
        if (kill(l.rank[r], 0) != 0)
            r++;
        else if (clock_ms() - at > patience(900))
            fail_msg("rank %u is still there", r);
        else
            usleep(1000);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    close(l.err);
}

TEST(signals)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    launched l;
    char word[64];
    for (int i = 0; i < 3; i++) {
        start(&l, 2, "wait", NULL);
        await_ready(&l, 2);
        kill(l.pid, numbers[i]);
        snprintf(word, sizeof word, "the job was stopped by signal %d", numbers[i]);
        expect(&l, 1, word);
    }
    start(&l, 2, "stubborn", NULL);
    await_ready(&l, 2);
    kill(l.pid, SIGTERM);
    usleep(700000);
    assert_int_equal(kill(l.rank[0], 0), 0); /* asked, and did not want to */
    kill(l.pid, SIGINT);
    const uint64_t at = clock_ms();
    expect(&l, 1, "the job was stopped by signal ");
    assert_true(clock_ms() - at < patience(3000)); /* it would go on for ever without SIGINT */
}

/* What a terminal's stop key does: all ranks stop, nobody is taken for frozen, all go on. */
TEST(stopped_and_continued)
{
    launched l;
    char path[64];
    int status;
    snprintf(path, sizeof path, "/tmp/weft-launch-%d.key", getpid());
    start(&l, 2, "file", path);
    await_ready(&l, 2);
    kill(l.pid, SIGTSTP);
    assert_int_equal(waitpid(l.pid, &status, WUNTRACED), l.pid);
    assert_true(WIFSTOPPED(status));
    sleep(4);
    kill(l.pid, SIGCONT);
    usleep(2500000); /* in which somebody would be taken for frozen */
    unlink(path);
    expect(&l, 0, "");
    assert_null(strstr(l.text, "weft")); /* nobody complains */
}

/* What a rank has started goes with it. */
TEST(helpers)
{
    launched l;
    start(&l, 2, "helper", NULL);
    await_ready(&l, 2);
    kill(l.rank[1], SIGKILL);
    expect(&l, 1, "rank 1 was killed by signal 9"); /* the helper held the pipe, too */
}

/* --- the key is nowhere to be seen --- */

static void search(pid_t pid, const char *file, const uint8_t *key)
{
    char path[64], hex[2 * KEY_BYTES + 1], *text = calloc(1, 1 << 18);
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, text, 1 << 18);
    assert_true(n > 0);
    close(fd);
    for (int i = 0; i < KEY_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", key[i]);
    assert_null(memmem(text, (size_t)n, key, 8));
    assert_null(memmem(text, (size_t)n, hex, 16));
    free(text);
}

static void no_key_descriptor(pid_t pid)
{
    for (int fd = 0; fd < 64; fd++) {
        char path[64], name[64] = "";
        snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
        if (readlink(path, name, sizeof name - 1) > 0)
            assert_null(strstr(name, "weft-key"));
    }
}

TEST(key_hidden)
{
    launched l;
    char path[64];
    uint8_t key[KEY_BYTES];
    snprintf(path, sizeof path, "/tmp/weft-launch-%d.key", getpid());
    start(&l, 2, "file", path);
    await_ready(&l, 2);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fread(key, 1, sizeof key, f), sizeof key);
    fclose(f);
    pid_t all[3] = {l.pid, l.rank[0], l.rank[1]};
    for (int i = 0; i < 3; i++) {
        search(all[i], "environ", key);
        search(all[i], "cmdline", key);
        no_key_descriptor(all[i]);
    }
    assert_true(setting(l.rank[0], KEY_FD_ENV) > 2);
    assert_int_equal(setting(l.rank[1], "WORLD_SIZE"), 2);
    assert_int_equal(setting(l.rank[1], "LOCAL_RANK"), 1);
    assert_true(setting(l.rank[1], "MASTER_PORT") > 0);
    unlink(path);
    expect(&l, 0, "");
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "rank"))
        return as_rank(argv[2], argc > 3 ? argv[3] : NULL);
    unsetenv(KEY_FD_ENV);
    const struct CMUnitTest about_time[] = {
        cmocka_unit_test(killed), cmocka_unit_test(frozen), cmocka_unit_test(statuses),
        cmocka_unit_test(launcher_killed), cmocka_unit_test(signals)};
    if (patience_is_timed())
        return cmocka_run_group_tests(about_time, NULL, NULL);
    return test_run(NULL, NULL);
}
