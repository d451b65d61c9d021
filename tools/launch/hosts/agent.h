/* launch/hosts/agent.h: the process that a launcher starts on another host by ssh: it starts the
 * ranks of that host, reports what they say, how they end and that all of them are frozen, and does
 * as the launcher says. It decides nothing itself. Signals that reach it go to its ranks. When the
 * connection to the launcher ends, it kills its ranks. */
#ifndef LAUNCH_HOSTS_AGENT_H
#define LAUNCH_HOSTS_AGENT_H

/* Serve the launcher over standard input and output, until the ranks have ended. Returns the exit
 * status: 0, or 1 after a failure, which the launcher has been told. Call it from the main thread
 * before any other is started. [setup] */
int launch_agent_run(void);

#endif
