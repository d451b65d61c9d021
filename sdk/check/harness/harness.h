/* check/harness/harness.h: what checks share: a host for plugins that counts and can fail, options,
 * the state of the process, guarded memory, and rank processes.
 *
 * Calls into a plugin go through the macros of host/call.h (PLUGIN_GET for a result, PLUGIN_DO for
 * none), so that a crash and a passed deadline name the call; PLUGIN_CALL would change statuses. */
#ifndef CHECK_HARNESS_HARNESS_H
#define CHECK_HARNESS_HARNESS_H

#include "base/mem.h"
#include "check/check.h"
#include "config/config.h"
#include "host/call.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>
#include <weft/host.h>

/* --- loading: harness/load.c --- */

/* Load the file as the host does, once: r->h, r->components. A refusal fails the check. */
void check_load(check_run *r);

/* The file without the host's checks: the manifest as it is. NULL, with err_text(), where the
 * loader refuses the file or it has no entry. */
const weft_manifest *check_load_raw(const check_run *r);
typedef const weft_manifest *(*check_entry)(void);
check_entry check_raw_entry(const check_run *r, void **handle);

bool check_lists(const char *list, const char *iface); /* "a/1|b/1" has "b/1" */

/* --- the host: harness/host.c --- */

#define CHECK_LINE 256
#define CHECK_LINES 256

/* Sorts of wrong calls of the host table. */
typedef enum check_misuse {
    CHECK_MISUSE_MEMORY, /* alloc() and free() */
    CHECK_MISUSE_LOG,
    CHECK_MISUSE_FAIL,
    CHECK_MISUSE_KEY,  /* of a weft_conf */
    CHECK_MISUSE_STEP, /* what a call in a step may not do */
    CHECK_MISUSES
} check_misuse;

typedef struct check_block check_block;

/* The call in a step ([compute] or [progress]) that a driver makes now, "progress"; NULL: none. */
extern _Atomic(const char *) check_step;

/* A host for one module. The functions of the table may be called from any thread. */
typedef struct check_host {
    weft_host own;                  /* the table, complete */
    const weft_host *table;         /* what the plugin gets: `own`, or a copy at a guard page */
    const char *name;               /* for messages: "the first host" */
    weft_host_tls tls;              /* served as weft.host.tls/1 unless `bare` */
    uint64_t key;                   /* of the TLS */
    weft_host_component components; /* served as weft.host.component/1 unless `bare` */
    const weft_host_kv *kv;         /* served as weft.host.kv/1; NULL: not */
    bool bare;                      /* iface() is always NULL */
    bool guards;                    /* a weft_conf ends at a page without access */
    weft_status (*later)(void);     /* a weft_conf has this function behind its end; NULL: none */
    uint64_t fail_at; /* the allocation with this number (1 is the next) fails; 0: none */
    pthread_mutex_t lock;
    check_block *blocks;                    /* that are not given back */
    uint64_t allocs, live;                  /* allocations so far; blocks that are not given back */
    uint64_t records;                       /* calls of fail() */
    weft_status code;                       /* of the first record since check_host_clear() */
    char why[1024];                         /* its text; "" without one */
    char misuse[CHECK_MISUSES][CHECK_LINE]; /* the first wrong call of each sort; "": none */
    char log[CHECK_LINES][CHECK_LINE];      /* lines, cut */
    uint32_t lines;
    VEC(config *) configs;
    VEC(void *) confs; /* of check_conf() */
    const host_component
        *set_of; /* whose option `set_key` has the value `set_value` in check_conf() */
    const char *set_key, *set_value;
    const char *also_key, *also_value; /* a second one; NULL: none */
} check_host;

/* `h` is the caller's; check_host_end() frees what is left and checks nothing. */
void check_host_begin(check_host *h, const char *name);
void check_host_end(check_host *h);
void check_host_clear(check_host *h); /* forget the record */

/* Serve TLS with another key; check_host_begin() serves it with key 1. harness/tls.c */
void check_host_tls(check_host *h, uint64_t key);

/* Serve a tokenizer of bytes; check_host_begin() does so. harness/tokenizer.c */
void check_host_components(check_host *h);

/* The options of a component with their defaults, or a lawful value for an option without one;
 * lives until check_host_end(). A key that was not declared is a misuse. */
const weft_conf *check_conf(check_host *h, const host_component *c);

/* Values that the user gives options, "key=value": they count for each component that declares the
 * key, unless a check sets it. Where none does, check_options_declared() ends the process as "not
 * applicable". */
void check_options_set(const char *const *set, uint32_t n);
void check_options_declared(const check_run *r);
const char *check_options_value(const char *key); /* NULL: none */

/* Whether the component declares the key. */
const weft_option *check_option(const host_component *c, const char *key);

/* Something that a call in a step may not do; the first is kept. [any] */
void check_host_step(check_host *h, const char *what);

/* --- modules: harness/load.c --- */

/* open(), close(). check_open() returns what the plugin returned. After check_load() the manifest
 * is that of check_manifest(). */
weft_status check_open(const weft_manifest *m, check_host *h, void **module);
void check_close(const weft_manifest *m, void *module);
const weft_manifest *check_manifest(check_run *r); /* after check_load() */
const char *check_status(weft_status st);          /* "WEFT_OK"; "an unknown status" */

/* --- the state of the process: harness/state.c --- */

typedef struct check_state {
    uint32_t threads, descriptors;
    uint64_t mappings;       /* lines of /proc/self/maps */
    uint64_t bytes;          /* of all mappings */
    uint64_t signals, fds;   /* hashes */
    char environment[65536]; /* NAME=VALUE, each with its zero */
    uint32_t nenvironment;   /* bytes */
    char folder[4096], locale[256];
    uint32_t umask, control; /* control: the floating-point control word */
    uint64_t mask;           /* blocked signals */
    bool children;           /* there is a process that this one, or one of its own, started */
} check_state;

#define CHECK_STATE_OWNED 1u   /* what belongs to the process: environment, folder, signals, ... */
#define CHECK_STATE_FILES 2u   /* descriptors */
#define CHECK_STATE_THREADS 4u /* threads and processes */
#define CHECK_STATE_NEW 8u     /* new environment variables, which open() may set (weft/base.h) */

void check_state_take(check_state *s);

/* Whether a process is left, running or not waited for, that this one has started, or whose parent
 * has ended: a daemon. The process of a check is the reaper of those. */
bool check_state_children(void);

/* The first difference as a sentence, "" if there is none. */
const char *check_state_compare(const check_state *before, const check_state *after, uint32_t what);

/* --- guarded memory: harness/state.c --- */

/* `bytes` that end at a page without access; the page before is without access, too. `from` NULL:
 * zeros. check_guard_free() takes what check_guard() gave, with the same size. */
void *check_guard(const void *from, size_t bytes);
void check_guard_free(void *p, size_t bytes);

/* An address that no process has: what lies behind the operands of a call. */
#define CHECK_NOWHERE ((void *)(UINTPTR_MAX / 3 & ~(uintptr_t)63))

/* --- processes: harness/ranks.c --- */

/* A rank of check_ranks(). */
typedef struct check_rank {
    uint32_t rank, ranks;
    check_run *run;
    void *arg; /* memory of before the fork */
    struct check_meeting *meeting;
} check_rank;

#define CHECK_EXCHANGE 4096u /* bytes of a rank at most */

/* Run `fn` in `n` processes, at most 16, forked from this one, or in `n` threads; returns when all
 * have returned from it. check_fail() and check_not_applicable() in a rank end all. A rank that
 * dies otherwise is a failure, unless check_rank_dies() has announced it. Fork before a module is
 * open: plugins' threads are not copied. */
void check_ranks(check_run *r, uint32_t n, void (*fn)(check_rank *k), void *arg, uint32_t seconds,
                 bool threads);

/* Every rank gives `bytes`, at most CHECK_EXCHANGE, and gets those of all, rank by rank, into
 * all[ranks * bytes]. A barrier with bytes 0. Waits at most the deadline of check_ranks(). */
void check_rank_exchange(check_rank *k, const void *mine, size_t bytes, void *all);

/* Whether ranks of a transport are threads (--threads): for hardware, or a double of it, that
 * reaches no other process. */
void check_ranks_set(bool threads);
bool check_ranks_are_threads(void);

/* The process of a rank, for signals; and that its death is expected. */
pid_t check_rank_process(check_rank *k, uint32_t rank);
void check_rank_dies(check_rank *k, uint32_t rank);

/* Run `fn` in one forked process and return its wait status; after `seconds` it is killed and
 * *late is set. */
int check_fork(void (*fn)(void *arg), void *arg, uint32_t seconds, bool *late);

/* Run `fn`, which asks probe() of `c`, in one forked process. The check fails when the process dies
 * or takes more than 5 seconds. */
void check_fork_probe(const host_component *c, void (*fn)(void *arg), void *arg);

/* An id of a job, unlike any other's: other checks run at the same time. */
void check_job_id(char out[33]);

/* Memory of `bytes` that processes forked later share, zeros. It lives until munmap() or the end of
 * the process. */
void *check_shared(uint64_t bytes);

/* --- random numbers --- */

/* The next of a sequence; *state begins as check_run.seed. [any] */
static inline uint64_t check_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

#endif
