/* run/exec/sites.h: where in its lists this rank is, and how long each place may take.
 *
 * Every instruction of a segment and every collective is a site (host/call.h), whose calls the
 * watchdog measures. Waits for a device that computes later are measured here, with the same
 * deadline. Where the device's own streams wait for other ranks (its library of collectives,
 * staging), calls and waits last as long as another rank does: run.call_deadline and run.deadline
 * hold. */
#ifndef RUN_EXEC_SITES_H
#define RUN_EXEC_SITES_H

#include <stdatomic.h>

#include "host/call.h"
#include "run/exec/executor.h"

/* A wait for the device at one place. */
typedef struct run_exec_wait {
    uint64_t longest_ns; /* that ended well */
    uint32_t seen;
} run_exec_wait;

typedef struct run_exec_sites {
    host_call_site *instr;      /* [instrs] of the plan; NULL: the device waits for other ranks */
    host_call_site *collective; /* [collectives]; NULL likewise */
    run_exec_wait *waits; /* [collectives], then two a list: before its tail, and at its end */
    run_exec_wait *wait;  /* that comes next; NULL: none of these */
    _Atomic(const plan_list *) list; /* that is walked; NULL: none */
    _Atomic uint64_t step;
    _Atomic uint32_t entry;
} run_exec_sites;

/* After the ranks were connected. run_sites_free() also after a failure. [setup] */
void run_sites_make(run_executor *e);
void run_sites_free(run_executor *e);

/* A walk of `l` begins; it ends. [compute] */
void run_sites_begin(run_executor *e, const plan_list *l);
void run_sites_end(run_executor *e);

/* Entry `i` of the list begins. [compute] */
static inline void run_sites_entry(run_executor *e, uint32_t i)
{
    atomic_store_explicit(&e->sites->entry, i, memory_order_relaxed);
}

/* The site of an instruction of the plan, and of a collective; NULL: none. [compute] */
static inline host_call_site *run_site_instr(const run_executor *e, uint32_t i)
{
    return e->sites->instr ? e->sites->instr + i : NULL;
}

static inline host_call_site *run_site_collective(const run_executor *e, uint32_t number)
{
    return e->sites->collective ? e->sites->collective + number : NULL;
}

/* The next wait for the device is that before collective `number`. [compute] */
static inline void run_sites_wait_for(run_executor *e, uint32_t number)
{
    e->sites->wait = e->sites->instr ? &e->sites->waits[number] : NULL;
}

/* The next one is the last of a walk, or that before the list's tail. [compute] */
void run_sites_last_wait(run_executor *e, const plan_list *l, bool at_end);

/* One wait for the device: run_sites_waits() whenever it has not finished, run_sites_waited() at
 * the end. Time in which this thread did not run counts as a moment at most. */
typedef struct run_exec_waiting {
    uint64_t last, ns; /* clock_ns() of the last look; time so far */
} run_exec_waiting;
weft_status run_sites_waits(run_executor *e, run_exec_waiting *w); /* WEFT_IO: too long [compute] */
void run_sites_waited(run_executor *e, const run_exec_waiting *w); /* [compute] */

#endif
