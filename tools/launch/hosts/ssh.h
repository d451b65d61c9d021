/* launch/hosts/ssh.h: start the agent (agent.h) on a host by ssh, as a child process. */
#ifndef LAUNCH_HOSTS_SSH_H
#define LAUNCH_HOSTS_SSH_H

#include <sys/types.h>

#include "base/pool.h"
#include "launch/hosts/frame.h"

#define SSH_WORDS_MAX 64u

typedef struct launch_ssh {
    pid_t pid;
    int pidfd;  /* readable when it has ended; -1: reaped */
    int status; /* as waitpid() has it, when it has been reaped */
    launch_frame_link link;
} launch_ssh;

/* `text` in single quotes for a shell, in `p`. [any] */
char *launch_quote(pool *p, const char *text);

/* The command line for `host`: `ssh` ("ssh", or "ssh -p 2222 -i KEY": words without quotes),
 * options that forbid questions and detect a dead connection, the host, and the remote command,
 * which runs this program in this working folder, both by their paths here. For a program that is
 * not called "ssh" the options are left out. WEFT_USAGE: `ssh` has no words or too many. Strings
 * are those of `p`. [setup] */
weft_status launch_ssh_command(pool *p, const char *ssh, const char *host,
                               char *out[SSH_WORDS_MAX]);

/* Run it. The child is killed when this process dies, has its own process group, and shares
 * standard error. [setup] */
weft_status launch_ssh_start(const char *ssh, const char *host, launch_ssh *out);

/* Reap it, after pidfd was readable or after a SIGKILL; closes the link. [any] */
void launch_ssh_end(launch_ssh *s);

/* "ended with status 255", and what that means. */
void launch_ssh_describe(const launch_ssh *s, const char *host, char *out, size_t bytes);

#endif
