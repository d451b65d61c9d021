/* host/trust.c: what must hold of a file before it is loaded.
 *
 * Loading a plugin is running it, so nobody but root and ourselves may be able to write it; and the
 * loader maps a file as its headers say, so a file cut short would end the program with a bus error
 * instead of a sentence. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "host/object.h"

static bool is_ours(const struct stat *st)
{
    return st->st_uid == 0 || st->st_uid == geteuid();
}

/* A folder that everybody may write and where everybody's files may be renamed is no place. */
static weft_status trust_folder(const char *folder)
{
    struct stat st;
    if (stat(folder, &st))
        return fail_errno(WEFT_USAGE, "cannot look at its folder %s", folder);
    if (!is_ours(&st))
        return fail(WEFT_USAGE, "its folder %s belongs to user %u, who is neither root nor you",
                    folder, st.st_uid);
    if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
        return fail(WEFT_USAGE, "its folder %s may be written by everybody; chmod o-w %s", folder,
                    folder);
    return WEFT_OK;
}

/* The folder of the kind and the one above it. */
static weft_status trust_folders(const char *file)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", file);
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(folder, '/');
        if (!slash || slash == folder)
            break;
        *slash = 0;
        weft_status st = trust_folder(folder);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

weft_status trust_file(const char *path, struct stat *st)
{
    if (stat(path, st))
        return fail_errno(WEFT_USAGE, "cannot look at it");
    if (!S_ISREG(st->st_mode))
        return fail(WEFT_USAGE, "it is not a file");
    if (!is_ours(st))
        return fail(WEFT_USAGE, "it belongs to user %u, who is neither root nor you", st->st_uid);
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return fail(WEFT_USAGE, "others may write it (mode %03o); chmod go-w %s",
                    st->st_mode & 0777, path);
    return trust_folders(path);
}

static bool read_at(int fd, void *out, size_t bytes, uint64_t at)
{
    return at < INT64_MAX && pread(fd, out, bytes, (off_t)at) == (ssize_t)bytes;
}

static bool same_machine(const Elf64_Ehdr *e)
{
    Elf64_Ehdr own;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool known = fd >= 0 && read_at(fd, &own, sizeof own, 0);
    if (fd >= 0)
        close(fd);
    return !known ||
           (own.e_machine == e->e_machine && own.e_ident[EI_DATA] == e->e_ident[EI_DATA] &&
            own.e_ident[EI_CLASS] == e->e_ident[EI_CLASS]);
}

static weft_status judge_elf(int fd, uint64_t bytes)
{
    Elf64_Ehdr e;
    if (!read_at(fd, &e, sizeof e, 0) || memcmp(e.e_ident, ELFMAG, SELFMAG))
        return fail(WEFT_USAGE, "it is no shared object (no ELF header)");
    if (!same_machine(&e))
        return fail(WEFT_USAGE, "it is built for another kind of machine (ELF machine %u)",
                    e.e_machine);
    if (e.e_type != ET_DYN || e.e_phentsize != sizeof(Elf64_Phdr))
        return fail(WEFT_USAGE, "it is no shared object (ELF type %u)", e.e_type);
    for (uint32_t i = 0; i < e.e_phnum; i++) {
        Elf64_Phdr p;
        uint64_t at;
        if (!ck_add(e.e_phoff, (uint64_t)i * sizeof p, &at) || !read_at(fd, &p, sizeof p, at))
            return fail(WEFT_USAGE, "it is cut short: its program headers lie past its end");
        if (p.p_type == PT_LOAD && !ck_range(p.p_offset, p.p_filesz, bytes))
            return fail(WEFT_USAGE, "it is cut short: %llu bytes, and more are to be loaded",
                        (unsigned long long)bytes);
    }
    return WEFT_OK;
}

weft_status trust_elf(const char *path, uint64_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(WEFT_USAGE, "cannot open it");
    weft_status st = judge_elf(fd, bytes);
    close(fd);
    return st;
}
