/* run_memory_check_test.c: memory of the machine and its control groups, in simulated machines. */
#define _GNU_SOURCE
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/memory_check.h"

#include <cmocka.h>

static char root[64];

static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *cut = path + strlen(root) + 1; (cut = strchr(cut, '/')); *cut++ = '/') {
        *cut = 0;
        mkdir(path, 0777);
    }
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/weft-room-XXXXXX");
    return !mkdtemp(root);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void expect(uint64_t bytes, const char *word)
{
    const char *of;
    assert_int_equal(run_memory_available(root, &of), bytes);
    assert_non_null(strstr(of, word));
}

static void version_2(void **state)
{
    (void)state;
    expect(UINT64_MAX, "machine");
    put("/proc/meminfo", "MemTotal: 900 kB\nMemAvailable:    500 kB\n");
    expect(500 << 10, "machine");
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    expect(500 << 10, "machine");
    put("/sys/fs/cgroup/a/memory.max", "409600\n");
    put("/sys/fs/cgroup/a/memory.current", "204800\n");
    put("/sys/fs/cgroup/a/memory.stat", "anon 5\nfile 102400\nfile_mapped 7\n");
    expect(300 << 10, "control group");
    put("/sys/fs/cgroup/a/memory.current", "9000000\n"); /* over its limit: nothing is left */
    expect(0, "control group");
}

static void version_1(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemAvailable:    500 kB\n");
    put("/proc/self/cgroup", "7:cpu:/x\n4:memory:/docker/abc\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    expect(500 << 10, "machine");
    put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "204800\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "102400\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.stat", "cache 1\ntotal_cache 0\n");
    expect(100 << 10, "control group");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_1, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
