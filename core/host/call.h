/* host/call.h: how the core calls a plugin.
 *
 * Every call of a member of a plugin's table goes through a macro of this header. It notes, for the
 * calling thread, which table and which member are being called, and holds the status that comes
 * back against weft/base.h. So a crash, an exit() and later a watchdog can name plugin and call,
 * and no failure is without a sentence. The cost is a few plain stores to thread-local memory; what
 * the noted table belongs to is looked up only when something has gone wrong. Tables of the core's
 * own, with the same type, may be called in this way too: they are no plugin's.
 *
 * The macros evaluate the table more than once, and must not be nested in each other's arguments.
 * All are [any]. */
#ifndef HOST_CALL_H
#define HOST_CALL_H

#include <stdbool.h>

#include "base/err.h"

/* Which call the thread is in. Calls nest: a plugin calls the core back, which calls another. */
typedef struct plugin_call {
    const void *key;  /* the table, or another key of host_call_register(); NULL: in none */
    const char *call; /* "update" */
    uint64_t number;  /* one more with each call of the thread: who finds the same number twice has
                       * seen one call that lasts */
    const struct plugin_call *outer; /* the call that this one is made in, on the stack */
} plugin_call;

extern _Thread_local plugin_call host_plugin_now;

/* `outer` becomes what was noted before, and lives until call_leave(). */
static inline void call_enter(plugin_call *outer, const void *key, const char *call)
{
    *outer = host_plugin_now;
    host_plugin_now = (plugin_call){key, call, outer->number + 1, outer};
}

static inline void call_leave(const plugin_call *outer)
{
    host_plugin_now.key = outer->key;
    host_plugin_now.call = outer->call;
    host_plugin_now.outer = outer->outer;
}

/* What a call may answer besides WEFT_OK and failures. */
#define CALL_PLAIN 0u
#define CALL_MAY_WAIT 1u   /* WEFT_BUSY: it is asked again */
#define CALL_MAY_REFUSE 2u /* WEFT_UNSUPPORTED, without a reason: the core goes on without */

/* The status that the core goes on with. A failure that recorded nothing since err_count was `mark`
 * gets a sentence with plugin, call and status; a status that weft/base.h does not have, or that
 * the call may not answer, is WEFT_INTERNAL. */
weft_status host_call_check(const void *key, const char *call, weft_status st, uint32_t mark,
                            uint32_t may);

static inline weft_status call_check(const void *key, const char *call, weft_status st,
                                     uint32_t mark, uint32_t may)
{
    return __builtin_expect(st == WEFT_OK, 1) ? WEFT_OK : host_call_check(key, call, st, mark, may);
}

#define PLUGIN_STATUS(may, table, member, ...)                                                     \
    ({                                                                                             \
        const uint32_t mark_ = err_count;                                                          \
        plugin_call outer_;                                                                        \
        call_enter(&outer_, (table), #member);                                                     \
        const weft_status status_ = (table)->member(__VA_ARGS__);                                  \
        call_leave(&outer_);                                                                       \
        call_check((table), #member, status_, mark_, (may));                                       \
    })

/* A member that returns a status: as it is, one that is polled, one that may have no answer. */
#define PLUGIN_CALL(table, ...) PLUGIN_STATUS(CALL_PLAIN, table, __VA_ARGS__)
#define PLUGIN_POLL(table, ...) PLUGIN_STATUS(CALL_MAY_WAIT, table, __VA_ARGS__)
#define PLUGIN_ASK(table, ...) PLUGIN_STATUS(CALL_MAY_REFUSE, table, __VA_ARGS__)

/* A member that returns something else, and one that returns nothing. */
#define PLUGIN_GET(table, member, ...)                                                             \
    ({                                                                                             \
        plugin_call outer_;                                                                        \
        call_enter(&outer_, (table), #member);                                                     \
        __auto_type got_ = (table)->member(__VA_ARGS__);                                           \
        call_leave(&outer_);                                                                       \
        got_;                                                                                      \
    })
#define PLUGIN_DO(table, member, ...)                                                              \
    do {                                                                                           \
        plugin_call outer_;                                                                        \
        call_enter(&outer_, (table), #member);                                                     \
        (table)->member(__VA_ARGS__);                                                              \
        call_leave(&outer_);                                                                       \
    } while (0)

/* --- whose a key is --- */

/* `key` stands for the plugin `name` of the file `path`; the texts live until host_call_forget().
 */
void host_call_register(const void *owner, const void *key, const char *name, const char *path);
void host_call_forget(const void *owner);

/* The innermost call of this thread that is a plugin's: its member; NULL: there is none. Takes no
 * lock and allocates nothing, so a signal handler may ask. */
const char *host_call_current(const char **name, const char **path);

/* Whose is `key`? False: nobody's. Likewise. */
bool host_call_whose(const void *key, const char **name, const char **path);

/* --- crash.c --- */

/* From here on a fatal signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) first writes one line with
 * the plugin and call that its thread is in, and then ends the process as it would have; and exit()
 * called by anybody but main() ends it with status 1 and a line that says who. Once, before the
 * first thread. */
void host_crash_watch(void);
void host_crash_main_returns(void); /* exit() is main()'s from here on */

#endif
