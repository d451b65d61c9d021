/* check/lifecycle/plan_only.c: planning touches no device, driver or network.
 *
 * A traced child opens a module and makes the calls of a plan; the parent looks at each of its
 * system calls. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/err.h"
#include "base/time/pressure.h"
#include "check/lifecycle/lifecycle.h"
#include "host/watch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

#define SECONDS 15u

#ifdef SYS_open
#define OPEN SYS_open
#else
#define OPEN UINT64_MAX /* only openat() is there */
#endif

static check_host h;

/* Folders whose files are those of devices and drivers, and files among them that are not. */
static const char *const folders[] = {"/dev/",        "/proc/driver/",  "/sys/class/infiniband",
                                      "/sys/bus/pci", "/sys/class/drm", "/sys/class/net"};
static const char *const harmless[] = {"/dev/null", "/dev/zero", "/dev/urandom", "/dev/random",
                                       "/dev/shm"};

static bool begins(const char *path, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strncmp(path, list[i], strlen(list[i])))
            return true;
    return false;
}

_Noreturn static void be_child(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    check_exercise d = {.run = r, .host = &h, .paper = true, .where = "open", .of = m->id};
    check_host_begin(&h, "the host");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        check_fail("this check needs ptrace(), which this machine does not allow: %s",
                   strerror(errno));
    raise(SIGSTOP);
    weft_status st = check_open(m, &h, &d.module);
    if (st == WEFT_OK)
        st = check_exercise_all(&d);
    if (st != WEFT_OK)
        check_fail("a lawful call failed: %s() of '%s' returned %s: %s", d.where, d.of,
                   check_status(st), check_exercise_why(&d));
    check_close(m, d.module);
    _exit(0);
}

static void read_text(pid_t pid, uint64_t at, char *out, size_t size)
{
    struct iovec to = {out, size - 1}, from = {(void *)(uintptr_t)at, size - 1};
    ssize_t n = process_vm_readv(pid, &to, 1, &from, 1, 0);
    if (n <= 0) { /* it ends at a page */
        from.iov_len = to.iov_len = 4096 - at % 4096 < size - 1 ? 4096 - at % 4096 : size - 1;
        n = process_vm_readv(pid, &to, 1, &from, 1, 0);
    }
    out[n > 0 ? n : 0] = 0;
}

static void look_at(pid_t pid)
{
    char path[256];
    struct ptrace_syscall_info info = {0};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) <= 0 ||
        info.op != PTRACE_SYSCALL_INFO_ENTRY)
        return;
    const uint64_t nr = info.entry.nr;
    if (nr == SYS_socket || nr == SYS_connect || nr == SYS_bind)
        check_fail(
            "open() or a call tagged [plan] opened a socket; `weft plan` runs on any machine "
            "and touches no network");
    uint64_t at = nr == SYS_openat ? info.entry.args[1] : 0;
    at = nr == OPEN ? info.entry.args[0] : at;
    if (!at)
        return;
    read_text(pid, at, path, sizeof path);
    if (begins(path, folders, sizeof folders / sizeof *folders) &&
        !begins(path, harmless, sizeof harmless / sizeof *harmless))
        check_fail("open() or a call tagged [plan] opened %s; `weft plan` runs on any machine and "
                   "touches no device or driver",
                   path);
}

void check_lifecycle_plan_only(check_run *r)
{
    int status;
    check_load(r);
    const uint64_t until = pressure_ms() + SECONDS * 1000u;
    const pid_t pid = host_watch_fork();
    if (!pid)
        be_child(r);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        check_fail("no process for the check");
    if (WIFSTOPPED(status))
        ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    while (!WIFEXITED(status) && !WIFSIGNALED(status)) {
        const int signal = WSTOPSIG(status);
        if (signal == (SIGTRAP | 0x80))
            look_at(pid);
        const bool passes = signal != (SIGTRAP | 0x80) && signal != SIGSTOP && signal != SIGTRAP;
        if (ptrace(PTRACE_SYSCALL, pid, NULL, passes ? signal : 0) ||
            waitpid(pid, &status, 0) != pid)
            check_fail("the child cannot be traced: %s", strerror(errno));
        if (pressure_ms() > until)
            check_fail("open() and planning take more than %u seconds", SECONDS);
    }
    if (status)
        check_fail("the process that planned ended with the wait status 0x%x", (unsigned)status);
}
