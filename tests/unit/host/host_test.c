/* Where plugins are looked for, and which files are never loaded. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "host/host.h"

#include <cmocka.h>

static const char *const rules[] = {"weft.rule/1", NULL};

static char place[64], folder[80], file[96]; /* DIR, DIR/optim, DIR/optim/one.so */

static int begin(void **state)
{
    (void)state;
    snprintf(place, sizeof place, "/tmp/weft-host-XXXXXX");
    if (!mkdtemp(place))
        return 1;
    snprintf(folder, sizeof folder, "%s/optim", place);
    snprintf(file, sizeof file, "%s/one.so", folder);
    return mkdir(folder, 0755);
}

static int end(void **state)
{
    (void)state;
    unsetenv("WEFT_PLUGIN_PATH");
    remove(file);
    rmdir(folder);
    return rmdir(place);
}

static void put_bytes(const void *bytes, size_t n)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(file, 0644), 0);
}

static void find_says(const char *name, const char *sentence)
{
    host *h = NULL;
    const host_component *c = NULL;
    assert_int_equal(host_create(place, &h), WEFT_OK);
    assert_int_equal(host_find(h, "optim", name, rules, &c), WEFT_USAGE);
    if (strncmp(err_text(), sentence, strlen(sentence)))
        fail_msg("'%s' does not begin with '%s'", err_text(), sentence);
    host_destroy(h);
}

/* The file one.so is refused with "PATH: why". */
static void refused(const char *why)
{
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s: %s", file, why);
    find_says("one", sentence);
}

static void odd_names_are_no_names(void **state)
{
    (void)state;
    static const char *const odd[] = {"../one", "a/b", "One", "",    "..",
                                      "a..b",   ".a",  "a.",  "a b", "a;b"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char sentence[128];
        snprintf(sentence, sizeof sentence,
                 "'%s' is not a plugin name (optim); names are made of "
                 "a-z, 0-9, single '.' and '_'",
                 odd[i]);
        find_says(odd[i], sentence);
    }
}

static void the_places_are_named_in_order(void **state)
{
    (void)state;
    char exe[512], dirs[128], sentence[1024];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    assert_true(n > 0);
    exe[n] = 0;
    for (int up = 0; up < 2; up++)
        *strrchr(exe, '/') = 0;
    setenv("WEFT_PLUGIN_PATH", ":/not/here:", 1);
    host *h = NULL;
    const host_component *c = NULL;
    snprintf(dirs, sizeof dirs, "%s:/nor/here", place);
    assert_int_equal(host_create(dirs, &h), WEFT_OK);
    assert_int_equal(host_find(h, "optim", "nothing.like.it", rules, &c), WEFT_USAGE);
    snprintf(sentence, sizeof sentence,
             "no optim plugin 'nothing.like.it' in %s, /nor/here/optim, "
             "/not/here/optim, %s/lib/weft/optim",
             folder, exe);
    assert_memory_equal(err_text(), sentence, strlen(sentence));
    host_destroy(h);

    char *many = calloc(1, 4096);
    for (int i = 0; i < 65; i++)
        strncat(many, "/a:", 4);
    assert_int_equal(host_create(many, &h), WEFT_USAGE);
    assert_string_equal(err_text(), "more than 64 folders to search for plugins");
    free(many);
}

static void foreign_files_are_refused(void **state)
{
    (void)state;
    put_bytes("#!/bin/sh\necho hello to everybody who reads this file as a plugin\n", 67);
    refused("it is not a shared object (no ELF header)");
    put_bytes("", 0);
    refused("it is not a shared object (no ELF header)");
    put_bytes(ELFMAG, 4);
    refused("it is not a shared object (no ELF header)");
    remove(file);
    assert_int_equal(mkdir(file, 0755), 0);
    refused("it is not a file");
    rmdir(file);
    assert_int_equal(symlink("/not/here.so", file), 0);
    find_says("one", "no optim plugin 'one'");
}

static void broken_objects_are_refused(void **state)
{
    (void)state;
    FILE *f = fopen("/proc/self/exe", "rb"); /* itself an ELF file of type DYN */
    char *own = malloc(1 << 24);
    size_t n = fread(own, 1, 1 << 24, f);
    fclose(f);
    assert_true(n > 8192);
    Elf64_Ehdr *e = (Elf64_Ehdr *)own;
    char sentence[128];

    size_t loaded = 0; /* the bytes that the loader maps; what follows is for debuggers */
    for (uint32_t i = 0; i < e->e_phnum; i++) {
        const Elf64_Phdr *p = (const Elf64_Phdr *)(own + e->e_phoff) + i;
        if (p->p_type == PT_LOAD && p->p_offset + p->p_filesz > loaded)
            loaded = p->p_offset + p->p_filesz;
    }
    put_bytes(own, loaded - 1);
    snprintf(sentence, sizeof sentence,
             "it is truncated: it has %zu bytes, and more must be loaded", loaded - 1);
    refused(sentence);
    put_bytes(own, sizeof *e + 10);
    refused("it is truncated: its program headers are past its end");
    put_bytes(own, n);
    refused("the loader refuses it: ");
    uint16_t machine = e->e_machine;
    e->e_machine = EM_MIPS;
    put_bytes(own, n);
    refused("it is built for another kind of machine (ELF machine 8)");
    e->e_machine = machine;
    e->e_type = ET_CORE;
    put_bytes(own, n);
    refused("it is not a shared object (ELF type 4)");
    e->e_type = ET_DYN;
    e->e_phoff = UINT64_MAX - 16;
    put_bytes(own, n);
    refused("it is truncated: its program headers are past its end");
    free(own);
}

static void what_others_can_write_is_refused(void **state)
{
    (void)state;
    char sentence[256];
    put_bytes("x", 1);
    chmod(file, 0664);
    snprintf(sentence, sizeof sentence, "others may write it (mode 664); chmod go-w %s", file);
    refused(sentence);
    chmod(file, 0646);
    snprintf(sentence, sizeof sentence, "others may write it (mode 646); chmod go-w %s", file);
    refused(sentence);
    chmod(file, 0644);
    chmod(folder, 0777);
    snprintf(sentence, sizeof sentence, "its folder %s may be written by everybody; chmod go-w %s",
             folder, folder);
    refused(sentence);
    chmod(folder, 0755);
    chmod(place, 0777);
    snprintf(sentence, sizeof sentence, "its folder %s may be written by everybody; chmod go-w %s",
             place, place);
    refused(sentence);
    chmod(place, 0700);
    refused("it is not a shared object");
}

/* As umask 002 makes them: whoever is in the group could put another file there. */
static void what_a_group_can_write_is_refused(void **state)
{
    (void)state;
    char sentence[256];
    put_bytes("x", 1);
    chmod(folder, 0775);
    snprintf(sentence, sizeof sentence,
             "its folder %s may be written by all of group %u; chmod g-w %s", folder, getegid(),
             folder);
    refused(sentence);
    chmod(folder, 02775);
    refused(sentence);
    chmod(folder, 01775); /* only owners rename there */
    refused("it is not a shared object");
    chmod(folder, 0755);
    chmod(place, 0770);
    snprintf(sentence, sizeof sentence,
             "its folder %s may be written by all of group %u; chmod g-w %s", place, getegid(),
             place);
    refused(sentence);
    chmod(place, 0700);
    refused("it is not a shared object");
}

/* The folders above the two of the file count as well. */
static void the_whole_way_is_checked(void **state)
{
    (void)state;
    char above[80], deep[96], from[112], moved[128], sentence[512];
    const host_component *c;
    put_bytes("x", 1);
    snprintf(above, sizeof above, "%s/above", place);
    snprintf(deep, sizeof deep, "%s/a", above);
    snprintf(from, sizeof from, "%s/optim", deep);
    snprintf(moved, sizeof moved, "%s/one.so", from);
    assert_int_equal(mkdir(above, 0755) | mkdir(deep, 0755) | mkdir(from, 0755), 0);
    assert_int_equal(rename(file, moved), 0);
    /* a group that is not the user's own, which only root can give */
    for (mode_t mode = chown(above, -1, 4321) ? 0757 : 0775; mode; mode = mode == 0775   ? 0757
                                                                          : mode == 0757 ? 01777
                                                                                         : 0) {
        host *h;
        chmod(above, mode);
        assert_int_equal(host_create(deep, &h), WEFT_OK);
        assert_int_equal(host_find(h, "optim", "one", rules, &c), WEFT_USAGE);
        snprintf(sentence, sizeof sentence, "%s: its folder %s may be written by %s", moved, above,
                 mode == 0775 ? "all of group" : "everybody");
        if (mode & S_ISVTX)
            snprintf(sentence, sizeof sentence, "%s: it is not a shared object", moved);
        assert_memory_equal(err_text(), sentence, strlen(sentence));
        err_clear();
        host_destroy(h);
    }
    remove(moved);
    rmdir(from);
    rmdir(deep);
    rmdir(above);
}

/* A link is as good as its owner, and as the folder that it lies in. */
static void a_link_of_others_is_refused(void **state)
{
    (void)state;
    char real[96], sentence[512];
    put_bytes("x", 1);
    snprintf(real, sizeof real, "%s/real", place);
    assert_int_equal(rename(file, real), 0);
    assert_int_equal(symlink(real, file), 0);
    snprintf(sentence, sizeof sentence, "%s: it is not a shared object", real);
    find_says("one", sentence);
    chmod(folder, 0775);
    snprintf(sentence, sizeof sentence, "%s: its folder %s may be written by all of group", real,
             folder);
    find_says("one", sentence);
    chmod(folder, 0755);
    const bool given = !lchown(file, 4321, -1);
    if (given) {
        snprintf(sentence, sizeof sentence,
                 "%s: it is a link of user 4321, who is neither root nor you", real);
        find_says("one", sentence);
    }
    remove(real);
}

static void what_belongs_to_others_is_refused(void **state)
{
    (void)state;
    char sentence[512];
    put_bytes("x", 1);
    if (chown(file, 4321, -1)) {
        print_message("only root can give files away; not tested\n");
        skip();
    }
    refused("it belongs to user 4321, who is neither root nor you");
    assert_int_equal(chown(file, 0, -1), 0);
    assert_int_equal(chown(folder, 4321, -1), 0);
    snprintf(sentence, sizeof sentence,
             "its folder %s belongs to user 4321, who is neither root nor you nor the owner of the "
             "program; copy it into a folder of yours, or say that you trust this user: "
             "WEFT_PLUGIN_OWNER=4321",
             folder);
    refused(sentence);
    setenv("WEFT_PLUGIN_OWNER", "432", 1);
    refused(sentence);
    setenv("WEFT_PLUGIN_OWNER", "4321", 1);
    refused("it is not a shared object");
    assert_int_equal(chown(folder, 65534, -1), 0);
    snprintf(
        sentence, sizeof sentence,
        "its folder %s belongs to user 65534, who is neither root nor you nor the owner of the "
        "program (or a user whom this user namespace does not map, such as root: outside it",
        folder);
    refused(sentence);
    unsetenv("WEFT_PLUGIN_OWNER");
}

static void a_failed_search_says_what_it_passed_over(void **state)
{
    (void)state;
    put_bytes("x", 1);
    host *h = NULL;
    const host_component *c = NULL, **all = NULL;
    uint32_t n = 0;
    char sentence[512];
    assert_int_equal(host_create(place, &h), WEFT_OK);
    assert_int_equal(host_find(h, "optim", "two", rules, &c), WEFT_USAGE);
    snprintf(sentence, sizeof sentence,
             "files there that cannot be used: 1, the first: %s: it is not a shared object (no ELF "
             "header)",
             file);
    assert_non_null(strstr(err_text(), sentence));
    host_list(h, "comm", &all, &n); /* looks at no file of optim */
    for (uint32_t i = 0; i < n; i++)
        assert_string_not_equal(all[i]->path, file);
    host_list(h, NULL, &all, &n);
    bool seen = false;
    for (uint32_t i = 0; i < n; i++)
        seen = seen ||
               (!strcmp(all[i]->name, "one") && !all[i]->iface && !strcmp(all[i]->path, file) &&
                strstr(all[i]->help, "it is not a shared object"));
    assert_true(seen);
    host_destroy(h);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(odd_names_are_no_names),
        TEST(the_places_are_named_in_order),
        TEST(foreign_files_are_refused),
        TEST(broken_objects_are_refused),
        TEST(what_others_can_write_is_refused),
        TEST(what_a_group_can_write_is_refused),
        TEST(the_whole_way_is_checked),
        TEST(a_link_of_others_is_refused),
        TEST(what_belongs_to_others_is_refused),
        TEST(a_failed_search_says_what_it_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
