/* check/file/static.c: what the file says, without running anything of it. */
#define _GNU_SOURCE /* dladdr1 */
#include "base/err.h"
#include "check/file/elf.h"
#include "check/file/file.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY "weft_plugin_entry"

/* The file mapped for reading, as long as the process. */
static check_elf read_file(const check_run *r)
{
    struct stat st;
    check_elf e;
    const int fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || st.st_size <= 0)
        check_fail("the file cannot be opened for reading");
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        check_fail("the file cannot be mapped");
    if (!check_elf_read(&e, at, (size_t)st.st_size))
        check_fail("the file is not a shared object for this machine: %s", e.why);
    return e;
}

void check_file_exports(check_run *r)
{
    const check_elf e = read_file(r);
    bool defined, global, weak, entry = false;
    const char *name;
    for (uint64_t i = 0; (name = check_elf_symbol(&e, i, &defined, &global, &weak)); i++) {
        if (!defined || !global)
            continue;
        if (strcmp(name, ENTRY) != 0)
            check_fail("the object exports %s; a plugin exports " ENTRY " alone, so that two "
                       "plugins cannot meet (build with hidden visibility, or an export map)",
                       name);
        entry = true;
    }
    /* Without an own entry, check 2 says where the loader would find one. */
    (void)entry;
}

void check_file_own_entry(check_run *r)
{
    const check_elf e = read_file(r);
    bool defined, global, weak;
    const char *name;
    for (uint64_t i = 0; (name = check_elf_symbol(&e, i, &defined, &global, &weak)); i++)
        if (defined && global && !strcmp(name, ENTRY))
            return;
    check_fail("the object does not define " ENTRY " with default visibility; include "
               "weft/plugin.h and use WEFT_PLUGIN(), once");
}

/* Whether the program itself, not one of its libraries, defines the symbol. The runtime of a
 * sanitizer may be linked into the program. */
static bool is_of_program(const char *name)
{
    static const char *const runtimes[] = {"__asan_", "__ubsan_", "__tsan_", "__sanitizer_"};
    for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++)
        if (!strncmp(name, runtimes[i], strlen(runtimes[i])))
            return false;
    struct link_map *defined = NULL;
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, name);
    return symbol && dladdr1(symbol, &info, (void **)&defined, RTLD_DL_LINKMAP) && defined &&
           !*defined->l_name;
}

void check_file_undefined(check_run *r)
{
    const check_elf e = read_file(r);
    bool defined, global, weak;
    const char *name;
    if (!dlopen(r->path, RTLD_NOW | RTLD_LOCAL))
        check_fail("the loader refuses the file: %s", dlerror());
    for (uint64_t i = 0; (name = check_elf_symbol(&e, i, &defined, &global, &weak)); i++)
        if (!defined && global && !weak && *name && is_of_program(name))
            check_fail("the object takes the symbol %s from the program; a plugin gets all that it "
                       "may call from the host table",
                       name);
}

void check_file_text_relocations(check_run *r)
{
    const check_elf e = read_file(r);
    uint64_t v;
    if (check_elf_dynamic(&e, DT_TEXTREL, &v) ||
        (check_elf_dynamic(&e, DT_FLAGS, &v) && v & DF_TEXTREL))
        check_fail("the object has text relocations: its code pages would be made writable; "
                   "compile with -fPIC");
}

void check_file_stack(check_run *r)
{
    const check_elf e = read_file(r);
    uint32_t flags;
    uint64_t bytes;
    if (!check_elf_segment(&e, PT_GNU_STACK, &flags, &bytes))
        check_fail("the object has no PT_GNU_STACK header, which means an executable stack; link "
                   "with -z noexecstack");
    if (flags & PF_X)
        check_fail("the object asks for an executable stack; link with -z noexecstack (and mark "
                   "assembler files with .note.GNU-stack)");
}

static void check_path(const char *path)
{
    static const char *const system[] = {"/lib", "/lib64", "/usr/lib", "/usr/lib64"};
    for (const char *at = path;; at++) {
        const size_t n = strcspn(at, ":");
        bool fine = n >= 7 && !strncmp(at, "$ORIGIN", 7) && (n == 7 || at[7] == '/');
        for (size_t i = 0; i < sizeof system / sizeof *system; i++) {
            const size_t k = strlen(system[i]);
            fine = fine || (n >= k && !strncmp(at, system[i], k) && (n == k || at[k] == '/'));
        }
        if (!fine)
            check_fail("the run path '%s' has the entry '%.*s'; only $ORIGIN and folders of the "
                       "system are safe: whoever can write there replaces its libraries",
                       path, (int)n, at);
        at += n;
        if (!*at)
            return;
    }
}

void check_file_run_path(check_run *r)
{
    const check_elf e = read_file(r);
    const int64_t tags[] = {DT_RUNPATH, DT_RPATH};
    for (int t = 0; t < 2; t++) {
        uint64_t v;
        const char *path = check_elf_dynamic_text(&e, tags[t], 0);
        if (path)
            check_path(path);
        else if (check_elf_dynamic(&e, tags[t], &v))
            check_fail("the run path of the object cannot be read");
    }
}

void check_file_tls(check_run *r)
{
    const check_elf e = read_file(r);
    uint32_t flags;
    uint64_t bytes, v;
    if (check_elf_dynamic(&e, DT_FLAGS, &v) && v & DF_STATIC_TLS &&
        check_elf_segment(&e, PT_TLS, &flags, &bytes) && bytes > 1024)
        check_fail("the object has %llu bytes of thread-local storage in the static model, of "
                   "which a process has little left when plugins are loaded; 1024 at most, or "
                   "compile without -ftls-model=initial-exec",
                   (unsigned long long)bytes);
}

void check_file_owner(check_run *r)
{
    host *h;
    const host_component *const *all;
    uint32_t n;
    struct stat st;
    if (stat(r->path, &st))
        check_fail("the file cannot be looked at");
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        check_fail("others may write the file (mode %03o); chmod go-w %s", st.st_mode & 0777,
                   r->path);
    if (host_create(NULL, &h) != WEFT_OK)
        check_fail("%s", err_text());
    if (host_load_file(h, r->path, &all, &n) != WEFT_OK && *err_name(ERR_FOLDER))
        check_fail("%s", err_text());
}
