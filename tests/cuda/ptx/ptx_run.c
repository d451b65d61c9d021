/* ptx_run.c: see ptx.h. Threads of a warp have an instruction each to go on at. Those that stand at
 * the lowest go first and together, so that threads that have parted meet again as soon as they
 * can. A thread waits at a barrier of the block, or at what the threads of a warp do together.
 * Warps run one after another, each as far as it can, in an order that is turned around from launch
 * to launch. */
#include "ptx.h"
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARPS = PTX_MAX_THREADS / PTX_LANES };

struct warp {
    int pc[PTX_LANES];
    uint32_t alive, at_block, at_warp; /* masks of lanes; the last two wait */
    struct ptx_place place;
};

static struct {
    struct warp warp[WARPS];
    const struct ptx_kernel *kernel;
    int warps;
    int64_t block;
    ptx_row *rows;
    char *shared, *local;
    uint64_t rows_capacity, shared_capacity, local_capacity;
    uint32_t launches;
} all;

void ptx_die(const struct ptx_place *p, int lane, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "kernel %s, block %lld, thread %d, %s:%d: ", p->kernel->kernel.name,
            (long long)all.block, p->moment.thread + lane, p->kernel->code->path, p->instr->line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

/* --- what the threads of a warp do together --- */

/* The threads that the instruction names have to come to it. */
static uint32_t members(const struct warp *w, const struct ptx_instr *i, int lane)
{
    return (uint32_t)w->place.rows[i->in[i->op == ptx_shfl ? 3 : 0]][lane];
}

static void shuffle(struct warp *w, uint32_t lanes)
{
    const struct ptx_place *p = &w->place;
    const struct ptx_instr *i = p->instr;
    ptx_row from;
    memcpy(from, p->rows[i->in[0]], sizeof from);
    for (int l = 0; l < PTX_LANES; l++) {
        if ((lanes >> l & 1) == 0)
            continue;
        const uint32_t other = (uint32_t)l ^ (uint32_t)p->rows[i->in[1]][l];
        if ((uint32_t)p->rows[i->in[2]][l] != PTX_LANES - 1 || other >= PTX_LANES)
            ptx_die(p, l, "a shuffle with a thread of another warp");
        if ((lanes >> other & 1) == 0)
            ptx_die(p, l, "a shuffle with a thread that takes no part in it");
        p->rows[i->out[0]][l] = (uint32_t)from[other];
        if (i->nout > 1)
            p->rows[i->out[1]][l] = 1;
    }
}

/* Lanes have come to it; true: all have that it names, and it is done. */
static bool meet(struct warp *w, uint32_t lanes)
{
    const struct ptx_instr *i = w->place.instr;
    for (int l = 0; l < PTX_LANES; l++)
        if (lanes >> l & 1 && members(w, i, l) & ~w->alive)
            ptx_die(&w->place, l, "it waits for a thread that has ended");
    for (int l = 0; l < PTX_LANES; l++)
        if (lanes >> l & 1 && members(w, i, l) != lanes)
            return false;
    if (i->op == ptx_shfl)
        shuffle(w, lanes);
    else
        w->place.moment.warp++;
    return true;
}

/* --- a warp --- */

static uint32_t guarded(const struct warp *w, const struct ptx_instr *i, uint32_t lanes)
{
    uint32_t on = 0;
    if (i->guard < 0)
        return lanes;
    for (int l = 0; l < PTX_LANES; l++)
        on |= (uint32_t)(w->place.rows[i->guard][l] & 1) << l;
    return lanes & (i->guard_not ? ~on : on);
}

static void set_pc(struct warp *w, uint32_t lanes, int pc)
{
    for (int l = 0; l < PTX_LANES; l++)
        if (lanes >> l & 1)
            w->pc[l] = pc;
}

static void go_back(struct warp *w, uint32_t lanes, const struct ptx_instr *i)
{
    for (int l = 0; l < PTX_LANES; l++)
        if (lanes >> l & 1)
            w->pc[l] = (int)w->place.rows[i->in[0]][l];
}

/* An instruction after which the lanes may part; `on` of them do it. */
static void control(struct warp *w, int pc, uint32_t lanes, uint32_t on)
{
    const struct ptx_instr *i = w->place.instr;
    set_pc(w, lanes, pc + 1);
    switch (i->op) {
    case ptx_bra: set_pc(w, on, i->target); break;
    case ptx_call:
        for (int l = 0; l < PTX_LANES; l++)
            if (on >> l & 1)
                w->place.rows[i->out[0]][l] = (uint64_t)pc + 1;
        set_pc(w, on, i->target);
        break;
    case ptx_ret: go_back(w, on, i); break;
    case ptx_exit: w->alive &= ~on; break;
    default:
        if (on != lanes)
            ptx_die(&w->place, 0, "only some threads that come to it do it");
        if (i->op == ptx_bar && !i->warp)
            w->at_block |= on;
        else if (!meet(w, on)) {
            w->at_warp |= on;
            set_pc(w, on, pc);
        }
        break;
    }
}

static bool is_control(enum ptx_op op)
{
    return op == ptx_bra || op == ptx_call || op == ptx_ret || op == ptx_exit || op == ptx_bar ||
           op == ptx_shfl;
}

static int lowest(const struct warp *w, uint32_t lanes)
{
    int pc = INT_MAX;
    for (int l = 0; l < PTX_LANES; l++)
        if (lanes >> l & 1 && w->pc[l] < pc)
            pc = w->pc[l];
    return pc;
}

static uint32_t standing_at(const struct warp *w, uint32_t lanes, int pc)
{
    uint32_t mask = 0;
    for (int l = 0; l < PTX_LANES; l++)
        mask |= (uint32_t)(w->pc[l] == pc) << l;
    return mask & lanes;
}

/* From where the lanes stand until they part, or come to where others stand. */
static void run_lanes(struct warp *w, uint32_t lanes, int pc, int others)
{
    const struct ptx_instr *instr = w->place.kernel->code->instr;
    for (;; pc++) {
        const struct ptx_instr *i = w->place.instr = &instr[pc];
        if (pc >= others) {
            set_pc(w, lanes, pc);
            return;
        }
        const uint32_t on = guarded(w, i, lanes);
        if (is_control(i->op)) {
            control(w, pc, lanes, on);
            return;
        }
        w->place.lanes = on;
        if (on != 0 && (i->op == ptx_ld || i->op == ptx_st))
            ptx_do_memory(&w->place);
        else if (on != 0)
            ptx_do_math(&w->place);
    }
}

/* Some wait for each other, and nobody else can run. */
static void release_warp(struct warp *w)
{
    const int pc = lowest(w, w->at_warp);
    const uint32_t lanes = standing_at(w, w->at_warp, pc);
    w->place.instr = &w->place.kernel->code->instr[pc];
    if (!meet(w, lanes))
        ptx_die(&w->place, __builtin_ctz(lanes), "it waits for threads that wait elsewhere");
    w->at_warp &= ~lanes;
    set_pc(w, lanes, pc + 1);
}

/* As far as it can; true: it did something. */
static bool run_warp(struct warp *w)
{
    for (bool any = false;; any = true) {
        const uint32_t ready = w->alive & ~w->at_block & ~w->at_warp;
        if (ready == 0 && w->at_warp == 0)
            return any;
        if (ready == 0) {
            release_warp(w);
            continue;
        }
        const int pc = lowest(w, ready);
        const uint32_t lanes = standing_at(w, ready, pc);
        run_lanes(w, lanes, pc, lowest(w, ready & ~lanes));
    }
}

/* --- a block --- */

/* All have come to a barrier of the block; false: all have ended. */
static bool release_block(void)
{
    bool any = false;
    for (struct warp *w = all.warp; w < all.warp + all.warps; w++) {
        const uint32_t lanes = w->at_block;
        if (lanes != 0 && lanes != standing_at(w, lanes, lowest(w, lanes)))
            ptx_die(&w->place, 0, "threads of one warp wait at different barriers");
        any = any || lanes != 0;
        w->at_block = 0;
        w->place.moment.epoch++;
    }
    return any;
}

/* The kernel's starts are those of functions, and its own. */
static int next_start(const struct ptx_kernel *k, int s)
{
    s++;
    return s == k->code->function_starts ? k->first_start : s;
}

static int first_start(const struct ptx_kernel *k)
{
    return next_start(k, -1);
}

static void start_warp(struct warp *w, int index, int threads, int64_t x, int64_t y)
{
    const struct ptx_kernel *k = all.kernel;
    const int first = index * PTX_LANES, lanes = threads - first;
    w->alive = lanes >= PTX_LANES ? ~0u : (1u << lanes) - 1;
    w->at_block = w->at_warp = 0;
    w->place = (struct ptx_place){.kernel = k,
                                  .rows = all.rows + (int64_t)index * k->rows,
                                  .moment = {(uint32_t)all.block + 1, 0, 0, first},
                                  .param = w->place.param,
                                  .shared = all.shared,
                                  .local = all.local + (uint64_t)first * k->code->local,
                                  .shared_size = w->place.shared_size};
    set_pc(w, ~0u, k->first);
    for (int s = first_start(k); s < k->end_start; s = next_start(k, s)) {
        const struct ptx_start *from = &k->code->start[s];
        if (from->what == PTX_CTAID || from->what == PTX_CTAID_Y)
            for (int l = 0; l < PTX_LANES; l++)
                w->place.rows[from->row][l] = (uint64_t)(from->what == PTX_CTAID ? x : y);
    }
}

static void run_block(int64_t x, int64_t y, int threads, uint64_t shared)
{
    const bool backwards = (all.launches & 1) != 0;
    memset(all.shared, 0xff, shared);
    ptx_begin_block(shared);
    for (int w = 0; w < all.warps; w++)
        start_warp(&all.warp[w], w, threads, x, y);
    do {
        bool any = false;
        for (int w = 0; w < all.warps; w++)
            any |= run_warp(&all.warp[backwards ? all.warps - 1 - w : w]);
        if (!any)
            return;
    } while (release_block());
}

/* --- a launch --- */

static void *enough(void *old, uint64_t *room, uint64_t bytes)
{
    if (bytes <= *room)
        return old;
    free(old);
    *room = (bytes + 63) / 64 * 64;
    old = aligned_alloc(64, *room);
    return memset(old, 0xa5, *room); /* no number, should it be read first */
}

static uint64_t start_value(const struct ptx_start *s, const struct ptx_kernel *k, int thread,
                            int threads, int64_t blocks)
{
    switch (s->what) {
    case PTX_DYNAMIC: return (k->kernel.fixed_shared + 15) / 16 * 16;
    case PTX_TID: return (uint64_t)thread;
    case PTX_NTID: return (uint64_t)threads;
    case PTX_NCTAID: return (uint64_t)blocks;
    default: return s->value;
    }
}

static void start_rows(const struct ptx_kernel *k, int threads, int64_t blocks)
{
    const uint64_t bytes = (uint64_t)all.warps * (uint64_t)k->rows * sizeof *all.rows;
    all.rows = enough(all.rows, &all.rows_capacity, bytes);
    for (int w = 0; w < all.warps; w++)
        for (int s = first_start(k); s < k->end_start; s = next_start(k, s)) {
            const struct ptx_start *from = &k->code->start[s];
            for (int l = 0; l < PTX_LANES; l++)
                all.rows[w * k->rows + from->row][l] =
                    start_value(from, k, w * PTX_LANES + l, threads, blocks);
        }
}

void kernel_launch(const struct kernel *kernel, const void *job, int64_t x, int64_t y, int threads,
                   uint64_t shared)
{
    const struct ptx_kernel *k = all.kernel = (const struct ptx_kernel *)kernel;
    all.warps = (threads + PTX_LANES - 1) / PTX_LANES;
    all.launches++;
    shared += (kernel->fixed_shared + 15) / 16 * 16;
    all.shared = enough(all.shared, &all.shared_capacity, shared);
    all.local =
        enough(all.local, &all.local_capacity, (uint64_t)all.warps * PTX_LANES * k->code->local);
    start_rows(k, threads, x);
    for (int w = 0; w < all.warps; w++) {
        all.warp[w].place.param = job;
        all.warp[w].place.shared_size = shared;
    }
    ptx_begin_launch();
    for (int64_t i = 0; i < x * y; i++) {
        all.block = (all.launches & 1) != 0 ? x * y - 1 - i : i;
        run_block(all.block % x, all.block / x, threads, shared);
    }
}

/* --- names --- */

static struct ptx_kernel *kernels;

static void read_all(void)
{
    glob_t files;
    const char *named = getenv("PTX_FILES"); /* a pattern */
    if (glob(named ? named : PTX_DIR "/*.compute_90.ptx", 0, NULL, &files) != 0) {
        fprintf(stderr, "there is no file %s\n", named ? named : "in " PTX_DIR);
        abort();
    }
    for (size_t i = 0; i < files.gl_pathc; i++)
        kernels = ptx_read(files.gl_pathv[i], kernels);
    globfree(&files);
}

struct kernel *kernel_find(const char *name)
{
    if (!kernels)
        read_all();
    for (struct ptx_kernel *k = kernels; k; k = k->next)
        if (strcmp(k->kernel.name, name) == 0)
            return &k->kernel;
    return NULL;
}
