/* lane.h: a queue of MPI operations that are started and tested in order.
 *
 * A connection has two lanes, a communicator has one. The core's thread writes operations into the
 * ring and posts them; whoever may call MPI then starts them and tests the oldest, which lets MPI
 * advance all. That is the posting thread itself, or the MPI thread (world.h). Only three counters
 * cross threads. A lane is used by one thread of the core at a time. */
#ifndef WEFT_MPI_LANE_H
#define WEFT_MPI_LANE_H

#include "world.h"

/* One MPI operation, at most 2^31 - 1 elements. */
typedef struct mpi_piece {
    uint32_t kind, redop, dtype; /* as in coll.h */
    int count;                   /* elements, of one part where the kind has parts */
    int root, tag;               /* root: also the peer */
    const void *in;
    void *out;
    uint64_t mark; /* the owner's */
    MPI_Request request;
} mpi_piece;

typedef struct mpi_lane {
    mpi_poller poller; /* of the MPI thread */
    MPI_Comm comm;
    int me;          /* rank in comm */
    MPI_Op *op16[2]; /* of bf16 and of fp16: sum, maximum, minimum; NULL without reductions */
    mpi_piece *ring;
    uint32_t room;
    uint64_t counted;        /* of finished pieces, by the owner: these are free again */
    uint64_t begun;          /* by the thread that calls MPI */
    _Atomic uint64_t posted; /* by the owner */
    _Atomic uint64_t finished;
    atomic_int error; /* of MPI, for the piece `finished` */
    int got;          /* bytes that it received, where they are too few; -1: none */
} mpi_lane;

weft_status mpi_lane_make(mpi_lane *lane, const weft_host *h, uint32_t room);
void mpi_lane_free(mpi_lane *lane);

/* Place for the i-th operation after those that are posted, zeroed; NULL: the ring is full. Pieces
 * up to `counted` are overwritten. */
mpi_piece *mpi_lane_next(mpi_lane *lane, uint32_t i);

/* Post n operations and start them, as far as this thread may. */
void mpi_lane_post(mpi_lane *lane, uint32_t n);

/* Start and test, if this thread may. */
void mpi_lane_advance(mpi_lane *lane);

/* The same on a thread that calls MPI. */
enum mpi_motion mpi_lane_poll(void *lane);

/* Withdraw what is in flight, and return whether MPI has let go of the memory: a send that has
 * begun cannot be withdrawn. The last call but mpi_lane_free(), on a thread that calls MPI. */
bool mpi_lane_cancel(mpi_lane *lane);

#endif
