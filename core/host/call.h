/* host/call.h: how the core calls a plugin.
 *
 * Every call of a member of a plugin's table goes through a macro of this header. The macro notes,
 * per thread, which table and which member are being called, and checks the returned status against
 * weft/base.h. So a handler of crashes or of exit(), and later a watchdog, can name the plugin and
 * the call, and every failure has a message. The cost is a few plain stores to thread-local memory;
 * the owner of the table is looked up only after a failure. Tables of the core with the same type
 * may be called in this way, too; they belong to no plugin.
 *
 * The macros evaluate the table more than once, and must not be nested in each other's arguments.
 * All are [any]. */
#ifndef HOST_CALL_H
#define HOST_CALL_H

#include <stdbool.h>

#include "base/err.h"

/* The call that the thread is in. Calls nest: a plugin calls the core back, which calls another
 * plugin. */
typedef struct plugin_call {
    const void *key;  /* the table, or another key of host_call_register(); NULL: in none */
    const char *call; /* "update" */
    uint64_t number; /* incremented by each call of the thread: the same number twice means one call
                        that lasts */
    const struct plugin_call *outer; /* the enclosing call, on the stack */
} plugin_call;

extern _Thread_local plugin_call host_plugin_now;

/* `outer` receives the enclosing call, and lives until call_leave(). */
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

/* What a call may return besides WEFT_OK and failures. */
#define CALL_PLAIN 0u
#define CALL_MAY_WAIT 1u /* WEFT_BUSY: the core calls again */
#define CALL_MAY_REFUSE                                                                            \
    2u /* WEFT_UNSUPPORTED without a reason: the core continues without the feature */

/* The status that the core continues with. A failure that recorded nothing since err_count was
 * `mark` gets a message with plugin, call and status; a status that weft/base.h does not define, or
 * that the call must not return, becomes WEFT_INTERNAL. */
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

/* A member that returns a status: plain, polled, or optional. */
#define PLUGIN_CALL(table, ...) PLUGIN_STATUS(CALL_PLAIN, table, __VA_ARGS__)
#define PLUGIN_POLL(table, ...) PLUGIN_STATUS(CALL_MAY_WAIT, table, __VA_ARGS__)
#define PLUGIN_ASK(table, ...) PLUGIN_STATUS(CALL_MAY_REFUSE, table, __VA_ARGS__)

/* A member that returns another type, and one that returns nothing. */
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

/* --- owner of a key --- */

/* Register `key` for the plugin `name` of the file `path`; the texts live until host_call_forget().
 */
void host_call_register(const void *owner, const void *key, const char *name, const char *path);
void host_call_forget(const void *owner);

/* The member of the innermost plugin call of this thread; NULL: none. Takes no lock and allocates
 * nothing, so a signal handler may call it. */
const char *host_call_current(const char **name, const char **path);

/* The owner of `key`; false: none. Safe in a signal handler, too. */
bool host_call_whose(const void *key, const char **name, const char **path);

/* --- crash.c --- */

/* Install handlers, once, before the first thread: a fatal signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 * SIGABRT) first writes one line with the plugin and call that its thread is in, and then ends the
 * process as it would have. exit() called by anything but main() ends the process with status 1 and
 * a line that names the caller. */
void host_crash_watch(void);
void host_crash_main_returns(void); /* from here on main() may call exit() */

#endif
