/* comm/world.c: creates and destroys the objects of engine.h. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/number/hex.h"
#include "comm/bridge.h"
#include "comm/info.h"
#include "job/wire/address.h"

/* Whether the ranks of this machine outnumber its cores. A rank that is bound to a few of many
 * cores is assumed to have them alone. */
static int is_oversubscribed(const job_identity *who)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t mine;
    long allowed = sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : online;
    long ranks = who->local_ranks ? (long)who->local_ranks : 1;
    return allowed < ranks && allowed * ranks > online;
}

weft_status comm_world_create(job *j, const job_identity *who, comm_world **out)
{
    comm_world *w = mem_alloc(sizeof *w);
    w->job = j;
    w->who = *who;
    w->oversubscribed = is_oversubscribed(who);
    w->base_ticks = clock_ticks();
    w->base_ns = clock_ns();
    pthread_mutex_init(&w->failing, NULL);
    *out = w;
    return WEFT_OK;
}

static void free_link(comm_link *l)
{
    comm_progress_end(l);
    for (uint32_t i = 0; i < l->ops.n; i++)
        sched_program_free(&l->ops.at[i]->program);
    for (uint32_t i = 0; i < l->channels.n; i++) {
        comm_channel *c = l->channels.at[i];
        for (uint32_t k = 0; k < c->n; k++)
            if (c->wire[k].conn)
                PLUGIN_DO(l->table, disconnect, c->wire[k].conn);
    }
    comm_checked_free(l);
    if (l->region)
        PLUGIN_DO(l->table, deregister_memory, l->region);
    if (l->link) /* NULL after give_back(); a bridge's table went with it */
        PLUGIN_DO(l->table, destroy, l->link);
    pthread_mutex_destroy(&l->progress_lock);
    pthread_mutex_destroy(&l->park);
    pthread_cond_destroy(&l->unpark);
    free(l->channels.at);
    free(l->ops.at);
}

void comm_world_destroy(comm_world *w)
{
    if (!w)
        return;
    comm_staging_give_up(w);
    comm_import_peer_free(w);
    for (uint32_t i = 0; i < w->links.n; i++)
        free_link(w->links.at[i]);
    free(w->links.at);
    free(w->on_device.at);
    pthread_mutex_destroy(&w->failing);
    pool_free(&w->pool);
    free(w);
}

/* What the transports of a link are created with. */
static weft_status describe_rank(comm_world *w, const weft_conf *conf, weft_link_args *args)
{
    char *address = pool_alloc(&w->pool, 256), *id = pool_alloc(&w->pool, 65);
    uint8_t key[32] = {0};
    *args = (weft_link_args){.struct_size = sizeof *args,
                             .rank = w->who.rank,
                             .ranks = w->who.ranks,
                             .local_rank = w->who.local_rank,
                             .local_ranks = w->who.local_ranks,
                             .bind_addr = address,
                             .job_id = id,
                             .conf = conf};
    weft_status st = job_address_local(&w->who, address, 256);
    if (st == WEFT_OK && w->job)
        st = job_subkey(w->job, "comm job id", key);
    hex_write(key, sizeof key, id);
    return st;
}

static weft_status create_pair(comm_link *l, comm_part intra, comm_part inter,
                               const weft_link_args *args, const uint32_t *machine)
{
    comm_world *w = l->world;
    host_component *both = pool_alloc(&w->pool, sizeof *both);
    uint32_t *machines = pool_array(&w->pool, w->who.ranks, sizeof *machines);
    memcpy(machines, machine, w->who.ranks * sizeof *machines);
    *both = *inter.link;
    both->name = pool_printf(&w->pool, "%s+%s", intra.link->name, inter.link->name);
    l->component = both;
    return comm_bridge_create(intra.link, intra.conf, inter.link, args, machines, &l->table,
                              &l->link);
}

weft_status comm_add_link(comm_world *w, comm_part inter, comm_part intra, const uint32_t *machine,
                          bool checked, uint32_t *index)
{
    weft_link_args args;
    weft_status st = describe_rank(w, inter.conf, &args);
    if (st != WEFT_OK)
        return st;
    comm_link *l = pool_alloc(&w->pool, sizeof *l);
    l->world = w;
    l->component = inter.link;
    l->table = inter.link->table;
    l->checked = checked;
    st = intra.link ? create_pair(l, intra, inter, &args, machine)
                    : PLUGIN_CALL(l->table, create, inter.link->module, &args, &l->link);
    if (st != WEFT_OK)
        return st;
    pthread_mutex_init(&l->progress_lock, NULL);
    pthread_mutex_init(&l->park, NULL);
    pthread_cond_init(&l->unpark, NULL);
    l->waiting_end = &l->waiting;
    *index = w->links.n;
    *vec_push(&w->links) = l;
    return WEFT_OK;
}

weft_status comm_add_channel(comm_world *w, uint32_t index, const char *name, const uint32_t *ranks,
                             uint32_t n, comm_channel **out)
{
    if (w->connected)
        return err_fail(WEFT_USAGE, "channel %s: added after comm_connect()", name);
    comm_channel *c = pool_alloc(&w->pool, sizeof *c);
    while (ranks[c->me] != w->who.rank)
        c->me++;
    c->link = w->links.at[index];
    c->name = pool_text(&w->pool, name);
    c->n = n;
    c->ranks = pool_array(&w->pool, n, sizeof *c->ranks);
    memcpy(c->ranks, ranks, n * sizeof *ranks);
    c->wire = pool_array(&w->pool, n, sizeof *c->wire);
    comm_info_digest_channel(c);
    *vec_push(&c->link->channels) = c;
    *out = c;
    return WEFT_OK;
}

/* Bytes that the operation accesses at this rank, and how the two sides overlap when in place. */
static void measure(comm_op *op, const sched_request *r)
{
    uint64_t part = r->count * op->size / r->ranks;
    int root = r->me == r->root, rooted;
    sched_sides(r, &op->in_bytes, &op->out_bytes);
    rooted = op->in_bytes == 0 || op->out_bytes == 0;
    op->shared = r->in_place && !rooted && (r->ranks == 1 || root || r->kind != WEFT_SCATTER) &&
                 (root || r->kind != WEFT_BROADCAST);
    op->shift = op->in_bytes == op->out_bytes ? 0 : part * r->me;
}

weft_status comm_add_op(comm_channel *c, const sched_schedule *s, const char *name, comm_op **out)
{
    comm_world *w = c->link->world;
    const sched_request *r = &s->r;
    if (w->connected)
        return err_fail(WEFT_USAGE, "%s on channel %s: added after comm_connect()", name, c->name);
    if (s->maps && !sched_link_maps(c->link->table->caps))
        return err_fail(WEFT_USAGE,
                        "%s on channel %s: algorithm '%s' needs a link that maps, and %s "
                        "does not",
                        name, c->name, s->r.algorithm, c->link->component->name);
    if (s->maps && c->link->checked)
        return err_fail(WEFT_USAGE,
                        "%s on channel %s: algorithm '%s' maps peers' memory, where no message has "
                        "a checksum; use another algorithm, or a link without checksums",
                        name, c->name, s->r.algorithm);
    comm_op *op = pool_alloc(&w->pool, sizeof *op);
    op->channel = c;
    op->kind = r->staged ? (s->maps ? &comm_kind_imported : &comm_kind_staged)
                         : (s->maps ? &comm_kind_mapped : &comm_kind_link);
    op->schedule = s;
    op->name = pool_text(&w->pool, name);
    op->size = (uint32_t)weft_dtype_size(r->dtype);
    op->redop = r->redop;
    op->kernel = comm_reduce_pick(r->dtype);
    op->code = &comm_kernels_pick()->code;
    op->scratch_bytes = s->scratch;
    measure(op, r);
    sched_program_make(s, &op->program);
    comm_op_prepare(op);
    if (op->kind->on_device)
        comm_staging_add(op);
    comm_info_digest_op(c, r);
    *vec_push(&c->link->ops) = op;
    *out = op;
    return WEFT_OK;
}

void comm_set_residual(comm_op *op, void *residual, const float *times)
{
    op->base[SCHED_RESIDUAL] = residual;
    op->times = times;
}

uint64_t comm_bytes_sent(const comm_world *w)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->links.n; i++)
        sum += atomic_load_explicit(&w->links.at[i]->sent, memory_order_relaxed);
    return sum;
}
