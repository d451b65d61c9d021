/* job/hosts/ssh.h: start the agent (agent.h) on a host by ssh, as a child process. */
#ifndef JOB_HOSTS_SSH_H
#define JOB_HOSTS_SSH_H

#include <sys/types.h>

#include "base/pool.h"
#include "job/hosts/frame.h"
#include "job/hosts/list.h"

#define SSH_WORDS_MAX 64u

typedef struct job_ssh {
    pid_t pid;
    int pidfd;  /* readable when it has ended; -1: reaped */
    int status; /* as waitpid() has it, when it has been reaped */
    frame_link link;
} job_ssh;

/* The command line for `host`: `ssh` ("ssh", or "ssh -p 2222 -i KEY": words without quotes),
 * options that forbid questions and detect a dead connection, the host, and the remote command,
 * which runs this program in this working folder, both by their paths here. For a program that is
 * not called "ssh" the options are left out. WEFT_USAGE: `ssh` has no words or too many. Strings
 * are those of `p`. [setup] */
weft_status job_ssh_command(pool *p, const char *ssh, const char *host, char *out[SSH_WORDS_MAX]);

/* Run it. The child is killed when this process dies, has its own process group, and shares
 * standard error. [setup] */
weft_status job_ssh_start(const char *ssh, const char *host, job_ssh *out);

/* Reap it, after pidfd was readable or after a SIGKILL; closes the link. [any] */
void job_ssh_end(job_ssh *s);

/* "ended with status 255", and what that means. */
void job_ssh_describe(const job_ssh *s, const char *host, char *out, size_t bytes);

#endif
