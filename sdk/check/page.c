/* check/page.c: see page.h. The first result of all processes of a check counts. */
#define _GNU_SOURCE /* memfd_create */
#include "check/page.h"

#include "base/time/pressure.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WRITE_MS                                                                                   \
    1000u /* longest wait for another's write; its process may have been killed in it */

const char *const check_outcome_names[] = {"none",           "pass",  "fail",
                                           "not applicable", "crash", "time out"};

static check_page *page;

int check_page_create(check_page **out)
{
    int fd = memfd_create("weft-check", 0); /* inherited by the child */
    if (fd < 0)
        return -1;
    if (ftruncate(fd, sizeof(check_page)) || !(*out = check_page_map(fd))) {
        close(fd);
        return -1;
    }
    return fd;
}

check_page *check_page_map(int fd)
{
    void *p = mmap(NULL, sizeof(check_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

void check_page_use(check_page *p)
{
    page = p;
}

/* The second to come ends its process next, and all of the check end with it: not before the first
 * has written. */
static void wait_for_first(void)
{
    const uint64_t until = pressure_ms() + WRITE_MS;
    while (!check_page_is_written() && pressure_ms() < until)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void put(check_outcome outcome, const char *text, const char *call)
{
    const size_t n = strnlen(text, CHECK_TEXT - 1), m = strnlen(call, CHECK_CALL - 1);
    memcpy(page->text, text, n);
    page->text[n] = 0;
    memcpy(page->call, call, m);
    page->call[m] = 0;
    atomic_store(&page->outcome, (uint32_t)outcome);
}

void check_page_write(check_outcome outcome, const char *text, const char *call)
{
    if (!page) {
        dprintf(STDOUT_FILENO, "%s%s%s\n", check_outcome_names[outcome], *text ? ": " : "", text);
        return;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* no handler waits for what it has interrupted */
    if (atomic_exchange(&page->taken, 1))
        wait_for_first();
    else
        put(outcome, text, call);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void check_absent(const char *fmt, ...)
{
    char text[CHECK_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!page)
        dprintf(STDOUT_FILENO, "absent: %s\n", text);
    else if (!atomic_exchange(&page->lacks, 1))
        memcpy(page->absent, text, sizeof text);
}

void check_pass(void)
{
    check_page_write(CHECK_PASS, "", "");
    _exit(0);
}

void check_page_end(void)
{
    const bool lacks = page && page->absent[0];
    check_page_write(lacks ? CHECK_NOT_APPLICABLE : CHECK_PASS, lacks ? page->absent : "", "");
}

bool check_page_is_written(void)
{
    return page && atomic_load(&page->outcome) != CHECK_NONE;
}

_Noreturn static void finish(check_outcome outcome, const char *fmt, va_list ap)
{
    char text[CHECK_TEXT];
    vsnprintf(text, sizeof text, fmt, ap);
    check_page_write(outcome, text, "");
    _exit(outcome == CHECK_FAIL);
}

void check_fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    finish(CHECK_FAIL, fmt, ap);
}

void check_page_foreign(const char *ifaces)
{
    if (page)
        atomic_store(&page->foreign, 1);
    check_not_applicable(CHECK_FOREIGN, ifaces);
}

void check_not_applicable(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    finish(CHECK_NOT_APPLICABLE, fmt, ap);
}
