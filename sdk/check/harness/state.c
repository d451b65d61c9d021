/* check/harness/state.c: what belongs to the process, and guarded memory. See harness.h. */
#define _GNU_SOURCE
#include "base/number/digest.h"
#include "check/harness/harness.h"

#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static uint32_t entries(const char *folder, uint64_t *names)
{
    uint32_t n = 0;
    DIR *d = opendir(folder);
    if (!d)
        return 0;
    const int own = dirfd(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.' || strtol(e->d_name, NULL, 10) == own)
            continue;
        n++;
        uint64_t name = DIGEST_BEGIN;
        digest_mix(&name, e->d_name, strlen(e->d_name));
        *names += name; /* in any order */
    }
    closedir(d);
    return n;
}

static void take_mappings(check_state *s)
{
    char line[4352];
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f)) {
        char *end;
        const uint64_t from = strtoull(line, &end, 16);
        s->bytes += *end == '-' ? strtoull(end + 1, NULL, 16) - from : 0;
        s->mappings++;
    }
    if (f)
        fclose(f);
}

static void take_signals(check_state *s)
{
    sigset_t blocked;
    s->signals = DIGEST_BEGIN;
    for (int i = 1; i < SIGRTMIN; i++) {
        struct sigaction act;
        if (sigaction(i, NULL, &act))
            continue;
        digest_mix(&s->signals, &act.sa_flags, sizeof act.sa_flags);
        digest_mix(&s->signals, &act.sa_handler, sizeof act.sa_handler);
    }
    sigemptyset(&blocked);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    for (int i = 1; i < 64; i++)
        s->mask |= (uint64_t)(sigismember(&blocked, i) == 1) << i;
}

/* Rounding, and on x86-64 denormals as zero, too. */
#if defined(__x86_64__)
static uint32_t control_word(void)
{
    return __builtin_ia32_stmxcsr() & ~0x3fu; /* without the flags of past exceptions */
}
#else
static uint32_t control_word(void)
{
    return (uint32_t)fegetround();
}
#endif

bool check_state_children(void)
{
    siginfo_t any = {0};
    return !waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT | __WALL);
}

void check_state_take(check_state *s)
{
    uint64_t names = 0;
    memset(s, 0, sizeof *s);
    s->threads = entries("/proc/self/task", &names);
    s->descriptors = entries("/proc/self/fd", &s->fds);
    take_mappings(s);
    for (char **e = environ; e && *e; e++) {
        const size_t n = strlen(*e) + 1;
        if (n > sizeof s->environment - s->nenvironment)
            break;
        memcpy(s->environment + s->nenvironment, *e, n);
        s->nenvironment += (uint32_t)n;
    }
    take_signals(s);
    if (!getcwd(s->folder, sizeof s->folder))
        s->folder[0] = 0;
    snprintf(s->locale, sizeof s->locale, "%s", setlocale(LC_ALL, NULL));
    s->umask = umask(0);
    umask((mode_t)s->umask);
    s->control = control_word();
    s->children = check_state_children();
}

/* The first variable of `a` that `b` has not, or with another value; NULL: none. */
static const char *variable_lost(const check_state *a, const check_state *b)
{
    for (uint32_t i = 0; i < a->nenvironment; i += (uint32_t)strlen(a->environment + i) + 1) {
        bool found = false;
        for (uint32_t k = 0; !found && k < b->nenvironment;
             k += (uint32_t)strlen(b->environment + k) + 1)
            found = !strcmp(a->environment + i, b->environment + k);
        if (!found)
            return a->environment + i;
    }
    return NULL;
}

static const char *compare_environment(const check_state *a, const check_state *b, bool fresh)
{
    static char text[128];
    const char *lost = variable_lost(a, b);
    if (!lost && fresh)
        lost = variable_lost(b, a);
    if (!lost)
        return "";
    snprintf(text, sizeof text, "the environment differs (%.*s)", (int)strcspn(lost, "="), lost);
    return text;
}

const char *check_state_compare(const check_state *a, const check_state *b, uint32_t what)
{
    static char text[128];
    if (what & CHECK_STATE_OWNED) {
        const char *environment = compare_environment(a, b, what & CHECK_STATE_NEW);
        if (*environment)
            return environment;
        if (strcmp(a->folder, b->folder))
            return "the working folder differs";
        if (strcmp(a->locale, b->locale))
            return "the locale differs";
        if (a->umask != b->umask)
            return "the umask differs";
        if (a->signals != b->signals)
            return "the handler of a signal differs";
        if (a->mask != b->mask)
            return "the mask of blocked signals differs";
        if (a->control != b->control)
            return "the floating-point mode differs (rounding, or denormals as zero)";
    }
    if (what & CHECK_STATE_THREADS && a->threads != b->threads) {
        snprintf(text, sizeof text, "there are %u threads instead of %u", b->threads, a->threads);
        return text;
    }
    if (what & CHECK_STATE_THREADS && b->children && !a->children)
        return "there is a process that the plugin has started";
    if (what & CHECK_STATE_FILES && (a->descriptors != b->descriptors || a->fds != b->fds)) {
        snprintf(text, sizeof text, "%u descriptors are open instead of %u, or others",
                 b->descriptors, a->descriptors);
        return text;
    }
    return "";
}

/* --- guarded memory --- */

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t rounded(size_t bytes)
{
    const size_t page = page_bytes();
    return (bytes + page - 1) / page * page;
}

void *check_guard(const void *from, size_t bytes)
{
    const size_t page = page_bytes(), inner = rounded(bytes);
    char *p =
        mmap(NULL, inner + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        check_fail("no memory for %zu guarded bytes", bytes);
    mprotect(p, page, PROT_NONE);
    mprotect(p + page + inner, page, PROT_NONE);
    char *at = p + page + inner - bytes;
    if (from)
        memcpy(at, from, bytes);
    return at;
}

void check_guard_free(void *p, size_t bytes)
{
    const size_t page = page_bytes(), inner = rounded(bytes);
    munmap((char *)p + bytes - inner - page, inner + 2 * page);
}
