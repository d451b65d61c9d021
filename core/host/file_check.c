/* host/file_check.c: checks of a file before it is loaded.
 *
 * Loading a plugin runs it, so only root and the user may be able to write it or to replace it; and
 * the loader maps a file as its headers say, so a truncated file would end the program with a bus
 * error instead of a message.
 *
 * All checks use descriptors, and object.c loads through the same ones: folders above the checked
 * ones may be renamed at any time without another file being loaded. */
#define _GNU_SOURCE /* O_PATH */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/number/check.h"
#include "host/object.h"

static bool is_ours(const struct stat *st)
{
    return st->st_uid == 0 || st->st_uid == geteuid();
}

/* Only root and the user may be able to rename files in a folder. In a folder with the sticky bit
 * only owners rename. A user's private group cannot be told from a project's, so the folder must be
 * closed to its group as well; an access list also shows as group bits. */
static weft_status trust_folder(int fd, const char *name)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return err_fail_errno(WEFT_USAGE, "cannot look at its folder %s", name);
    if (!is_ours(&st))
        return err_fail(WEFT_USAGE, "its folder %s belongs to user %u, who is neither root nor you",
                        name, st.st_uid);
    if (st.st_mode & S_ISVTX)
        return WEFT_OK;
    if (st.st_mode & S_IWOTH)
        return err_fail(WEFT_USAGE, "its folder %s may be written by everybody; chmod go-w %s",
                        name, name);
    if (st.st_mode & S_IWGRP)
        return err_fail(WEFT_USAGE, "its folder %s may be written by all of group %u; chmod g-w %s",
                        name, st.st_gid, name);
    return WEFT_OK;
}

/* "/a/b/c" to "/a/b"; false: there is no parent. */
static bool cut_last(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return false;
    slash[slash == path] = 0;
    return true;
}

static weft_status trust_at(int at, const char *path, const char *name, int *out)
{
    int fd = openat(at, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    weft_status st = trust_folder(fd, name);
    if (st == WEFT_OK && out)
        *out = fd;
    else if (fd >= 0)
        close(fd);
    return st;
}

/* The folder of the file t->real and the one above it; the first stays open. */
static weft_status trust_folders(trusted *t)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s", t->real);
    cut_last(name);
    weft_status st = trust_at(AT_FDCWD, name, name, &t->folder);
    if (st == WEFT_OK && cut_last(name))
        st = trust_at(t->folder, "..", name, NULL);
    return st;
}

/* If a link or a linked folder was followed, its owners are checked as well. */
static weft_status trust_way(const char *path)
{
    char name[PATH_MAX];
    struct stat link;
    if (lstat(path, &link))
        return err_fail_errno(WEFT_USAGE, "cannot look at it");
    if (S_ISLNK(link.st_mode) && !is_ours(&link))
        return err_fail(WEFT_USAGE, "it is a link of user %u, who is neither root nor you",
                        link.st_uid);
    if (snprintf(name, sizeof name, "%s", path) >= (int)sizeof name)
        return err_fail(WEFT_USAGE, "its path is longer than %d bytes", PATH_MAX);
    for (int up = 0; up < 2 && cut_last(name); up++) {
        weft_status st = trust_at(AT_FDCWD, name, name, NULL);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

static weft_status trust_file(trusted *t)
{
    t->file = openat(t->folder, strrchr(t->real, '/') + 1,
                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (t->file < 0 || fstat(t->file, &t->st))
        return err_fail_errno(WEFT_USAGE, "cannot open it");
    if (!S_ISREG(t->st.st_mode))
        return err_fail(WEFT_USAGE, "it is not a file");
    if (!is_ours(&t->st))
        return err_fail(WEFT_USAGE, "it belongs to user %u, who is neither root nor you",
                        t->st.st_uid);
    if (t->st.st_mode & (S_IWGRP | S_IWOTH))
        return err_fail(WEFT_USAGE, "others may write it (mode %03o); chmod go-w %s",
                        t->st.st_mode & 0777, t->real);
    return WEFT_OK;
}

weft_status host_file_check_open(const char *path, trusted *t)
{
    *t = (trusted){.folder = -1, .file = -1};
    if (!realpath(path, t->real)) {
        t->real[0] = 0;
        return err_fail_errno(WEFT_USAGE, "cannot find it");
    }
    weft_status st = trust_way(path);
    if (st == WEFT_OK)
        st = trust_folders(t);
    return st == WEFT_OK ? trust_file(t) : st;
}

void host_file_check_close(trusted *t)
{
    if (t->file >= 0)
        close(t->file);
    if (t->folder >= 0)
        close(t->folder);
    t->folder = t->file = -1;
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
        return err_fail(WEFT_USAGE, "it is not a shared object (no ELF header)");
    if (!same_machine(&e))
        return err_fail(WEFT_USAGE, "it is built for another kind of machine (ELF machine %u)",
                        e.e_machine);
    if (e.e_type != ET_DYN || e.e_phentsize != sizeof(Elf64_Phdr))
        return err_fail(WEFT_USAGE, "it is not a shared object (ELF type %u)", e.e_type);
    for (uint32_t i = 0; i < e.e_phnum; i++) {
        Elf64_Phdr p;
        uint64_t at;
        if (!check_add(e.e_phoff, (uint64_t)i * sizeof p, &at) || !read_at(fd, &p, sizeof p, at))
            return err_fail(WEFT_USAGE, "it is truncated: its program headers are past its end");
        if (p.p_type == PT_LOAD && !check_range(p.p_offset, p.p_filesz, bytes))
            return err_fail(WEFT_USAGE,
                            "it is truncated: it has %llu bytes, and more must be loaded",
                            (unsigned long long)bytes);
    }
    return WEFT_OK;
}

weft_status host_file_check_elf(const trusted *t)
{
    return judge_elf(t->file, (uint64_t)t->st.st_size);
}
