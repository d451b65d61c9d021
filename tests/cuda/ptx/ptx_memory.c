/* ptx_memory.c: see ptx.h. An access has to be aligned and to lie in memory of the device or of its
 * block; and of two threads that touch the same bytes in a launch, one writing, a barrier has to
 * lie between, or the kernel is refused, however its threads happened to run.
 *
 * Writing what is there already is no race.
 *
 * For each two bytes stand the last write and the last reads of two threads, so that of three one
 * can be missed. Bytes of global memory that this launch has touched are in a table by address;
 * shared memory has a table as long as itself. */
#include "double/double.h"
#include "ptx.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct cell {
    uint64_t address; /* of global memory */
    uint64_t serial;  /* of the launch, in shared memory of the block; another: it is free */
    struct ptx_moment written, read[2]; /* the last reads of two threads */
};

static struct {
    struct cell *global;
    uint64_t room, used; /* room: a power of two */
    struct cell *shared;
    uint64_t shared_cells;
    uint64_t launch, block; /* counted from 1 */
} all;

/* --- cells --- */

static struct cell *global_cell(uint64_t address);

static void grow(void)
{
    struct cell *old = all.global;
    const uint64_t n = all.room;
    all.room = n == 0 ? 1 << 16 : 2 * n;
    all.used = 0;
    all.global = calloc(all.room, sizeof *all.global);
    for (uint64_t i = 0; i < n; i++)
        if (old[i].serial == all.launch)
            *global_cell(old[i].address) = old[i];
    free(old);
}

static struct cell *global_cell(uint64_t address)
{
    if (2 * all.used >= all.room)
        grow();
    uint64_t i = (address / 2 * 0x9e3779b97f4a7c15u) >> 32;
    for (;; i++) {
        struct cell *c = &all.global[i & (all.room - 1)];
        if (c->serial == all.launch && c->address == address)
            return c;
        if (c->serial != all.launch) {
            *c = (struct cell){.address = address, .serial = all.launch};
            all.used++;
            return c;
        }
    }
}

static struct cell *shared_cell(uint64_t at)
{
    struct cell *c = &all.shared[at / 2];
    if (c->serial != all.block)
        *c = (struct cell){.serial = all.block};
    return c;
}

void ptx_begin_launch(void)
{
    all.launch++;
    all.used = 0;
}

void ptx_begin_block(uint64_t shared_size)
{
    const uint64_t n = (shared_size + 1) / 2;
    all.block++;
    if (n <= all.shared_cells)
        return;
    free(all.shared);
    all.shared = calloc(n, sizeof *all.shared);
    all.shared_cells = n;
}

/* --- races --- */

static bool in_order(const struct ptx_moment *a, const struct ptx_moment *b)
{
    if (a->block == 0) /* never */
        return true;
    if (a->block != b->block)
        return false;
    return a->thread == b->thread || a->epoch < b->epoch ||
           (a->thread / PTX_LANES == b->thread / PTX_LANES && a->warp < b->warp);
}

static void conflict(const struct ptx_place *p, int lane, const struct ptx_moment *other,
                     const char *did)
{
    ptx_die(p, lane, "thread %d of block %u %s this without a barrier between", other->thread,
            other->block - 1, did);
}

/* same: what is written is there already. */
static void look(const struct ptx_place *p, int lane, struct cell *c, bool writes, bool same)
{
    struct ptx_moment now = p->moment;
    now.thread += lane;
    if (writes && same) {
        if (in_order(&c->written, &now))
            c->written = now;
        return;
    }
    if (!in_order(&c->written, &now))
        conflict(p, lane, &c->written, "has written");
    if (writes) {
        for (int k = 0; k < 2; k++)
            if (!in_order(&c->read[k], &now))
                conflict(p, lane, &c->read[k], "has read");
        c->written = now;
    } else {
        if (c->read[0].thread != now.thread || c->read[0].block != now.block)
            c->read[1] = c->read[0];
        c->read[0] = now;
    }
}

/* --- accesses --- */

static void check_global(const struct ptx_place *p, int lane, const char *at, uint64_t bytes,
                         const void *value)
{
    const bool same = value && memcmp(at, value, bytes) == 0;
    const uint64_t from = (uint64_t)(uintptr_t)at & ~1ull;
    for (uint64_t a = from; a < (uint64_t)(uintptr_t)at + bytes; a += 2)
        look(p, lane, global_cell(a), value != NULL, same);
}

static void check_shared(const struct ptx_place *p, int lane, uint64_t at, uint64_t bytes,
                         const void *value)
{
    const bool same = value && memcmp(p->shared + at, value, bytes) == 0;
    for (uint64_t a = at & ~1ull; a < at + bytes; a += 2)
        look(p, lane, shared_cell(a), value != NULL, same);
}

static bool lies_in(uint64_t at, uint64_t bytes, uint64_t room)
{
    return at <= room && bytes <= room - at;
}

/* A thread's bytes at an address of the instruction's space. value: of a store; NULL: a load. */
static char *place_of(const struct ptx_place *p, int lane, uint64_t address, uint64_t bytes,
                      const void *value)
{
    const struct ptx_code *code = p->kernel->code;
    char *at = (char *)(uintptr_t)address;
    if (address % bytes != 0)
        ptx_die(p, lane, "%" PRIu64 " bytes at an address that is not aligned", bytes);
    switch (p->instr->space) {
    case PTX_PARAM:
        if (!lies_in(address, bytes, p->kernel->kernel.job_size) || value)
            break;
        return (char *)(uintptr_t)p->param + address;
    case PTX_LOCAL:
        if (!lies_in(address, bytes, code->local))
            break;
        return p->local + (uint64_t)lane * code->local + address;
    case PTX_SHARED:
        if (!lies_in(address, bytes, p->shared_size))
            break;
        check_shared(p, lane, address, bytes, value);
        return p->shared + address;
    default:
        if (!value && ptx_is_constant(code, at, bytes))
            return at;
        if (!double_is_ours(at) || !double_is_ours(at + bytes - 1))
            break;
        check_global(p, lane, at, bytes, value);
        return at;
    }
    ptx_die(p, lane, "%" PRIu64 " bytes at %#" PRIx64 ", which is not memory of its own", bytes,
            address);
}

static void load(const struct ptx_place *p, int lane)
{
    const struct ptx_instr *i = p->instr;
    const uint64_t size = (uint64_t)i->kind.bits / 8, n = (uint64_t)i->vector;
    const uint64_t address = p->rows[i->in[0]][lane] + (uint64_t)i->offset;
    const char *at = place_of(p, lane, address, size * n, NULL);
    for (uint64_t k = 0; k < n; k++) {
        uint64_t x = 0;
        memcpy(&x, at + k * size, size);
        if (i->kind.type == PTX_S && i->kind.bits < 64 && x >> (i->kind.bits - 1))
            x |= ~0ull << i->kind.bits;
        p->rows[i->out[k]][lane] = x;
    }
}

static void store(const struct ptx_place *p, int lane)
{
    const struct ptx_instr *i = p->instr;
    const uint64_t size = (uint64_t)i->kind.bits / 8, n = (uint64_t)i->vector;
    const uint64_t address = p->rows[i->in[0]][lane] + (uint64_t)i->offset;
    char bytes[32];
    for (uint64_t k = 0; k < n; k++)
        memcpy(bytes + k * size, &p->rows[i->in[1 + k]][lane], size);
    memcpy(place_of(p, lane, address, size * n, bytes), bytes, size * n);
}

void ptx_do_memory(const struct ptx_place *p)
{
    ptx_count_traffic(p);
    for (int lane = 0; lane < PTX_LANES; lane++)
        if (p->lanes >> lane & 1) {
            if (p->instr->op == ptx_ld)
                load(p, lane);
            else
                store(p, lane);
        }
}
