/* bad/coll/coll.h: a library of collectives in shared memory of one machine, and its ways of
 * failing.
 *
 * The ranks of a communicator share a file in memory, which rank 0 creates; its id is the process
 * and the descriptor. An operation has two steps: each rank copies its input to its own area and
 * enters; when all have entered, it reads what it needs and leaves. It enters the next operation
 * when all have left. */
#ifndef BAD_COLL_H
#define BAD_COLL_H

#include "faults.h"

#include <stdatomic.h>
#include <weft/coll.h>

enum { RANKS = 8, QUEUE = 256, FILES = 64, CHILDREN = 16, AREA = 1 << 20 };

typedef struct file { /* an id */
    int32_t process, fd;
} file;

typedef struct child { /* of a communicator that is split */
    _Atomic uint32_t there;
    uint32_t color;
    file id;
} child;

typedef struct common {                     /* what the ranks share */
    _Atomic uint32_t in[RANKS], out[RANKS]; /* it has opened; it has closed */
    _Atomic int32_t process[RANKS];
    _Atomic uint64_t entered[RANKS], left[RANKS]; /* operations */
    _Atomic uint32_t aborted;
    child children[CHILDREN];
    char area[RANKS][AREA];
} common;

typedef struct op {
    weft_coll_call call;
    uint64_t group; /* from 1 */
    int entered, lost;
} op;

typedef struct module {
    const weft_host *host;
    int files[FILES], nfiles, failed;
    uint32_t calls; /* of this group */
    weft_comm *group;
} module;

struct weft_comm {
    module *m;
    common *shared; /* NULL until the file is there */
    weft_comm *parent;
    uint32_t rank, ranks, color;
    uint64_t posted, done, started; /* operations; groups */
    int broken, aborts, asked;      /* asked: health() was called */
    uint32_t waits;                 /* calls of test() in a row that did nothing */
    op queue[QUEUE];
};

weft_status coll_fail(const module *m, weft_status code, const char *what);
weft_status coll_begin(void *module, uint32_t flags);
weft_status coll_end(void *module, uint32_t flags);
weft_status coll_call(weft_comm *c, const weft_coll_call *call);
weft_status coll_test(weft_comm *c, uint32_t flags, uint64_t *done);
weft_status coll_supports(void *module, uint32_t kind, uint32_t redop, uint32_t dtype);

/* reduce.c of the template of coll */
void parts_reduce(uint32_t dtype, uint32_t redop, const char *const *from, uint32_t n, char *out,
                  uint64_t count);

#endif
