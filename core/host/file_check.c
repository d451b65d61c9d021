/* host/file_check.c: checks of a file before it is loaded.
 *
 * Loading a plugin runs it, so only root, the user and the owner of the program, which runs
 * already, may be able to write it or to replace it; and the loader maps a file as its headers say,
 * so a truncated file would end the program with a bus error instead of a message.
 *
 * All checks use descriptors, from the root to the file, and object.c loads through the same ones:
 * a folder may be renamed at any time without an unchecked file being loaded. */
#define _GNU_SOURCE /* O_PATH */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/number/check.h"
#include "host/object.h"

weft_status host_check_path(const char *path)
{
    char shown[PATH_MAX];
    snprintf(shown, sizeof shown, "%s", path);
    log_plain(shown);
    const bool lines = strpbrk(shown, "\n\t");
    for (char *at = shown; (at = strpbrk(at, "\n\t"));)
        *at = '?';
    if (!lines && !strncmp(shown, path, sizeof shown - 1))
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "'%.1000s': the path of a plugin has control characters, shown as '?'; rename "
                    "the file or its folder",
                    shown);
}

weft_status host_program_beside(const char *name, char out[PATH_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = 0;
    char *slash = strrchr(out, '/');
    const size_t capacity = slash ? (size_t)(out + PATH_MAX - slash) - 1 : 0;
    if (!slash || strlen(name) >= capacity)
        return err_fail(WEFT_ABSENT, "this program cannot find itself: /proc/self/exe");
    memcpy(slash + 1, name, strlen(name) + 1);
    return WEFT_OK;
}

bool host_program_prefix(char out[PATH_MAX])
{
    if (host_program_beside("", out) != WEFT_OK)
        return false;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(out, '/');
        if (!slash)
            return false;
        *slash = 0;
    }
    return true;
}

/* Whose ids a user namespace does not map is shown as this user: all of them look alike. */
#define UNMAPPED 65534u

/* Whether the user owns the running program, and could as well replace that. An unmapped owner is
 * known by the program's own tree alone: PREFIX of PREFIX/bin/weft. */
static bool owns_program(uid_t user, const char *at)
{
    char prefix[PATH_MAX];
    struct stat st;
    if (stat("/proc/self/exe", &st) || st.st_uid != user || !host_program_prefix(prefix))
        return false;
    const size_t under = strlen(prefix);
    return user != UNMAPPED || (!strncmp(at, prefix, under) && (!at[under] || at[under] == '/'));
}

/* `at`: where it is, without links. `what` `name` `verb`: "its folder /x belongs to". */
static weft_status check_owner(const struct stat *st, const char *at, const char *what,
                               const char *name, const char *verb)
{
    /* whoever sets the environment could as well preload a library */
    const char *trusted = getenv("WEFT_PLUGIN_OWNER");
    const uid_t user = st->st_uid;
    char number[16];
    snprintf(number, sizeof number, "%u", user);
    if (user == 0 || user == geteuid() || owns_program(user, at) ||
        (trusted && !strcmp(trusted, number)))
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "%s%s %s user %u, who is neither root nor you nor the owner of the program%s; "
                    "copy it into a folder of yours, or say that you trust this user: "
                    "WEFT_PLUGIN_OWNER=%u",
                    what, name, verb, user,
                    user == UNMAPPED ? " (or a user whom this user namespace does not map, such as "
                                       "root: outside it the file may be used)"
                                     : "",
                    user);
}

/* Whether the group is the user's private one, as systems with umask 002 give each user: it has
 * the user's name, is the user's first group, and lists nobody else. */
static bool is_private_group(gid_t gid)
{
    struct passwd user, *u = NULL;
    struct group group, *g = NULL;
    char text[2][4096];
    if (getpwuid_r(geteuid(), &user, text[0], sizeof text[0], &u) || !u || u->pw_gid != gid ||
        getgrgid_r(gid, &group, text[1], sizeof text[1], &g) || !g ||
        strcmp(g->gr_name, u->pw_name))
        return false;
    for (char **member = g->gr_mem; *member; member++)
        if (strcmp(*member, u->pw_name))
            return false;
    return true;
}

/* Only root and the user may be able to rename files in a folder. In a folder with the sticky bit
 * only owners rename. The two folders of the file must be closed to their group whatever it is: a
 * primary group may have members that no list names, and an access list also shows as group bits.
 * A folder `above` them may be open to the user's private group. */
static weft_status check_folder_mode(int fd, const char *name, bool above)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return err_fail_errno(WEFT_USAGE, "cannot look at its folder %s", name);
    const weft_status owned = check_owner(&st, name, "its folder ", name, "belongs to");
    if (owned != WEFT_OK || (st.st_mode & S_ISVTX))
        return owned;
    if (st.st_mode & S_IWOTH)
        return err_fail(WEFT_USAGE, "its folder %s may be written by everybody; chmod go-w %s",
                        name, name);
    if ((st.st_mode & S_IWGRP) && !(above && is_private_group(st.st_gid)))
        return err_fail(WEFT_USAGE, "its folder %s may be written by all of group %u; chmod g-w %s",
                        name, st.st_gid, name);
    return WEFT_OK;
}

static weft_status trust_folder(int fd, const char *name, bool above)
{
    const weft_status st = check_folder_mode(fd, name, above);
    if (st != WEFT_OK)
        err_set_name(ERR_FOLDER, name);
    return st;
}

/* --- the way to the file --- */

#define LINKS_MAX 40

typedef struct way {
    char name[PATH_MAX]; /* of the folder reached, without links; "": the root */
    char rest[PATH_MAX]; /* what is left to follow */
    char own[PATH_MAX];  /* the running program */
    int fd;              /* O_PATH of the folder reached */
    int links;           /* followed so far */
} way;

static uint32_t parts_left(const char *rest)
{
    uint32_t n = 0;
    for (rest += strspn(rest, "/"); *rest; rest += strspn(rest, "/")) {
        n++;
        rest += strcspn(rest, "/");
    }
    return n;
}

/* Whoever can rename a folder above the program can replace the program itself. Such a folder is
 * not checked, so a program in a tree of a group finds its own plugins. */
static bool leads_to_program(const way *w)
{
    const size_t n = strlen(w->name);
    return !strncmp(w->own, w->name, n) && w->own[n] == '/';
}

/* Replace the folder reached by the open folder `fd`. */
static weft_status arrive(way *w, int fd)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = fd;
    const bool above = parts_left(w->rest) > 2;
    if (fd >= 0 && above && leads_to_program(w))
        return WEFT_OK;
    return trust_folder(fd, *w->name ? w->name : "/", above);
}

static weft_status arrive_at_root(way *w)
{
    *w->name = 0;
    /* An emulator of another CPU may put a root of its own in the place of "/". */
    int fd = open("/proc/self/root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return arrive(w, fd);
}

static weft_status too_long(void)
{
    return err_fail(WEFT_USAGE, "its path is longer than %d bytes", PATH_MAX);
}

static weft_status follow_link(way *w, int link, const struct stat *st)
{
    char target[PATH_MAX], rest[PATH_MAX];
    const ssize_t n = readlinkat(link, "", target, sizeof target - 1);
    const weft_status owned = check_owner(st, w->name, "it", "", "is a link of");
    if (owned != WEFT_OK)
        return owned;
    if (n <= 0 || ++w->links > LINKS_MAX)
        return err_fail(WEFT_USAGE, "a link on the way to it cannot be followed");
    target[n] = 0;
    if (snprintf(rest, sizeof rest, "%s/%s", target, w->rest) >= (int)sizeof rest)
        return too_long();
    memcpy(w->rest, rest, sizeof rest);
    return *target == '/' ? arrive_at_root(w) : WEFT_OK;
}

static weft_status enter(way *w, int fd, const char *part)
{
    const size_t n = strlen(w->name);
    if (strcmp(part, "..")) {
        if (snprintf(w->name + n, sizeof w->name - n, "/%s", part) >= (int)(sizeof w->name - n)) {
            close(fd);
            return too_long();
        }
    } else if (n) {
        *strrchr(w->name, '/') = 0;
    }
    return arrive(w, fd);
}

/* Follow the first part of w->rest; *last: it is the file. */
static weft_status step(way *w, bool *last)
{
    char part[NAME_MAX + 1];
    struct stat st;
    const char *at = w->rest + strspn(w->rest, "/");
    const size_t n = strcspn(at, "/");
    if (!n || n > NAME_MAX)
        return err_fail(WEFT_USAGE, "its path does not end in the name of a file");
    snprintf(part, sizeof part, "%.*s", (int)n, at);
    memmove(w->rest, at + n, strlen(at + n) + 1);
    if (!strcmp(part, "."))
        return WEFT_OK;
    /* O_DIRECTORY mounts what is mounted on demand */
    int fd = openat(w->fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        return enter(w, fd, part);
    fd = openat(w->fd, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        weft_status failed = err_fail_errno(WEFT_USAGE, "cannot look at it");
        if (fd >= 0)
            close(fd);
        return failed;
    }
    weft_status found = S_ISLNK(st.st_mode) ? follow_link(w, fd, &st) : WEFT_OK;
    *last = !S_ISLNK(st.st_mode);
    close(fd);
    return found;
}

/* Check every folder and link from the root to the file; its folder stays open. The checks hold for
 * the descriptors by which the next folder is opened. */
static weft_status trust_way(const char *path, host_trusted *t)
{
    way w = {.fd = -1};
    char cwd[PATH_MAX] = "";
    if (*path != '/' && !getcwd(cwd, sizeof cwd))
        return err_fail_errno(WEFT_USAGE, "cannot name the current folder");
    if (snprintf(w.rest, sizeof w.rest, "%s/%s", cwd, path) >= (int)sizeof w.rest)
        return too_long();
    const ssize_t n = readlink("/proc/self/exe", w.own, sizeof w.own - 1);
    w.own[n > 0 ? n : 0] = 0;
    bool last = false;
    weft_status st = arrive_at_root(&w);
    while (st == WEFT_OK && !last && parts_left(w.rest))
        st = step(&w, &last);
    const size_t folder = (size_t)(strrchr(t->real, '/') - t->real);
    if (st == WEFT_OK && (strlen(w.name) != folder || memcmp(w.name, t->real, folder)))
        st = last ? err_fail(WEFT_USAGE, "its path changes while it is looked at")
                  : err_fail(WEFT_USAGE, "it is not a file");
    if (st == WEFT_OK)
        t->folder = w.fd;
    else if (w.fd >= 0)
        close(w.fd);
    return st;
}

static weft_status trust_file(host_trusted *t)
{
    t->file = openat(t->folder, strrchr(t->real, '/') + 1,
                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (t->file < 0 || fstat(t->file, &t->st))
        return err_fail_errno(WEFT_USAGE, "cannot open it");
    if (!S_ISREG(t->st.st_mode))
        return err_fail(WEFT_USAGE, "it is not a file");
    const weft_status owned = check_owner(&t->st, t->real, "it", "", "belongs to");
    if (owned != WEFT_OK)
        return owned;
    if (t->st.st_mode & (S_IWGRP | S_IWOTH))
        return err_fail(WEFT_USAGE, "others may write it (mode %03o); chmod go-w %s",
                        t->st.st_mode & 0777, t->real);
    return WEFT_OK;
}

weft_status host_file_check_open(const char *path, host_trusted *t)
{
    *t = (host_trusted){.folder = -1, .file = -1};
    if (!realpath(path, t->real)) {
        t->real[0] = 0;
        return err_fail_errno(WEFT_USAGE, "cannot find it");
    }
    weft_status st = trust_way(path, t);
    return st == WEFT_OK ? trust_file(t) : st;
}

void host_file_check_close(host_trusted *t)
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

weft_status host_file_check_elf(const host_trusted *t)
{
    const int fd = t->file;
    const uint64_t bytes = (uint64_t)t->st.st_size;
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
