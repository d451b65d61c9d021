/* group_test.c: the CPU time that control groups allow, read below a made-up root. */
#define _GNU_SOURCE
#include "../../plugins/device/cpu/machine/group.h"
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

/* A file below the root, with its folders; NULL takes it away. */
static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", root, name);
    if (!text) {
        unlink(path);
        return;
    }
    for (char *cut = path + strlen(root) + 1; (cut = strchr(cut, '/')); *cut++ = '/') {
        *cut = 0;
        mkdir(path, 0777);
    }
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/weft-group-XXXXXX");
    return !mkdtemp(root);
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void expect(double cpus)
{
    const double got = cpu_group_limit(root);
    if (got < cpus - 1e-9 || got > cpus + 1e-9)
        fail_msg("%g CPUs instead of %g", got, cpus);
}

static void nothing(void **state)
{
    (void)state;
    expect(0);
    put("/proc/self/cgroup", "");
    expect(0);
    put("/proc/self/cgroup", "0::/\n");
    expect(0);
    put("/proc/self/cgroup", "no colons\n::\n0:\n:::::\n");
    expect(0);
}

/* The tightest of a group and those above it. */
static void version_2(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/jobs/seven\n");
    put("/sys/fs/cgroup/jobs/seven/cpu.max", "max 100000\n");
    expect(0);
    put("/sys/fs/cgroup/jobs/seven/cpu.max", "250000 100000\n");
    expect(2.5);
    put("/sys/fs/cgroup/jobs/cpu.max", "100000 50000\n");
    expect(2);
    put("/sys/fs/cgroup/cpu.max", "300000 100000\n");
    expect(2);
    put("/proc/self/cgroup", "0::/of/the/host/that/is/not/here\n"); /* as in a container */
    expect(3);
    put("/sys/fs/cgroup/cpu.max", "-5 0\n");
    expect(0);
}

static void version_1(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "9:memory:/m\n5:cpu,cpuacct:/docker/abc\n0::/\n");
    put("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
    expect(0);
    put("/sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "150000\n");
    put("/sys/fs/cgroup/cpu/docker/cpu.cfs_period_us", "100000\n");
    expect(1.5);
    put("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "50000\n");
    expect(0.5);
}

/* A path that is longer than any, and lines without an end. */
static void hostile(void **state)
{
    (void)state;
    char *text = malloc(100000);
    memset(text, '/', 99999);
    text[99999] = 0;
    memcpy(text, "0::", 3);
    put("/proc/self/cgroup", text);
    expect(0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_1, make_root, remove_root),
        cmocka_unit_test_setup_teardown(hostile, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
