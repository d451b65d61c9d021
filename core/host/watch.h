/* host/watch.h: a deadline for every call of a plugin. watch.c has the idea. */
#ifndef HOST_WATCH_H
#define HOST_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"
#include "host/call.h"

/* Take run.call_deadline, run.setup_deadline, run.stuck_after and run.planning_mb from `cfg`,
 * before its check: if [run] has an error, which the check reports, or `cfg` is NULL, the limits
 * stay. [setup] */
void host_limits_set(const config *cfg);

/* The deadline in milliseconds of what took at most `longest_ms` so far: run.stuck_after, or
 * WATCH_TIMES times that if it is more. 0: none, since run.stuck_after or run.call_deadline is 0.
 * [any] */
#define WATCH_TIMES 5u
uint64_t host_limits_stuck(uint64_t longest_ms);

/* At most so many seconds for a call that may not take long, at least so many for any that has a
 * limit, and what holds now for the first; 0: no limit. [setup] */
void host_limits_shorten(double seconds);
void host_limits_lengthen(double seconds);
double host_limits_call(void);

/* Bytes that a plugin may hold through its host's alloc() when it asks in a call that plans, and
 * whether this thread is in such a call. The first is one load. [any] */
uint64_t host_limits_bytes(void);
bool host_limits_plans(void);

/* The watchdog runs between these; they nest. host_create() and host_destroy() call them. [setup]
 */
void host_watch_begin(void);
void host_watch_end(void);

/* `n` sites (call.h), for threads that come to them from now on; free them when none does any more.
 * NULL allowed. [setup] */
host_call_site *host_sites_new(uint32_t n);
void host_sites_free(host_call_site *sites);

/* Who knows where in its work this process is: writes "rank 1, step 17, entry 34 of list step, X"
 * for a call at `site`, from the watchdog's thread; false: nowhere. `say` NULL: nobody. [setup] */
typedef bool host_watch_whereabouts(const void *ctx, const host_call_site *site, char *out,
                                    size_t size);
void host_watch_place(host_watch_whereabouts *say, const void *ctx);

/* fork() without the watchdog's thread, so that a process with one other thread is forked as such.
 * The child process has no watchdog before it calls host_watch_begin(). [setup] */
pid_t host_watch_fork(void);

/* Who tells the other ranks and the launcher of this process's end, from the watchdog's thread:
 * true if `text` is printed elsewhere. NULL: nobody. [setup] */
typedef bool host_watch_reporter(const char *text);
void host_watch_report_to(host_watch_reporter *reporter);

/* End this process with status 1 and the sentence, as the watchdog does. [any] */
_Noreturn void host_watch_end_process(const char *text);

#endif
