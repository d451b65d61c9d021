/* launch/spawn.c: see spawn.h. */
#define _GNU_SOURCE
#include "launch/spawn.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sealed.h"
#include "config/source.h"
#include "job/control/alive.h"
#include "job/control/control.h"
#include "job/wire/address.h"
#include "job/wire/key.h"
#include "launch/progress.h"

static const char *const ours[] = {
    "RANK",        "WORLD_SIZE",    "LOCAL_RANK",   "LOCAL_WORLD_SIZE", "MASTER_ADDR",
    "MASTER_PORT", KEY_FD_ENV,      CONTROL_FD_ENV, STORE_FD_ENV,       CONFIG_SOURCE_ENV,
    ALIVE_FD_ENV,  PROGRESS_FD_ENV, ATTEMPT_ENV,
};
#define OURS (sizeof ours / sizeof *ours)

static bool is_ours(const char *setting)
{
    for (size_t i = 0; i < OURS; i++) {
        size_t n = strlen(ours[i]);
        if (!strncmp(setting, ours[i], n) && setting[n] == '=')
            return true;
    }
    return false;
}

/* The environment of a rank: ours without the variables of an outer launcher, plus its own. */
static char **make_environment(pool *p, const launch_spawn *s, uint32_t rank, int control)
{
    size_t n = 0, k = 0;
    while (environ[n])
        n++;
    char **e = pool_array(p, n + OURS + 1, sizeof *e);
    for (size_t i = 0; i < n; i++)
        if (!is_ours(environ[i]))
            e[k++] = environ[i];
    e[k++] = pool_printf(p, "RANK=%u", rank);
    e[k++] = pool_printf(p, "WORLD_SIZE=%u", s->ranks);
    e[k++] = pool_printf(p, "LOCAL_RANK=%u", rank - s->first);
    e[k++] = pool_printf(p, "LOCAL_WORLD_SIZE=%u", s->count);
    e[k++] = pool_printf(p, "MASTER_ADDR=%s", s->addr ? s->addr : "127.0.0.1");
    e[k++] = pool_printf(p, "MASTER_PORT=%u", s->port);
    e[k++] = pool_printf(p, CONTROL_FD_ENV "=%d", control);
    if (s->key_fd >= 0)
        e[k++] = pool_printf(p, KEY_FD_ENV "=%d", s->key_fd);
    if (s->job_fd >= 0)
        e[k++] = pool_printf(p, CONFIG_SOURCE_ENV "=%d", s->job_fd);
    if (s->alive_fd >= 0)
        e[k++] = pool_printf(p, ALIVE_FD_ENV "=%d", s->alive_fd);
    if (s->progress_fd >= 0)
        e[k++] = pool_printf(p, PROGRESS_FD_ENV "=%d", s->progress_fd);
    if (s->attempt)
        e[k++] = pool_printf(p, ATTEMPT_ENV "=%u", s->attempt);
    if (!rank && s->store_fd >= 0)
        e[k++] = pool_printf(p, STORE_FD_ENV "=%d", s->store_fd);
    return e;
}

/* In the child process. Returns only when the program could not be started. */
static void become_rank(const launch_spawn *s, uint32_t rank, pid_t launcher, int control,
                        char *const *environment)
{
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != launcher)
        return;
    int none = open("/dev/null", O_RDONLY);
    if (none < 0 || dup2(none, STDIN_FILENO) < 0)
        return;
    if (none > STDERR_FILENO)
        close(none);
    if (fcntl(control, F_SETFD, 0) || (s->key_fd >= 0 && fcntl(s->key_fd, F_SETFD, 0)) ||
        (s->job_fd >= 0 && fcntl(s->job_fd, F_SETFD, 0)) ||
        (s->alive_fd >= 0 && fcntl(s->alive_fd, F_SETFD, 0)) ||
        (s->progress_fd >= 0 && fcntl(s->progress_fd, F_SETFD, 0)) ||
        (!rank && s->store_fd >= 0 && fcntl(s->store_fd, F_SETFD, 0)))
        return;
    sigprocmask(SIG_SETMASK, s->mask, NULL);
    execve("/proc/self/exe", s->argv, environment);
}

static weft_status fork_rank(const launch_spawn *s, uint32_t rank, int control, launch_child *out)
{
    pool p = {0};
    char **environment = make_environment(&p, s, rank, control);
    pid_t launcher = getpid();
    out->pid = fork();
    if (out->pid == 0) {
        become_rank(s, rank, launcher, control, environment);
        (void)err_fail_errno(WEFT_IO, "cannot start the program again as a rank");
        job_control_send(control, CONTROL_SAY, rank, 0, err_text());
        _exit(1);
    }
    weft_status st = WEFT_OK;
    if (out->pid < 0)
        st = err_fail_errno(WEFT_IO, "cannot start rank %u of %u", rank, s->ranks);
    pool_free(&p);
    return st;
}

weft_status launch_spawn_rank(const launch_spawn *s, uint32_t rank, launch_child *out)
{
    int ends[2];
    *out = (launch_child){.pid = -1, .pidfd = -1, .control = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return err_fail_errno(WEFT_IO, "no socket to talk to rank %u of %u with", rank, s->ranks);
    weft_status st = fork_rank(s, rank, ends[1], out);
    close(ends[1]);
    out->control = ends[0];
    if (st != WEFT_OK)
        return st;
    setpgid(out->pid, out->pid); /* parent and child both do it: one of them is first */
    out->pidfd = pidfd_open(out->pid, 0);
    if (out->pidfd < 0)
        st = err_fail_errno(WEFT_IO, "cannot watch rank %u of %u", rank, s->ranks);
    return st;
}

weft_status launch_spawn_listen(launch_spawn *s, const char *addr)
{
    const struct addrinfo hint = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *a = NULL;
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    if (getaddrinfo(addr, "0", &hint, &a))
        return err_fail(WEFT_USAGE, "'%.60s' is not an address of a network interface", addr);
    s->store_fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool ok = s->store_fd >= 0 && !bind(s->store_fd, a->ai_addr, a->ai_addrlen) &&
                    !job_listen_guarded(s->store_fd, s->ranks) &&
                    !getsockname(s->store_fd, (struct sockaddr *)&at, &n);
    freeaddrinfo(a);
    if (!ok)
        return err_fail_errno(WEFT_IO, "cannot listen on %s for the ranks", addr);
    s->addr = addr;
    s->port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                             : ((struct sockaddr_in *)&at)->sin_port);
    return WEFT_OK;
}

/* A new random key in a sealed memory file: the descriptor, or -1 with a record. */
static int make_key(void)
{
    uint8_t key[KEY_BYTES];
    if (job_key_random(key, sizeof key) != WEFT_OK)
        return -1;
    int fd = sealed_make("weft-key", key, sizeof key);
    explicit_bzero(key, sizeof key);
    if (fd < 0)
        (void)err_fail_errno(WEFT_IO, "cannot hold the job key in a sealed memory file");
    return fd;
}

weft_status launch_spawn_open(launch_spawn *s)
{
    s->store_fd = s->key_fd = -1;
    s->job_fd = config_source_descriptor();
    if (s->ranks == 1)
        return WEFT_OK; /* no rendezvous */
    s->key_fd = make_key();
    weft_status st = s->key_fd < 0 ? WEFT_IO : launch_spawn_listen(s, "127.0.0.1");
    if (st != WEFT_OK)
        launch_spawn_close(s);
    return st;
}

void launch_spawn_close(launch_spawn *s)
{
    if (s->key_fd >= 0)
        close(s->key_fd);
    if (s->store_fd >= 0)
        close(s->store_fd);
    s->key_fd = s->store_fd = -1;
}
