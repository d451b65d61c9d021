/* check/watch.h: a fatal signal, exit() and the deadline write their own result, with the plugin's
 * call that the process is in (host/call.h); private to this folder. The parent also has a
 * deadline, for a plugin that blocks SIGALRM. */
#ifndef CHECK_WATCH_H
#define CHECK_WATCH_H

#include <stdint.h>

/* For how long a parent waits longer than the process that it has started. */
#define CHECK_GRACE_MS 2500u

/* Install the handlers, in the process of a check and again in each that it forks. The watchdog of
 * the host (host/watch.h) waits longer than that on any machine. [setup] */
void check_watch(uint32_t seconds);

/* From here on the process may call exit(). */
void check_watch_exit(void);

#endif
