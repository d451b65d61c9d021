/* run/exec/setup.c: creates and destroys an executor; allocates everything that a step needs. */
#include "base/clock.h"
#include "base/err.h"
#include "host/call.h"
#include "resolve/topology.h"
#include "run/exec/arena.h"
#include "run/exec/executor.h"
#include "run/exec/kernels.h"
#include "run/exec/library.h"
#include "run/exec/recording.h"
#include "run/exec/sites.h"
#include "run/exec/walk.h"

#include <stdlib.h>
#include <string.h>

/* The kind of arena descriptor that the job's links need and the device can export; 0: none. */
static int32_t descriptor_kind(const run_executor *e)
{
    uint64_t wanted = 0, can = e->table->caps;
    for (uint32_t i = 0; e->plan->spec->ranks > 1 && i < e->plan->spec->nlinks; i++) {
        const spec_link *l = &e->plan->spec->links[i];
        if (resolve_collective_library(l))
            continue;
        const weft_link_table *link = l->c->table, *intra = l->intra.c ? l->intra.c->table : link;
        wanted |= link->caps | intra->caps;
    }
    if (e->plan->spec->peer_imported)
        return can & WEFT_DEV_EXPORT_CUDA ? WEFT_FD_CUDA : WEFT_FD_MAP;
    if (!(wanted & (WEFT_LINK_MAP | WEFT_LINK_REGISTER)))
        return 0;
    if ((wanted & WEFT_LINK_FD_DMABUF) && (can & WEFT_DEV_EXPORT_DMABUF))
        return WEFT_FD_DMABUF;
    if ((wanted & WEFT_LINK_FD_CUDA) && (can & WEFT_DEV_EXPORT_CUDA))
        return WEFT_FD_CUDA;
    return can & WEFT_DEV_EXPORT_FD ? WEFT_FD_MAP : 0;
}

/* The memory that links access: the arena, or host memory where a link cannot access device memory
 * and data is staged. */
static weft_status stage_all(const run_executor *e, int32_t fd, comm_arena *arena)
{
    const spec *s = e->plan->spec;
    bool any = false;
    for (uint32_t i = 0; i < s->nlinks; i++)
        any |= resolve_is_staged(s, &s->links[i]);
    for (uint32_t i = 0; i < s->nlinks && any; i++)
        if (!resolve_is_staged(s, &s->links[i]) && !resolve_collective_library(&s->links[i]))
            return err_fail(
                WEFT_UNSUPPORTED,
                "%s reaches the memory of device %s and another transport of this job does "
                "not: use one kind of transport",
                s->links[i].c->name, s->device.c->name);
    const uint64_t bytes = e->plan->bytes.peak;
    *arena = (comm_arena){e->base, bytes, fd, (uint32_t)e->table->caps, {0}};
    if (any)
        *arena = (comm_arena){e->host,
                              e->plan->bytes.host,
                              -1,
                              WEFT_DEV_HOST_MEMORY,
                              {e->table, e->device, e->stream, e->base, bytes, fd}};
    return WEFT_OK;
}

/* The local rank that the device is given. Ranks with the same affinity mask divide its CPUs, so a
 * device that computes on CPUs gets its number among those ranks; any other device among all ranks
 * of the machine. */
static void number_here(const run_executor *e, const job_identity *who, weft_device_args *args)
{
    const spec_host_map *s = &e->plan->spec->hosts;
    const bool on_cpus = e->table->caps & WEFT_DEV_HOST_MEMORY;
    args->local_rank = on_cpus && s->cpu_ranks ? s->cpu_rank : who->local_rank;
    args->local_ranks = on_cpus && s->cpu_ranks ? s->cpu_ranks : who->local_ranks;
}

static weft_status open_device(run_executor *e, const job_identity *who, comm_arena *arena)
{
    const spec *s = e->plan->spec;
    void *base;
    int32_t fd = -1;
    weft_device_args args = {sizeof args, 0, 0, 1, s->device.conf, s->kernel_set};
    number_here(e, who, &args);
    if (s->deterministic)
        args.flags |= WEFT_SPEC_DETERMINISTIC;
    int32_t score = 0;
    err_clear();
    weft_status st = PLUGIN_CALL(e->table, probe, s->device.c->module, s->device.conf, &score);
    if (st == WEFT_OK && !score)
        st = err_fail(WEFT_ABSENT, "device %s is not on this machine: %s", s->device.c->name,
                      *err_text() ? err_text() : "its probe gives no reason");
    if (st == WEFT_OK)
        st = PLUGIN_CALL(e->table, open, s->device.c->module, &args, &e->device);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(e->table, arena, e->device, e->plan->bytes.peak, descriptor_kind(e), &base,
                         &fd);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(e->table, stream, e->device, 0, &e->stream);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(e->table, event, e->device, &e->event);
    if (st == WEFT_OK && e->plan->bytes.host)
        st = PLUGIN_CALL(e->table, host_memory, e->device, e->plan->bytes.host, (void **)&e->host);
    if (st != WEFT_OK)
        return st;
    e->base = base;
    return stage_all(e, fd, arena);
}

static weft_status add_channels(run_executor *e, const uint32_t *index, comm_channel **out)
{
    const plan *p = e->plan;
    uint32_t *ranks = mem_alloc(p->spec->ranks * sizeof *ranks), me;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < p->channels.n; i++) {
        uint32_t n = plan_group(p, i, e->rank, ranks, &me), link = p->channels.at[i].link;
        if (!n || resolve_collective_library(&p->spec->links[link]))
            continue; /* belongs to other ranks, or to a library */
        st = comm_add_channel(e->world, index[link], p->channels.at[i].name, ranks, n, &out[i]);
    }
    free(ranks);
    return st;
}

/* Gives the operation its memory besides input and output: a residual is zero at first, as the
 * arena is already. */
static void set_memory(run_executor *e, const plan_collective *c, run_exec_collective *x)
{
    const bool staged = comm_is_staged(x->op);
    char *memory = staged ? e->host : e->base, *residual = memory + c->residual;
    x->scratch = memory + c->scratch;
    if (staged)
        comm_set_offsets(x->op, x->from, x->to);
    if (staged && c->residual_bytes)
        memset(residual, 0, c->residual_bytes);
    if (c->residual_bytes)
        comm_set_residual(x->op, residual, c->residual_used ? NULL : &e->residual_scale);
}

static weft_status add_operations(run_executor *e, comm_channel *const *channels)
{
    const plan *p = e->plan;
    e->collectives = mem_alloc(p->collectives.n * sizeof *e->collectives + 1);
    uint32_t *ranks = mem_alloc(p->spec->ranks * sizeof *ranks);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < p->collectives.n; i++) {
        const plan_collective *c = &p->collectives.at[i];
        run_exec_collective *x = &e->collectives[i];
        const uint64_t at = graph_mesh_coord(&p->spec->mesh, e->rank, c->shift_axis);
        uint32_t me;
        const uint32_t n = plan_group(p, c->channel, e->rank, ranks, &me);
        x->from = c->in + at * c->in_shift;
        x->to = c->out + at * c->out_shift;
        if (!n || resolve_collective_library(&p->spec->links[p->channels.at[c->channel].link]))
            continue; /* of other ranks, or of a library */
        st = plan_schedule(p, c, me, &x->schedule);
        if (st == WEFT_OK && x->schedule->scratch > c->scratch_bytes)
            st = err_fail(WEFT_INTERNAL, "%s needs more scratch memory than the plan has", c->name);
        if (st == WEFT_OK && x->schedule->residual > c->residual_bytes)
            st = err_fail(WEFT_INTERNAL, "%s needs a larger residual than the plan has", c->name);
        if (st == WEFT_OK)
            st = comm_add_op(channels[c->channel], x->schedule, c->name, &x->op);
        if (st == WEFT_OK)
            set_memory(e, c, x);
    }
    free(ranks);
    return st;
}

static weft_status add_link(run_executor *e, uint32_t number, uint32_t *index)
{
    const spec *s = e->plan->spec;
    const spec_link *l = &s->links[number];
    return comm_add_link(e->world, (comm_part){l->c, l->conf},
                         (comm_part){l->intra.c, l->intra.conf}, s->hosts.machine, l->checked,
                         index);
}

static weft_status connect_ranks(run_executor *e, const job_identity *who, const comm_arena *arena)
{
    const plan *p = e->plan;
    if (p->spec->ranks == 1)
        return WEFT_OK;
    comm_channel **channels = mem_alloc(p->channels.n * sizeof *channels + 1);
    uint32_t index[WEFT_MAX_MESH];
    weft_status st = comm_world_create(e->job, who, &e->world);
    for (uint32_t i = 0; st == WEFT_OK && i < p->spec->nlinks; i++)
        st = resolve_collective_library(&p->spec->links[i]) ? WEFT_OK : add_link(e, i, &index[i]);
    if (st == WEFT_OK)
        st = add_channels(e, index, channels);
    if (st == WEFT_OK)
        st = add_operations(e, channels);
    if (st == WEFT_OK)
        st = comm_connect(e->world, arena, e->set->join_timeout);
    if (st == WEFT_OK)
        st = run_library_create(e, e->set->join_timeout);
    if (st == WEFT_OK)
        run_walk_choose_kinds(e);
    free(channels);
    return st;
}

weft_status run_exec_create(const plan *p, const run_settings *set, job *j, const job_identity *who,
                            const char *out_dir, run_executor *out)
{
    *out = (run_executor){.plan = p,
                          .set = set,
                          .job = j,
                          .rank = who->rank,
                          .table = p->spec->device.c->table,
                          .residual_scale = 1};
    comm_arena arena;
    out->sites = mem_alloc(sizeof *out->sites);
    out->deadline = set->deadline;
    weft_status st = WEFT_OK;
    run_trace_setup(set->trace_first, set->trace_last, set->trace_bytes, p, &out->trace);
    if (out_dir)
        st = run_flight_open(out_dir, who->rank, who->ranks, &out->flight);
    if (st == WEFT_OK)
        st = open_device(out, who, &arena);
    out->bases = plan_bases(p, who->rank);
    if (st == WEFT_OK)
        st = run_kernels_prepare(out);
    if (st == WEFT_OK)
        st = run_exec_set_scalars(out);
    if (st == WEFT_OK)
        st = connect_ranks(out, who, &arena);
    if (st == WEFT_OK)
        st = run_recordings_make(out);
    run_sites_make(out);
    return st;
}

void run_exec_destroy(run_executor *e, int failed)
{
    run_sites_free(e);
    const bool quiet = run_library_destroy(e, failed);
    if (failed)
        comm_world_abort(e->world);
    comm_world_destroy(e->world);
    for (uint32_t i = 0; e->collectives && i < e->plan->collectives.n; i++)
        sched_free(e->collectives[i].schedule);
    run_recordings_free(e);
    run_kernels_release(e);
    static __attribute__((unused)) weft_device *volatile left; /* in use by a hung library */
    if (e->device && (quiet || !run_library_on_host(e)))
        PLUGIN_DO(e->table, close, e->device);
    else
        left = e->device;
    free(e->collectives);
    free(e->bases);
    run_trace_free(&e->trace);
    run_flight_close(&e->flight);
    *e = (run_executor){0};
}
