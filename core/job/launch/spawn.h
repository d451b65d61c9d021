/* job/launch/spawn.h: one rank as a child process. */
#ifndef JOB_SPAWN_H
#define JOB_SPAWN_H

#include <signal.h>
#include <sys/types.h>
#include <weft/base.h>

typedef struct spawn_job {
    uint32_t ranks;
    uint16_t port;
    int key_fd, store_fd; /* close-on-exec; children open them to exec; -1: none */
    int job_fd;           /* likewise; of config/source.h, which keeps it        */
    int alive_fd;         /* alive.h; -1: none                         */
    const sigset_t *mask; /* signal mask that the ranks get            */
    char *const *argv;
} spawn_job;

typedef struct spawn_child {
    pid_t pid;
    int pidfd;   /* readable when it has ended; -1 when it was reaped */
    int control; /* our end of its line (control.h)                   */
} spawn_child;

/* Start rank `rank`. It is killed when we die, leads a process group of its own, reads nothing from
 * standard input, and holds no other descriptor of ours that is close-on-exec. */
weft_status job_spawn_rank(const spawn_job *s, uint32_t rank, spawn_child *out);

/* The key, and the socket that listens on 127.0.0.1 at a free port; neither for one rank. */
weft_status job_spawn_open(spawn_job *s);
void job_spawn_close(spawn_job *s);

#endif
