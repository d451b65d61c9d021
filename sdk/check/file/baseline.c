/* check/file/baseline.c: entry and open() run on every processor of level x86-64-v2.
 *
 * A child makes the two calls one instruction at a time, and the parent looks at those in the
 * plugin's own text. Once the plugin has executed CPUID it may know what the processor has. */
#define _GNU_SOURCE
#include "check/file/file.h"
#include "check/hook.h"
#include "host/watch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <elf.h>

#define LIMIT 1000000u /* instructions */

#if defined(__x86_64__)
#define KNOWN true
#define POINTER(regs) ((regs).rip)
#else
#define KNOWN false
#define POINTER(regs) ((regs).pc)
#endif

static check_host h;

_Noreturn static void be_child(const check_run *r)
{
    void *handle, *module = NULL;
    check_entry entry = check_raw_entry(r, &handle);
    check_host_begin(&h, "the host");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!entry || ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        check_fail("this check needs ptrace(), which this machine does not allow: %s",
                   strerror(errno));
    raise(SIGSTOP);
    const weft_manifest *m = entry();
    (void)check_open(m, &h, &module);
    _exit(0);
}

/* Whether the instruction is one of AVX, AVX-512 or BMI, which level 2 of x86-64 lacks: all of
 * them, and no others, begin so behind their prefixes. */
static bool is_later(const unsigned char *at)
{
    while (*at && strchr("\x26\x2e\x36\x3e\x64\x65\x67", *at))
        at++;
    return *at == 0xc4 || *at == 0xc5 || *at == 0x62;
}

static bool is_cpuid(const unsigned char *at)
{
    return at[0] == 0x0f && at[1] == 0xa2;
}

/* Bytes at the instruction pointer of the child, where that lies in the text. */
static bool read_instruction(pid_t pid, const check_text *text, unsigned char out[16])
{
    struct user_regs_struct regs;
    struct iovec io = {&regs, sizeof regs};
    if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &io))
        check_fail("the registers of the child cannot be read: %s", strerror(errno));
    const uintptr_t at = POINTER(regs);
    struct iovec to = {out, 16}, from = {(void *)at, 16};
    return at >= text->from && at + 16 <= text->to &&
           process_vm_readv(pid, &to, 1, &from, 1, 0) == 16;
}

void check_file_baseline(check_run *r)
{
    unsigned char at[16];
    check_text text;
    void *handle;
    int status;
    check_entry entry = check_raw_entry(r, &handle);
    if (!KNOWN || !entry || !check_hook_text((const void *)(uintptr_t)entry, &text))
        check_not_applicable("this check knows the instructions of x86-64 only");
    const pid_t pid = host_watch_fork();
    if (!pid)
        be_child(r);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        check_fail("no process for the check");
    if (WIFSTOPPED(status))
        ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL);
    for (uint32_t i = 0; i < LIMIT && WIFSTOPPED(status); i++) {
        const int signal = WSTOPSIG(status);
        const bool passes = signal != SIGTRAP && signal != SIGSTOP;
        if (read_instruction(pid, &text, at)) {
            if (is_cpuid(at))
                break;
            if (is_later(at))
                check_fail(
                    "weft_plugin_entry() or open() executes an instruction (%02x %02x %02x "
                    "%02x) of AVX or later before the plugin has asked CPUID; compile it for "
                    "x86-64-v2, and choose kernels at run time",
                    at[0], at[1], at[2], at[3]);
        }
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, passes ? signal : 0) ||
            waitpid(pid, &status, 0) != pid)
            check_fail("the child cannot be traced: %s", strerror(errno));
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}
