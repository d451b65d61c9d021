/* lane.c: see lane.h. */
#include "lane.h"

#include <stdlib.h>
#include <string.h>
#include <weft/coll.h>

weft_status mpi_lane_make(mpi_lane *lane, const weft_host *h, uint32_t room)
{
    weft_status st = WEFT_OK;
    lane->ring = mpi_new(h, room * sizeof *lane->ring, &st);
    lane->room = room;
    lane->got = -1;
    lane->poller = (mpi_poller){.poll = mpi_lane_poll, .arg = lane};
    return st;
}

void mpi_lane_free(mpi_lane *lane)
{
    free(lane->ring);
    lane->ring = NULL;
}

mpi_piece *mpi_lane_next(mpi_lane *lane, uint32_t i)
{
    const uint64_t at = atomic_load(&lane->posted) + i;
    if (at - lane->counted >= lane->room)
        return NULL;
    mpi_piece *p = &lane->ring[at % lane->room];
    memset(p, 0, sizeof *p);
    return p;
}

static MPI_Datatype type_of(const mpi_api *m, uint32_t dtype)
{
    switch (dtype) {
    case WEFT_F32: return m->f32;
    case WEFT_F64: return m->f64;
    case WEFT_I32: return m->i32;
    case WEFT_I64: return m->i64;
    case WEFT_U8: return m->u8;
    default: return m->u16; /* bf16 and fp16 */
    }
}

static MPI_Op op_of(const mpi_lane *lane, const mpi_api *m, const mpi_piece *p)
{
    if (p->dtype == WEFT_BF16 || p->dtype == WEFT_F16)
        return lane->op16[p->dtype == WEFT_F16][p->redop - WEFT_SUM];
    return p->redop == WEFT_SUM ? m->sum : p->redop == WEFT_MAX ? m->max : m->min;
}

static int begin_reduction(const mpi_lane *lane, const mpi_api *m, mpi_piece *p)
{
    const MPI_Datatype t = type_of(m, p->dtype);
    const MPI_Op op = op_of(lane, m, p);
    const bool in_place = p->in == p->out;
    switch (p->kind) {
    case WEFT_ALL_REDUCE:
        return m->Iallreduce(in_place ? MPI_IN_PLACE : p->in, p->out, p->count, t, op, lane->comm,
                             &p->request);
    case WEFT_REDUCE_SCATTER:
        return m->Ireduce_scatter_block(p->in, p->out, p->count, t, op, lane->comm, &p->request);
    default:
        return m->Ireduce(p->root == lane->me && in_place ? MPI_IN_PLACE : p->in, p->out, p->count,
                          t, op, p->root, lane->comm, &p->request);
    }
}

/* In place, the smaller side lies at this rank's part of the larger one. */
static int begin_with_parts(const mpi_lane *lane, const mpi_api *m, mpi_piece *p)
{
    const MPI_Datatype t = type_of(m, p->dtype);
    const uint64_t bytes = (uint64_t)p->count * weft_dtype_size(p->dtype);
    const bool mine = p->root == lane->me;
    const char *part_of_in = (const char *)p->in + (uint64_t)lane->me * bytes;
    const char *part_of_out = (const char *)p->out + (uint64_t)lane->me * bytes;
    const bool gathers_here = p->kind == WEFT_ALL_GATHER || mine;
    const void *in = gathers_here && p->in == part_of_out ? MPI_IN_PLACE : p->in;
    void *out = mine && p->out == part_of_in ? MPI_IN_PLACE : p->out;
    switch (p->kind) {
    case WEFT_ALL_GATHER:
        return m->Iallgather(in, p->count, t, p->out, p->count, t, lane->comm, &p->request);
    case WEFT_GATHER:
        return m->Igather(in, p->count, t, p->out, p->count, t, p->root, lane->comm, &p->request);
    case WEFT_SCATTER:
        return m->Iscatter(p->in, p->count, t, out, p->count, t, p->root, lane->comm, &p->request);
    default:
        return m->Ialltoall(p->in == p->out ? MPI_IN_PLACE : p->in, p->count, t, p->out, p->count,
                            t, lane->comm, &p->request);
    }
}

static int begin_piece(const mpi_lane *lane, const mpi_api *m, mpi_piece *p)
{
    const MPI_Datatype t = type_of(m, p->dtype);
    switch (p->kind) {
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE_SCATTER:
    case WEFT_REDUCE: return begin_reduction(lane, m, p);
    case WEFT_BROADCAST:
        if (p->root == lane->me && p->in != p->out)
            memcpy(p->out, p->in, (uint64_t)p->count * weft_dtype_size(p->dtype));
        return m->Ibcast(p->out, p->count, t, p->root, lane->comm, &p->request);
    case WEFT_BARRIER: return m->Ibarrier(lane->comm, &p->request);
    case WEFT_SEND: return m->Isend(p->in, p->count, t, p->root, p->tag, lane->comm, &p->request);
    case WEFT_RECV: return m->Irecv(p->out, p->count, t, p->root, p->tag, lane->comm, &p->request);
    default: return begin_with_parts(lane, m, p);
    }
}

/* 1 when the oldest piece is over. */
static int test_oldest(mpi_lane *lane, const mpi_api *m)
{
    const uint64_t at = atomic_load(&lane->finished);
    mpi_piece *p = &lane->ring[at % lane->room];
    MPI_Status status;
    int over = 0, got = p->count;
    int error = m->Test(&p->request, &over, &status);
    if (error == MPI_SUCCESS && over && p->kind == WEFT_RECV) {
        error = m->Get_count(&status, type_of(m, p->dtype), &got);
        if (error == MPI_SUCCESS && got != p->count) {
            lane->got = got;
            error = MPI_ERR_TRUNCATE;
        }
    }
    if (error != MPI_SUCCESS) {
        mpi_give_up();
        atomic_store(&lane->error, error);
    } else if (over) {
        atomic_store(&lane->finished, at + 1);
    }
    return error == MPI_SUCCESS && over;
}

enum mpi_motion mpi_lane_poll(void *arg)
{
    mpi_lane *lane = arg;
    const mpi_api *m = mpi_library();
    enum mpi_motion how = MPI_IDLE;
    const uint64_t posted = atomic_load(&lane->posted);
    if (atomic_load(&lane->error) != MPI_SUCCESS)
        return MPI_IDLE;
    while (lane->begun < posted) {
        const int error = begin_piece(lane, m, &lane->ring[lane->begun % lane->room]);
        if (error != MPI_SUCCESS) {
            mpi_give_up();
            atomic_store(&lane->error, error);
            return MPI_IDLE;
        }
        lane->begun++;
        how = MPI_MOVED;
    }
    while (atomic_load(&lane->finished) < posted && test_oldest(lane, m))
        how = MPI_MOVED;
    return how == MPI_IDLE && atomic_load(&lane->finished) < posted ? MPI_WAITS : how;
}

void mpi_lane_advance(mpi_lane *lane)
{
    if (atomic_load(&lane->finished) < atomic_load(&lane->posted) && mpi_enter()) {
        mpi_lane_poll(lane);
        mpi_leave();
    }
}

void mpi_lane_post(mpi_lane *lane, uint32_t n)
{
    atomic_fetch_add(&lane->posted, n);
    if (mpi_granted() < MPI_THREAD_SERIALIZED)
        mpi_nudge();
    else
        mpi_lane_advance(lane);
}

#define TESTS 1000 /* each advances MPI, and enough of them a send whose peer receives it */

/* A receive that is cancelled is over at once; a send to a dead peer never is. */
static bool withdraw(const mpi_api *m, mpi_piece *p)
{
    int over = 0, error = MPI_SUCCESS;
    if (p->kind == WEFT_RECV)
        m->Cancel(&p->request);
    for (int i = 0; i < TESTS && !over && error == MPI_SUCCESS; i++)
        error = m->Test(&p->request, &over, MPI_STATUS_IGNORE);
    return over || error != MPI_SUCCESS;
}

bool mpi_lane_cancel(mpi_lane *lane)
{
    const mpi_api *m = mpi_library();
    bool all = true;
    for (uint64_t i = atomic_load(&lane->finished); i < lane->begun; i++)
        all &= withdraw(m, &lane->ring[i % lane->room]);
    return all;
}
