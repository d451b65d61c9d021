/* host/call.h: how the core calls a plugin.
 *
 * Every call of a member of a plugin's table goes through a macro of this header. It notes, per
 * thread, which table and which member are being called, and checks the returned status against
 * weft/base.h. So a handler of crashes or of exit() and a watchdog (watch.h) can name the call, and
 * every failure has a message. The cost is a few plain stores; the owner of the table is looked up
 * after a failure. Tables of the core may be called so, too; they belong to no plugin.
 *
 * The macros evaluate the table more than once, and must not be nested in each other's arguments.
 * All are [any]. */
#ifndef HOST_CALL_H
#define HOST_CALL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/time/took.h"

#define CALL_DEPTH 16u /* deeper calls are counted, but not noted */

typedef struct host_call_site host_call_site;

/* A call that a thread is in. Only its thread writes the first three; another one may read them
 * (watch.h). A pair of equal numbers, read before and after the other two, says that these belong
 * to that call: the number is 0 while they change, and a release store orders each after the one
 * before, which is a plain store on x86. */
typedef struct host_call_frame {
    _Atomic(const void *) key;  /* the table, or another key of host_call_register() */
    _Atomic(const char *) call; /* "update" */
    _Atomic uint64_t number;    /* call_number(): every call of the thread has another; 0: none */
    uint64_t seen, ms;          /* of the watchdog: the number at its last look, and since when */
    host_call_site *site;       /* ... and where the thread was then */
} host_call_frame;

/* A place to which a thread comes again and again: an instruction of a step. How long the calls of
 * plugins took there is the measure for the next one (watch.h). From host_sites_new(). */
struct host_call_site {
    _Atomic uint32_t seen; /* how often what is done here was done to its end, up to CALL_SEEN */
    uint32_t longest_ms;   /* of the watchdog: the longest call that has ended here */
};

#define CALL_SEEN 3u /* before that a call may have work to do that is done once */

/* The calls of one thread. They nest: a plugin calls the core back, which calls another plugin. */
typedef struct host_thread_calls {
    host_call_frame frame[CALL_DEPTH];
    _Atomic uint32_t depth;
    _Atomic(host_call_site *) site; /* NULL: none; else that of index 0 */
    bool listed;                    /* the watchdog knows this slot */
    uint64_t count;
    struct host_thread_calls *next; /* of the watchdog, and the rest: */
    pid_t tid;
    bool looked; /* at the thread, in the same outermost call */
    took_thread took;
} host_thread_calls;

extern _Thread_local host_thread_calls host_call_slot;

/* Add the slot of this thread to those that the watchdog reads; watch.c. */
void host_watch_add(void);

static inline host_call_frame *call_frame_at(host_thread_calls *s, uint32_t depth)
{
    return &s->frame[depth < CALL_DEPTH ? depth : CALL_DEPTH - 1];
}

/* The next number, with the index of the site at which it is made, counted from the slot's: so one
 * store writes both. It comes again after 2^40 calls, which a watchdog that looks often enough does
 * not take for the same one. */
#define CALL_INDEX_BITS 24u

static inline uint64_t call_number(host_thread_calls *s, uint64_t index)
{
    const uint64_t mask = (UINT64_C(1) << CALL_INDEX_BITS) - 1;
    return ++s->count << CALL_INDEX_BITS | (index & mask);
}

/* The call that thread `s` is in at `depth`, as another thread reads it: all of it belongs to that
 * one call, or `number` is 0. A site is an array and an index, and the thread changes both when it
 * is in no call. The index is in the number of the outermost call. It is read with the array for
 * each frame, between two equal numbers of that frame: no outer call has ended in between. */
typedef struct host_call_read {
    const void *key;
    const char *call;
    host_call_site *site; /* NULL: none */
    uint64_t number; /* 0: no call, or one that began or ended meanwhile; the rest is undefined */
} host_call_read;

static inline host_call_read call_read_frame(const host_thread_calls *s, uint32_t depth)
{
    const uint64_t mask = (UINT64_C(1) << CALL_INDEX_BITS) - 1;
    const host_call_frame *f = &s->frame[depth];
    host_call_read r = {.number = atomic_load_explicit(&f->number, memory_order_acquire)};
    r.key = atomic_load_explicit(&f->key, memory_order_acquire);
    r.call = atomic_load_explicit(&f->call, memory_order_acquire);
    host_call_site *site = atomic_load_explicit(&s->site, memory_order_acquire);
    const uint64_t outermost = atomic_load_explicit(&s->frame[0].number, memory_order_acquire);
    if (atomic_load_explicit(&f->number, memory_order_relaxed) != r.number)
        r.number = 0;
    r.site = site ? site + (outermost & mask) : NULL;
    return r;
}

static inline void call_enter(const void *key, const char *call)
{
    host_thread_calls *s = &host_call_slot;
    const uint32_t depth = atomic_load_explicit(&s->depth, memory_order_relaxed);
    host_call_frame *f = call_frame_at(s, depth);
    if (__builtin_expect(!s->listed, 0))
        host_watch_add();
    atomic_store_explicit(&f->key, key, memory_order_release);
    atomic_store_explicit(&f->call, call, memory_order_release);
    atomic_store_explicit(&f->number, call_number(s, 0), memory_order_release);
    atomic_store_explicit(&s->depth, depth + 1, memory_order_relaxed);
}

static inline void call_leave(void)
{
    host_thread_calls *s = &host_call_slot;
    const uint32_t depth = atomic_load_explicit(&s->depth, memory_order_relaxed) - 1;
    atomic_store_explicit(&call_frame_at(s, depth)->number, 0, memory_order_relaxed);
    atomic_store_explicit(&s->depth, depth, memory_order_relaxed);
}

/* This thread comes to `site` (NULL: to none), or to an array of them that begins there, and stays
 * until the next of these calls. Between calls of plugins. */
static inline void call_site_enter(host_call_site *site)
{
    atomic_store_explicit(&host_call_slot.site, site, memory_order_release);
}

static inline bool call_site_is_new(const host_call_site *site)
{
    return site && atomic_load_explicit(&site->seen, memory_order_relaxed) < CALL_SEEN;
}

/* What is done at `site` (NULL: none) was done once more. */
static inline void call_site_count(host_call_site *site)
{
    if (call_site_is_new(site))
        atomic_fetch_add_explicit(&site->seen, 1, memory_order_relaxed);
}

/* Pieces of the outermost call, one at each of the sites from index 0 on, which have deadlines of
 * their own: kernels that run in a row are noted as one call. Numbers for all of them are taken at
 * once, so a piece costs an addition and a store. Calls may be made within a piece. */
typedef struct host_call_row {
    host_call_frame *frame;
    uint64_t next;
} host_call_row;

static inline host_call_row call_row_begin(uint32_t pieces)
{
    host_thread_calls *s = &host_call_slot;
    const uint32_t depth = atomic_load_explicit(&s->depth, memory_order_relaxed);
    const host_call_row row = {call_frame_at(s, depth - 1), call_number(s, 0)};
    s->count += pieces;
    return row;
}

static inline void call_row_next(host_call_row *row)
{
    atomic_store_explicit(&row->frame->number, row->next, memory_order_release);
    row->next += (UINT64_C(1) << CALL_INDEX_BITS) | 1; /* the next number, and the next index */
}

/* The thread moves on, within the innermost call, if it is in one: for loops of the core that
 * wait. */
static inline void call_tick(void)
{
    host_thread_calls *s = &host_call_slot;
    const uint32_t depth = atomic_load_explicit(&s->depth, memory_order_relaxed);
    if (!depth)
        return;
    host_call_frame *f = call_frame_at(s, depth - 1);
    const uint64_t old = atomic_load_explicit(&f->number, memory_order_relaxed);
    atomic_store_explicit(&f->number, call_number(s, old), memory_order_release);
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
        call_enter((table), #member);                                                              \
        const weft_status status_ = (table)->member(__VA_ARGS__);                                  \
        call_leave();                                                                              \
        call_check((table), #member, status_, mark_, (may));                                       \
    })

/* A member that returns a status: plain, polled, or optional. */
#define PLUGIN_CALL(table, ...) PLUGIN_STATUS(CALL_PLAIN, table, __VA_ARGS__)
#define PLUGIN_POLL(table, ...) PLUGIN_STATUS(CALL_MAY_WAIT, table, __VA_ARGS__)
#define PLUGIN_ASK(table, ...) PLUGIN_STATUS(CALL_MAY_REFUSE, table, __VA_ARGS__)

/* A member that returns another type, and one that returns nothing. */
#define PLUGIN_GET(table, member, ...)                                                             \
    ({                                                                                             \
        call_enter((table), #member);                                                              \
        __auto_type got_ = (table)->member(__VA_ARGS__);                                           \
        call_leave();                                                                              \
        got_;                                                                                      \
    })
#define PLUGIN_DO(table, member, ...)                                                              \
    do {                                                                                           \
        call_enter((table), #member);                                                              \
        (table)->member(__VA_ARGS__);                                                              \
        call_leave();                                                                              \
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

/* "update() of the plugin acme.lion (PATH)" for a call of any thread; false: `key` has no owner. */
bool host_call_describe(const void *key, const char *call, char *out, size_t size);

/* The same for the innermost plugin call of this thread; false: none. */
bool host_call_describe_current(char *out, size_t size);

/* --- crash.c --- */

/* Install handlers, once, before the first thread: a fatal signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 * SIGABRT) first writes one line with the plugin and call that its thread is in, and then ends the
 * process as it would have. exit() called by anything but main() ends the process with status 1 and
 * a line that names the caller. A mapped file that became shorter ends it with status 1 and a line
 * that names the file. */
void host_crash_watch(void);

/* From now on the sentence goes there, into zeroed memory, maybe shared; no line is written. */
#define HOST_CRASH_TEXT 1024
void host_crash_keep(char sentence[HOST_CRASH_TEXT]);
void host_crash_main_returns(void); /* from here on main() may call exit() */

#endif
