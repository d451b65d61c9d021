/* How soon is a death known? A rank that holds much memory is named before its process has ended,
 * and what stands in the shared page that makes this possible cannot mislead the launcher. This
 * program is its own rank: it is started again as `PROGRAM rank MODE`. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <test.h>

#include "job/control/alive.h"
#include "launch/dying.h"
#include "launch/launch.h"
#include "ranks.h"

#define N 3
#define VICTIM 1
#define TRIES 4

/* --- the program as a rank --- */

/* Memory in small pages takes the kernel long to free. */
static void take_memory(void)
{
    const size_t bytes = (size_t)1 << 30;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        abort();
    madvise(at, bytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < bytes; i += 4096)
        at[i] = 1;
}

/* All words of the page say that their ranks are dead, then alive, many times over. */
static uint32_t *map_page(size_t *bytes)
{
    struct stat s;
    const int fd = (int)strtol(getenv(ALIVE_FD_ENV), NULL, 10);
    if (fstat(fd, &s))
        abort();
    *bytes = (size_t)s.st_size;
    void *page = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        abort();
    return page;
}

static void scribble(uint32_t *page, size_t bytes)
{
    for (uint32_t i = 0; i < 20000; i++) {
        memset(page, i % 2 ? 0x7f : 0x3f, bytes);
        for (uint32_t r = 0; r < N; r++)
            syscall(SYS_futex, &page[r], FUTEX_WAKE, 8, NULL, NULL, 0);
    }
}

static int as_rank(const char *mode)
{
    job_identity who;
    job *j = NULL;
    alarm(290);
    weft_status st = job_identify(&who);
    size_t bytes = 0; /* mapped before job_join() closes the descriptor */
    uint32_t *page = !strcmp(mode, "scribble") && !who.rank ? map_page(&bytes) : NULL;
    if (st == WEFT_OK)
        st = job_join(&who, NULL, &j);
    if (st == WEFT_OK && page)
        scribble(page, bytes);
    if (st == WEFT_OK && who.rank == VICTIM && !strcmp(mode, "big"))
        take_memory();
    if (st == WEFT_OK)
        st = job_exchange(j, "start", NULL, 0, NULL);
    dprintf(STDERR_FILENO, "ready %u %d\n", who.rank, getpid());
    for (uint32_t ms = 0; st == WEFT_OK && (ms < 400 || strcmp(mode, "well") != 0); ms++) {
        st = job_failure(j);
        usleep(1000);
    }
    if (st != WEFT_OK)
        dprintf(STDERR_FILENO, "knows %u %llu %s\n", who.rank, (unsigned long long)clock_ns(),
                err_text());
    const bool well = job_leave(j, st, err_text());
    job_free(j);
    return st != WEFT_OK || !well;
}

/* --- the launcher, as a child of the test --- */

typedef struct told {
    pid_t launcher, victim;
    int err;
    char text[16384];
    size_t n;
} told;

static void start(told *t, const char *mode)
{
    int ends[2];
    *t = (told){0};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    t->launcher = fork();
    if (t->launcher == 0) {
        char *argv[] = {(char[]){"weft-test"}, (char[]){"rank"}, strdup(mode), NULL};
        dup2(ends[1], STDERR_FILENO);
        alarm(290);
        _exit(launch_ranks(N, argv, false));
    }
    close(ends[1]);
    t->err = ends[0];
}

/* Read until `word` has come `times` times. */
static void read_until(told *t, const char *word, uint32_t times)
{
    for (;;) {
        uint32_t n = 0;
        for (const char *at = t->text; (at = strstr(at, word)); at++)
            n++;
        if (n >= times)
            return;
        ssize_t got = read(t->err, t->text + t->n, sizeof t->text - 1 - t->n);
        if (got <= 0)
            fail_msg("'%s' only %u times in:\n%s", word, n, t->text);
        t->n += (size_t)got;
    }
}

static void await_ready(told *t)
{
    read_until(t, "ready ", N);
    char name[32];
    snprintf(name, sizeof name, "ready %u ", VICTIM);
    t->victim = (pid_t)strtol(strstr(t->text, name) + strlen(name), NULL, 10);
    usleep(100000);
}

static int finish(told *t)
{
    ssize_t got;
    while ((got = read(t->err, t->text + t->n, sizeof t->text - 1 - t->n)) > 0)
        t->n += (size_t)got;
    int status;
    assert_int_equal(waitpid(t->launcher, &status, 0), t->launcher);
    close(t->err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* When rank `rank` knew, and that it knew the right thing. */
static uint64_t knew(const told *t, uint32_t rank)
{
    char name[64];
    snprintf(name, sizeof name, "knows %u ", rank);
    const char *at = strstr(t->text, name);
    if (!at)
        fail_msg("rank %u was told nothing:\n%s", rank, t->text);
    char *end;
    uint64_t ns = strtoull(at + strlen(name), &end, 10);
    /* The launcher knows how it ended; where it does not get to say so for 400 ms, it is gone. */
    const bool any = !patience_is_timed();
    snprintf(name, sizeof name, " rank %u %s", VICTIM, any ? "" : "was killed by signal 9");
    if (strncmp(end, name, strlen(name)) != 0)
        fail_msg("rank %u knows something else:\n%s", rank, t->text);
    return ns;
}

/* --- tests --- */

/* On a busy machine a rank may not get to run before the end; what it is told is the same. */
TEST(before_the_end)
{
    double told_ms = 0, ended_ms = 0;
    for (int i = 0; i < TRIES; i++) {
        told t;
        start(&t, "big");
        await_ready(&t);
        const int fd = pidfd_open(t.victim, 0);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const uint64_t at = clock_ns();
        kill(t.victim, SIGKILL);
        assert_int_equal(poll(&p, 1, RANKS_WAIT_MS), 1);
        const uint64_t ended = clock_ns();
        close(fd);
        assert_int_equal(finish(&t), 1);
        const uint64_t a = knew(&t, 0), b = knew(&t, 2), last = a > b ? a : b;
        told_ms = (double)(last - at) * 1e-6;
        ended_ms = (double)(ended - at) * 1e-6;
        print_message("named after %.1f ms, ended after %.1f ms\n", told_ms, ended_ms);
        if (told_ms < ended_ms / 2 || !patience_is_timed())
            return;
    }
    fail_msg("the others knew only after %.1f ms, and the process had ended after %.1f ms", told_ms,
             ended_ms);
}

static char core_pattern[128]; /* the machine's, while core_dump() has its own */
static int core_pattern_fd = -1;

static int restore_core_pattern(void **state)
{
    (void)state;
    if (core_pattern_fd < 0)
        return 0;
    const size_t n = strlen(core_pattern);
    const bool good = pwrite(core_pattern_fd, core_pattern, n, 0) == (ssize_t)n;
    close(core_pattern_fd);
    return good ? 0 : -1;
}

/* The kernel hands a core dump to a program that does not read it before it is told to: meanwhile
 * the rank gives no sign of life, and is named for what it is. That changes a setting of the whole
 * machine for some seconds, so nothing else runs then: `make integration`. */
static void core_dump(void **state)
{
    (void)state;
    const int fd = open("/proc/sys/kernel/core_pattern", O_RDWR | O_CLOEXEC);
    if (fd < 0 || read(fd, core_pattern, sizeof core_pattern - 1) <= 0)
        skip();
    core_pattern_fd = fd;
    static const char slow[] = "|/bin/sleep 8";
    told t;
    start(&t, "big");
    await_ready(&t);
    assert_int_equal(pwrite(fd, slow, sizeof slow - 1, 0), sizeof slow - 1);
    kill(t.victim, SIGSEGV);
    assert_int_equal(finish(&t), 1);
    char wanted[128];
    snprintf(wanted, sizeof wanted, "error: rank %u was killed by signal 11 (SIGSEGV)", VICTIM);
    if (!strstr(t.text, wanted) || strstr(t.text, "frozen"))
        fail_msg("it was named for something else:\n%s", t.text);
}

TEST(hostile_page)
{
    told t;
    start(&t, "scribble");
    await_ready(&t);
    usleep(300000);
    if (strstr(t.text, "knows"))
        fail_msg("somebody was declared dead:\n%s", t.text);
    kill(t.victim, SIGKILL);
    assert_int_equal(finish(&t), 1);
    knew(&t, 0);
    knew(&t, 2);
}

TEST(good_end)
{
    told t;
    start(&t, "well");
    assert_int_equal(finish(&t), 0);
    assert_null(strstr(t.text, "knows"));
    assert_null(strstr(t.text, "error"));
}

int main(int argc, char **argv)
{
    log_setup(WEFT_LOG_ERROR, -1);
    if (argc == 3 && !strcmp(argv[1], "rank"))
        return as_rank(argv[2]);
    unsetenv(KEY_FD_ENV);
    const struct CMUnitTest about_time[] = {
        cmocka_unit_test(before_the_end),
        cmocka_unit_test_teardown(core_dump, restore_core_pattern),
    };
    if (patience_is_timed())
        return cmocka_run_group_tests(about_time, NULL, NULL);
    return test_run(NULL, NULL);
}
