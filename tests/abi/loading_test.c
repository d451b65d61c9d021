/* Is what is loaded the file that was checked, under its own name, wherever a component lies?
 *
 * PLUGINS is the folder of refusals_test.c: one/optim/good.so is lawful, and opening the one in
 * broken/ fails with WEFT_ABSENT, which tells the two apart. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "host/host.h"

#include <test.h>
#undef fail

static const char *const rules[] = {"weft.rule/1", NULL};

static void copy(const char *from, const char *to)
{
    char bytes[4096];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, in));)
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(to, 0644), 0);
}

/* DIR/NAME/KIND/good.so, a copy of `from`. */
static void put(const char *dir, const char *name, const char *kind, const char *from)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/%s/%s", dir, name, kind);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/%s/%s/good.so", dir, name, kind);
    copy(from, path);
}

static void drop(const char *dir, const char *name, const char *kind)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s/%s/good.so", dir, name, kind);
    unlink(path);
    for (int up = 0; up < 2; up++) {
        *strrchr(path, '/') = 0;
        rmdir(path);
    }
}

/* The folders `a` and `b` of this one change places when the loader is called next. */
static const char *swapped;

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);

void *__wrap_dlopen(const char *path, int flags)
{
    char a[128], b[128];
    if (swapped) {
        snprintf(a, sizeof a, "%s/a", swapped);
        snprintf(b, sizeof b, "%s/b", swapped);
        assert_int_equal(renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE), 0);
    }
    swapped = NULL;
    return __real_dlopen(path, flags);
}

TEST(what_was_checked_is_loaded)
{
    char dir[] = "/tmp/weft-load-XXXXXX", path[128];
    host *h = NULL;
    const host_component *c = NULL;
    assert_non_null(mkdtemp(dir));
    put(dir, "a", "optim", PLUGINS "/one/optim/good.so");
    put(dir, "b", "optim", PLUGINS "/broken/optim/good.so");
    log_setup(WEFT_LOG_ERROR, -1);
    snprintf(path, sizeof path, "%s/a", dir);
    assert_int_equal(host_create(path, &h), WEFT_OK);
    swapped = dir;
    assert_int_equal(host_find(h, "optim", "good", rules, &c), WEFT_OK);
    assert_null(swapped);
    assert_int_equal(host_open(h, c), WEFT_OK); /* WEFT_ABSENT: that of the other folder */
    host_destroy(h);
    log_setup(WEFT_LOG_INFO, -1);
    drop(dir, "a", "optim");
    drop(dir, "b", "optim");
    rmdir(dir);
}

TEST(a_loaded_object_has_its_path)
{
    host *h = NULL;
    const host_component *c = NULL;
    Dl_info info;
    assert_int_equal(host_create(PLUGINS "/one", &h), WEFT_OK);
    assert_int_equal(host_find(h, "optim", "good", rules, &c), WEFT_OK);
    assert_true(dladdr(c->manifest, &info));
    assert_string_equal(info.dli_fname, PLUGINS "/one/optim/good.so");
    struct link_map *m = dlopen(NULL, RTLD_NOW);
    for (; m; m = m->l_next)
        assert_null(strstr(m->l_name, "/proc/"));
    host_destroy(h);
}

/* good.so in the folder of another kind, alone and beside a file that cannot be used. */
TEST(a_component_is_found_in_any_folder)
{
    char dir[] = "/tmp/weft-load-XXXXXX", place[64];
    assert_non_null(mkdtemp(dir));
    put(dir, "p", "parallel", PLUGINS "/one/optim/good.so");
    snprintf(place, sizeof place, "%s/p", dir);
    host *h = NULL;
    const host_component *c = NULL;
    assert_int_equal(host_create(place, &h), WEFT_OK);
    assert_int_equal(host_find(h, "optim", "good_too", rules, &c), WEFT_OK);
    assert_int_equal(host_find(h, "optim", "good", rules, &c), WEFT_OK);
    assert_string_equal(c->kind, "optim");
    assert_memory_equal(c->path, place, strlen(place));
    assert_int_equal(host_find(h, "optim", "god", rules, &c), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "did you mean 'good'?"));
    host_destroy(h);
    drop(dir, "p", "parallel");
    rmdir(dir);
}
