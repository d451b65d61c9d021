/* launch/hosts/ssh.c: see ssh.h. */
#define _GNU_SOURCE
#include "launch/hosts/ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"

/* A dead connection is found after 15 s: ssh is silent between keep-alive messages. */
static const char *const options[] = {"-oBatchMode=yes", "-oConnectTimeout=15",
                                      "-oServerAliveInterval=5", "-oServerAliveCountMax=3", "-T"};
#define OPTIONS (sizeof options / sizeof *options)

char *launch_quote(pool *p, const char *text)
{
    size_t n = strlen(text), quotes = 0;
    for (size_t i = 0; i < n; i++)
        quotes += text[i] == '\'';
    char *out = pool_array(p, n + 3 * quotes + 3, 1), *at = out;
    *at++ = '\'';
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\'')
            at = stpcpy(at, "'\\'");
        *at++ = text[i];
    }
    *at++ = '\'';
    *at = 0;
    return out;
}

static weft_status remote_command(pool *p, char **out)
{
    char program[PATH_MAX], folder[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0 || !getcwd(folder, sizeof folder))
        return err_fail_errno(WEFT_IO, "cannot find this program or the working folder");
    program[n] = 0;
    *out = pool_printf(p, "cd %s && exec %s train --agent", launch_quote(p, folder),
                       launch_quote(p, program));
    return WEFT_OK;
}

weft_status launch_ssh_command(pool *p, const char *ssh, const char *host, char *out[SSH_WORDS_MAX])
{
    uint32_t n = 0;
    char *text = pool_text(p, ssh), *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (n + OPTIONS + 4 > SSH_WORDS_MAX)
            return err_fail(WEFT_USAGE, "--ssh has more than %u words",
                            SSH_WORDS_MAX - (uint32_t)OPTIONS - 4);
        out[n++] = word;
    }
    if (!n)
        return err_fail(WEFT_USAGE, "--ssh is empty: name a program, such as ssh");
    const char *name = strrchr(out[0], '/');
    for (size_t i = 0; i < OPTIONS && !strcmp(name ? name + 1 : out[0], "ssh"); i++)
        out[n++] = (char *)options[i];
    out[n++] = pool_text(p, host);
    const weft_status st = remote_command(p, &out[n]);
    out[n + 1] = NULL;
    return st;
}

/* In the child. Returns only when the program could not be started. */
static void become_ssh(char *const *argv, pid_t parent, int in, int out)
{
    sigset_t none;
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || dup2(in, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0)
        return;
    signal(SIGPIPE, SIG_DFL); /* the launcher ignores it */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(argv[0], argv);
}

static weft_status fork_ssh(char *const *argv, const char *host, const int to[2], const int from[2],
                            launch_ssh *out)
{
    const pid_t parent = getpid();
    out->pid = fork();
    if (!out->pid) {
        become_ssh(argv, parent, to[0], from[1]);
        fprintf(stderr, "weft error: cannot start %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    if (out->pid < 0)
        return err_fail_errno(WEFT_IO, "cannot start %s for host %s", argv[0], host);
    setpgid(out->pid, out->pid);
    out->pidfd = pidfd_open(out->pid, 0);
    return out->pidfd < 0 ? err_fail_errno(WEFT_IO, "cannot watch %s of host %s", argv[0], host)
                          : WEFT_OK;
}

weft_status launch_ssh_start(const char *ssh, const char *host, launch_ssh *out)
{
    char *argv[SSH_WORDS_MAX];
    int to[2] = {-1, -1}, from[2] = {-1, -1};
    pool p = {0};
    *out = (launch_ssh){.pid = -1, .pidfd = -1, .link = {.in = -1, .out = -1, .broken = true}};
    weft_status st = launch_ssh_command(&p, ssh, host, argv);
    if (st == WEFT_OK && (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)))
        st = err_fail_errno(WEFT_IO, "no pipes to host %s", host);
    if (st == WEFT_OK)
        st = fork_ssh(argv, host, to, from, out);
    if (to[0] >= 0)
        close(to[0]);
    if (from[1] >= 0)
        close(from[1]);
    if (to[1] >= 0 && from[0] >= 0)
        launch_frame_open(&out->link, from[0], to[1]);
    pool_free(&p);
    return st;
}

void launch_ssh_end(launch_ssh *s)
{
    if (s->pid > 0) {
        waitpid(s->pid, &s->status, 0);
        s->pid = -1;
    }
    if (s->pidfd >= 0)
        close(s->pidfd);
    s->pidfd = -1;
    launch_frame_close(&s->link);
}

void launch_ssh_describe(const launch_ssh *s, const char *host, char *out, size_t bytes)
{
    if (WIFSIGNALED(s->status))
        snprintf(out, bytes, "its ssh was killed by signal %d", WTERMSIG(s->status));
    else if (WEXITSTATUS(s->status) == 255)
        snprintf(out, bytes,
                 "ssh has ended with status 255, and says why above; `ssh %s true` has to work "
                 "without a question",
                 host);
    else if (WEXITSTATUS(s->status) == 127 || WEXITSTATUS(s->status) == 126)
        snprintf(out, bytes,
                 "the program of --ssh, or weft on that host, could not be started (status %d): "
                 "weft has to be at the same path as here",
                 WEXITSTATUS(s->status));
    else
        snprintf(out, bytes,
                 "the remote command has ended with status %d: this working folder and weft have "
                 "to be at the same paths as here",
                 WEXITSTATUS(s->status));
}
