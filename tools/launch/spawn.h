/* launch/spawn.h: one rank as a child process. */
#ifndef LAUNCH_SPAWN_H
#define LAUNCH_SPAWN_H

#include <signal.h>
#include <sys/types.h>
#include <weft/base.h>

typedef struct launch_spawn {
    uint32_t ranks;        /* of the job */
    uint32_t first, count; /* those of this machine */
    const char *addr;      /* MASTER_ADDR; NULL: this machine's loopback */
    uint16_t port;
    int key_fd, store_fd; /* close-on-exec; children reopen them across exec; -1: none */
    int job_fd;           /* likewise; owned by config/source.h */
    int alive_fd;         /* alive.h; -1: none */
    int progress_fd;      /* job/control/progress.h; -1: none */
    uint32_t attempt;     /* the same; 0: none */
    const sigset_t *mask; /* signal mask that the ranks get */
    char *const *argv;
} launch_spawn;

typedef struct launch_child {
    pid_t pid;
    int pidfd;   /* readable when it has ended; -1 when it was reaped */
    int control; /* our end of its control socket (control.h) */
} launch_child;

/* Start rank `rank`. It is killed when this process dies, leads its own process group, has an empty
 * standard input, and inherits no other close-on-exec descriptor of this process. */
weft_status launch_spawn_rank(const launch_spawn *s, uint32_t rank, launch_child *out);

/* Make the key and the socket that listens on 127.0.0.1 at a free port; neither for one rank. For a
 * job whose ranks are all of this machine. */
weft_status launch_spawn_open(launch_spawn *s);

/* Only the socket, at a free port of the local address `addr` (a number); sets `addr` and `port`.
 */
weft_status launch_spawn_listen(launch_spawn *s, const char *addr);

void launch_spawn_close(launch_spawn *s);

#endif
