/* topo.c: assigns cores to this rank and pins its threads.
 *
 * Ranks with the same affinity mask (the host gives their number) divide its cores in hwloc's
 * logical order, so that a rank's cores are adjacent and share caches and memory. A rank with a
 * different mask uses all of it. If a control group's CPU quota is below the number of cores, the
 * ranks divide the quota and nothing is pinned, because the cores are shared with others. A core
 * that another process is pinned to is skipped (claim.c); if too few remain, nothing is pinned.
 *
 * A rank with one thread is pinned to its core. With more threads, each worker is pinned to one
 * core and the opening thread to the rank's whole set, since threads that it starts later inherit
 * its binding. */
#include "cpu.h"
#include "machine/group.h"
#include <unistd.h>

/* List the cores in the affinity mask, as sets; returns their number, at most `cap`. */
static int32_t list_cores(hwloc_topology_t tree, hwloc_const_cpuset_t may, hwloc_cpuset_t *out,
                          int32_t cap)
{
    const int n = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_CORE);
    int32_t found = 0;
    for (int k = 0; k < n && found < cap; k++) {
        hwloc_obj_t core = hwloc_get_obj_by_type(tree, HWLOC_OBJ_CORE, (unsigned)k);
        if (!hwloc_bitmap_intersects(core->cpuset, may))
            continue;
        out[found] = hwloc_bitmap_dup(core->cpuset);
        hwloc_bitmap_and(out[found], out[found], may);
        found++;
    }
    return found;
}

static int32_t count_threads(const weft_device_args *args, int32_t cores, int32_t ranks,
                             double limit)
{
    const int64_t asked = args->conf->integer(args->conf->ctx, "threads");
    if (asked > 0)
        return (int32_t)asked;
    int32_t threads = cores / ranks;
    if (limit > 0 && limit / ranks < threads)
        threads = (int32_t)(limit / ranks);
    return threads > 0 ? threads : 1;
}

static void forget(struct cpu_topo *t, const struct cpu_module *m)
{
    m->host->free(m->host->ctx, t->core);
    m->host->free(m->host->ctx, t->number);
    m->host->free(m->host->ctx, t->lock);
    t->core = NULL;
    t->number = NULL;
    t->lock = NULL;
}

/* Choose and lock this rank's cores; none if too few are free. */
static weft_status take_cores(struct cpu_topo *t, const struct cpu_module *m, hwloc_cpuset_t *core,
                              int32_t n, int32_t first)
{
    const uint64_t threads = (uint64_t)t->threads;
    t->core = m->host->alloc(m->host->ctx, threads * sizeof *t->core, 0);
    t->number = m->host->alloc(m->host->ctx, threads * sizeof *t->number, 0);
    t->lock = m->host->alloc(m->host->ctx, threads * sizeof *t->lock, 0);
    t->share = hwloc_bitmap_alloc();
    t->before = hwloc_bitmap_alloc();
    if (!t->core || !t->number || !t->lock || !t->share || !t->before) {
        forget(t, m);
        return cpu_fail(m, WEFT_NO_MEMORY, "no memory for the map of %d cores", n);
    }
    if (!cpu_claim_cores(core, n, first, t->threads, t->number, t->lock)) {
        forget(t, m);
        m->host->log(m->host->ctx, WEFT_LOG_INFO,
                     "threads are not pinned: other processes are pinned to these cores");
        return WEFT_OK;
    }
    for (int32_t k = 0; k < t->threads; k++) {
        t->core[k] = hwloc_bitmap_dup(core[t->number[k]]);
        hwloc_bitmap_or(t->share, t->share, t->core[k]);
    }
    return WEFT_OK;
}

static weft_status divide(struct cpu_topo *t, const struct cpu_module *m,
                          const weft_device_args *args, hwloc_cpuset_t *core, int32_t n)
{
    const int32_t ranks = args->local_ranks > 0 ? (int32_t)args->local_ranks : 1;
    const int32_t cores = n > 0 ? n : (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    const double limit = cpu_group_limit("");
    t->threads = count_threads(args, cores, ranks, limit);
    const bool ours = limit <= 0 || limit >= cores;
    const bool pin = args->conf->integer(args->conf->ctx, "pin") != 0 && ours &&
                     (int64_t)ranks * t->threads <= n && (int32_t)args->local_rank < ranks;
    return pin ? take_cores(t, m, core, n, (int32_t)args->local_rank * t->threads) : WEFT_OK;
}

static void pin_opener(struct cpu_topo *t, const struct cpu_module *m)
{
    if (!t->core)
        return;
    hwloc_get_cpubind(t->tree, t->before, HWLOC_CPUBIND_THREAD);
    if (hwloc_set_cpubind(t->tree, t->share, HWLOC_CPUBIND_THREAD) != 0)
        m->host->log(m->host->ctx, WEFT_LOG_WARN, "this system does not let the thread be pinned");
}

weft_status cpu_topo_open(struct cpu_topo *t, const struct cpu_module *m,
                          const weft_device_args *args)
{
    enum { LIMIT = 1024 };
    hwloc_cpuset_t core[LIMIT];
    *t = (struct cpu_topo){.threads = 1};
    if (hwloc_topology_init(&t->tree) != 0 || hwloc_topology_load(t->tree) != 0)
        return cpu_fail(m, WEFT_IO, "hwloc cannot read this machine's topology from /sys");
    hwloc_cpuset_t may = hwloc_bitmap_alloc();
    if (!may)
        return cpu_fail(m, WEFT_NO_MEMORY, "no memory for the map of cores");
    if (hwloc_get_cpubind(t->tree, may, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(may, hwloc_topology_get_allowed_cpuset(t->tree));
    const int32_t n = list_cores(t->tree, may, core, LIMIT);
    hwloc_bitmap_free(may);
    weft_status st = divide(t, m, args, core, n);
    for (int32_t k = 0; k < n; k++)
        hwloc_bitmap_free(core[k]);
    if (st == WEFT_OK)
        pin_opener(t, m);
    return st;
}

void cpu_topo_pin_worker(const struct cpu_topo *t, int32_t thread)
{
    if (t->core)
        hwloc_set_cpubind(t->tree, t->core[thread], HWLOC_CPUBIND_THREAD);
}

void cpu_topo_close(struct cpu_topo *t, const struct cpu_module *m)
{
    if (!t->tree)
        return;
    if (t->core) {
        hwloc_set_cpubind(t->tree, t->before, HWLOC_CPUBIND_THREAD);
        for (int32_t k = 0; k < t->threads; k++)
            hwloc_bitmap_free(t->core[k]);
        cpu_claim_drop(t->lock, t->threads);
    }
    forget(t, m);
    hwloc_bitmap_free(t->share);
    hwloc_bitmap_free(t->before);
    hwloc_topology_destroy(t->tree);
}
