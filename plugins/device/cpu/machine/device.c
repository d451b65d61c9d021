/* device.c: the run half. All calls are synchronous: the calling thread and its pool finish the
 * work before the call returns, so streams hold no queue and events are always complete. */
#include "device.h"
#include <stdio.h>
#include <string.h>

static void *take(const struct cpu_module *m, uint64_t bytes)
{
    void *p = m->host->alloc(m->host->ctx, bytes, 64);
    if (!p)
        (void)!cpu_fail(m, WEFT_NO_MEMORY, "no memory for %llu bytes of a device's own records",
                        (unsigned long long)bytes);
    return p;
}

/* " on core 3", " on cores 4-7", " on 4 free cores from core 3 on" or " not pinned". */
static int describe_cores(const struct cpu_topo *t, char *out, size_t room)
{
    const int32_t n = t->threads;
    if (!t->core)
        return snprintf(out, room, " not pinned");
    const int32_t first = t->number[0], last = t->number[n - 1];
    if (n == 1)
        return snprintf(out, room, " on core %d", first);
    if (last - first == n - 1)
        return snprintf(out, room, " on cores %d-%d", first, last);
    return snprintf(out, room, " on %d free cores from core %d on", n, first);
}

static void describe(weft_device *d)
{
    char brand[64];
    const int32_t n = d->threads;
    cpu_isa_brand(brand, sizeof brand);
    int at = snprintf(d->text, sizeof d->text, "%s, %d thread%s", brand, n, n > 1 ? "s" : "");
    at += describe_cores(&d->topo, d->text + at, sizeof d->text - (size_t)at);
    snprintf(d->text + at, sizeof d->text - (size_t)at, ", %s, kernels %s", cpu_isa_products(),
             d->kernels->isa);
}

static weft_status open_parts(weft_device *d, const weft_device_args *args)
{
    const struct cpu_module *m = d->m;
    weft_status st =
        cpu_isa_choose(m, args->conf->text(args->conf->ctx, "isa"),
                       WEFT_HAS(args, kernel_set) ? args->kernel_set : NULL, &d->kernels);
    if (st == WEFT_OK)
        st = cpu_topo_open(&d->topo, m, args);
    if (st != WEFT_OK)
        return st;
    d->threads = d->topo.threads;
    if ((st = cpu_start_threads(d)) != WEFT_OK)
        return st;
    if (dnnl_engine_create(&d->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&d->queue, d->engine, dnnl_stream_default_flags) != dnnl_success)
        return cpu_fail(m, WEFT_INTERNAL, "oneDNN gives no engine for this CPU");
    describe(d);
    return cpu_check_threads(d);
}

weft_status cpu_open(void *module, const weft_device_args *args, weft_device **out)
{
    struct cpu_module *m = module;
    weft_status st = weft_check_args(m->host, args, sizeof *args, WEFT_SPEC_DETERMINISTIC);
    if (st != WEFT_OK)
        return st;
    weft_device *d = take(m, sizeof *d);
    if (!d)
        return WEFT_NO_MEMORY;
    d->m = m;
    st = open_parts(d, args);
    if (st != WEFT_OK) {
        cpu_close(d);
        return st;
    }
    *out = d;
    return WEFT_OK;
}

void cpu_close(weft_device *d)
{
    if (!d)
        return;
    const weft_host *host = d->m->host;
    while (d->prepared)
        cpu_release(d->prepared);
    for (weft_stream *s = d->streams, *next; s; s = next) {
        next = s->next;
        host->free(host->ctx, s);
    }
    for (weft_event *e = d->events, *next; e; e = next) {
        next = e->next;
        host->free(host->ctx, e);
    }
    cpu_free_blocks(d);
    if (d->queue)
        dnnl_stream_destroy(d->queue);
    if (d->engine)
        dnnl_engine_destroy(d->engine);
    host->free(host->ctx, d->scratch);
    host->free(host->ctx, d->product_scratch);
    host->free(host->ctx, d->wide);
    cpu_pool_close(d->pool);
    cpu_topo_close(&d->topo, d->m);
    host->free(host->ctx, d);
}

const char *cpu_describe(weft_device *d)
{
    return d->text;
}

weft_status cpu_stream(weft_device *d, int32_t priority, weft_stream **out)
{
    (void)priority;
    weft_stream *s = take(d->m, sizeof *s);
    if (!s)
        return WEFT_NO_MEMORY;
    *s = (weft_stream){d, d->streams};
    d->streams = s;
    *out = s;
    return WEFT_OK;
}

weft_status cpu_event(weft_device *d, weft_event **out)
{
    weft_event *e = take(d->m, sizeof *e);
    if (!e)
        return WEFT_NO_MEMORY;
    *e = (weft_event){d, d->events};
    d->events = e;
    *out = e;
    return WEFT_OK;
}

weft_status cpu_record(weft_event *e, weft_stream *s, uint32_t flags)
{
    (void)s;
    return weft_check_flags(e->d->m->host, flags, 0);
}

weft_status cpu_stream_wait(weft_stream *s, weft_event *e, uint32_t flags)
{
    (void)e;
    return weft_check_flags(s->d->m->host, flags, 0);
}

weft_status cpu_event_query(weft_event *e, uint32_t flags)
{
    return weft_check_flags(e->d->m->host, flags, 0);
}

weft_status cpu_copy(weft_device *d, weft_stream *s, void *to, const void *from, uint64_t bytes,
                     uint32_t flags)
{
    (void)s;
    if (flags)
        return weft_refuse_unknown(d->m->host);
    memmove(to, from, bytes);
    return WEFT_OK;
}

weft_status cpu_fill(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes,
                     uint32_t flags)
{
    (void)s;
    if (flags)
        return weft_refuse_unknown(d->m->host);
    memset(to, byte, bytes);
    return WEFT_OK;
}

weft_status cpu_prepare(weft_device *d, const weft_opspec *spec, weft_prepared **out)
{
    weft_prepared *p = take(d->m, sizeof *p);
    if (!p)
        return WEFT_NO_MEMORY;
    p->d = d;
    weft_status st = cpu_op_plan(d->m, spec, &p->op, &p->a, &p->workspace);
    if (st == WEFT_OK && p->op->ready)
        st = p->op->ready(p, spec);
    if (st != WEFT_OK) {
        d->m->host->free(d->m->host->ctx, p);
        return st;
    }
    p->next = d->prepared;
    p->link = &d->prepared;
    if (p->next)
        p->next->link = &p->next;
    d->prepared = p;
    *out = p;
    return WEFT_OK;
}

void cpu_release(weft_prepared *p)
{
    if (!p)
        return;
    *p->link = p->next;
    if (p->next)
        p->next->link = p->link;
    if (p->op->drop)
        p->op->drop(p);
    p->d->m->host->free(p->d->m->host->ctx, p);
}

weft_status cpu_run(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                    void *workspace, uint32_t flags)
{
    (void)s;
    if (flags)
        return weft_refuse_unknown(p->d->m->host);
    return p->op->run(p, in, out, workspace);
}
