/* rig.h: one rank of a test of collectives on host memory. A process a rank: forked here, with a
 * host whose weft.host.kv/1 is shared memory, or started by mpirun, with a host without it. */
#ifndef COLL_RIG_H
#define COLL_RIG_H

#include <stdbool.h>

#include <weft/coll.h>
#include <weft/host.h>

enum { MOST = 8, PATIENCE = 60 };

extern uint32_t rig_me, rig_ranks;
extern char rig_why[1024];               /* the last failure that the plugin has recorded */
extern const weft_coll_table *rig_table; /* of the plugin's first component */
extern void *rig_module;
extern bool rig_forked;

/* Processes of a rank cannot use cmocka's asserts: a failure ends the process with status 3. */
#define MUST(x) ((x) ? (void)0 : rig_must_failed(#x, __FILE__, __LINE__))
void rig_must_failed(const char *what, const char *file, int line);

void rig_nap(void);
double rig_now(void);

/* Communicator number `which` of all ranks, when it is ready. */
weft_comm *rig_open(uint32_t which);

/* Run `rank` in each of 1 to 5 processes, or once where mpirun has started this one. The last of
 * several forked ranks must kill itself, the others return 0. */
int rig_main(int argc, char **argv, int (*rank)(void));

#endif
