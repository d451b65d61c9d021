/* stream.c: streams, events, copies, flags, and recorded work: the driver's own, each by one call.
 */
#include "device.h"

static void *take(weft_device *d, uint64_t bytes)
{
    void *p = d->m->host->alloc(d->m->host->ctx, bytes, 0);
    if (!p)
        (void)!gpu_fail(d->m, WEFT_NO_MEMORY, "no memory for a stream's or an event's records");
    return p;
}

static void give(weft_device *d, void *p)
{
    d->m->host->free(d->m->host->ctx, p);
}

weft_status gpu_stream(weft_device *d, int32_t priority, weft_stream **out)
{
    int least = 0, greatest = 0; /* the driver's numbers: lower runs first */
    weft_status st = gpu_enter(d);
    weft_stream *s = st == WEFT_OK ? take(d, sizeof *s) : NULL;
    if (!s)
        return st != WEFT_OK ? st : WEFT_NO_MEMORY;
    (void)!d->cu->cuCtxGetStreamPriorityRange(&least, &greatest);
    const int wish = priority > 0 ? greatest : priority < 0 ? least : (least + greatest) / 2;
    st = gpu_check(d, d->cu->cuStreamCreateWithPriority(&s->cu, CU_STREAM_NON_BLOCKING, wish),
                   "making a stream");
    if (st != WEFT_OK) {
        give(d, s);
        return st;
    }
    s->d = d;
    s->next = d->streams;
    d->streams = s;
    *out = s;
    return WEFT_OK;
}

weft_status gpu_event(weft_device *d, weft_event **out)
{
    weft_status st = gpu_enter(d);
    weft_event *e = st == WEFT_OK ? take(d, sizeof *e) : NULL;
    if (!e)
        return st != WEFT_OK ? st : WEFT_NO_MEMORY;
    st = gpu_check(d, d->cu->cuEventCreate(&e->cu, CU_EVENT_DISABLE_TIMING), "making an event");
    if (st != WEFT_OK) {
        give(d, e);
        return st;
    }
    e->d = d;
    e->next = d->events;
    d->events = e;
    *out = e;
    return WEFT_OK;
}

void gpu_free_streams(weft_device *d)
{
    for (weft_capture *c = d->captures, *next; c; c = next) {
        next = c->next;
        (void)!d->cu->cuGraphExecDestroy(c->exec);
        give(d, c);
    }
    for (weft_event *e = d->events, *next; e; e = next) {
        next = e->next;
        (void)!d->cu->cuEventDestroy(e->cu);
        give(d, e);
    }
    for (weft_stream *s = d->streams, *next; s; s = next) {
        next = s->next;
        (void)!d->cu->cuStreamDestroy(s->cu);
        give(d, s);
    }
}

weft_status gpu_record(weft_event *e, weft_stream *s, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(e->d->m->host);
    weft_status st = gpu_enter(e->d);
    return st != WEFT_OK ? st : gpu_check(e->d, e->d->cu->cuEventRecord(e->cu, s->cu), "an event");
}

weft_status gpu_stream_wait(weft_stream *s, weft_event *e, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(s->d->m->host);
    weft_status st = gpu_enter(e->d);
    return st != WEFT_OK
               ? st
               : gpu_check(e->d, e->d->cu->cuStreamWaitEvent(s->cu, e->cu, 0), "awaiting an event");
}

weft_status gpu_event_query(weft_event *e, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(e->d->m->host);
    weft_status st = gpu_enter(e->d);
    if (st != WEFT_OK)
        return st;
    const CUresult r = e->d->cu->cuEventQuery(e->cu);
    return r == CUDA_ERROR_NOT_READY ? WEFT_BUSY : gpu_check(e->d, r, "its work");
}

weft_status gpu_copy(weft_device *d, weft_stream *s, void *to, const void *from, uint64_t bytes,
                     uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(d->m->host);
    weft_status st = gpu_enter(d);
    if (st != WEFT_OK || bytes == 0)
        return st;
    return gpu_check(d,
                     d->cu->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                          bytes, s->cu),
                     "a copy");
}

weft_status gpu_fill(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes,
                     uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(d->m->host);
    weft_status st = gpu_enter(d);
    if (st != WEFT_OK || bytes == 0)
        return st;
    return gpu_check(
        d, d->cu->cuMemsetD8Async((CUdeviceptr)(uintptr_t)to, (unsigned char)byte, bytes, s->cu),
        "filling memory");
}

weft_status gpu_flag_wait(weft_stream *s, const uint32_t *flag, uint32_t v, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(s->d->m->host);
    weft_device *d = s->d;
    weft_status st = gpu_enter(d);
    if (st != WEFT_OK)
        return st;
    return gpu_check(d,
                     d->cu->cuStreamWaitValue32(s->cu, (CUdeviceptr)(uintptr_t)flag, v,
                                                CU_STREAM_WAIT_VALUE_GEQ),
                     "waiting for a flag");
}

weft_status gpu_flag_set(weft_stream *s, uint32_t *flag, uint32_t v, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(s->d->m->host);
    weft_device *d = s->d;
    weft_status st = gpu_enter(d);
    if (st != WEFT_OK)
        return st;
    return gpu_check(d,
                     d->cu->cuStreamWriteValue32(s->cu, (CUdeviceptr)(uintptr_t)flag, v,
                                                 CU_STREAM_WRITE_VALUE_DEFAULT),
                     "setting a flag");
}

/* Relaxed: a library that loads a kernel at its first use may do so while work is recorded. */
weft_status gpu_capture_begin(weft_stream *s, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(s->d->m->host);
    weft_device *d = s->d;
    if (!d->graphs)
        return gpu_fail(d->m, WEFT_UNSUPPORTED, "device.graphs is off");
    weft_status st = gpu_enter(d);
    return st != WEFT_OK
               ? st
               : gpu_check(d, d->cu->cuStreamBeginCapture(s->cu, CU_STREAM_CAPTURE_MODE_RELAXED),
                           "beginning to record work");
}

weft_status gpu_capture_end(weft_stream *s, weft_capture **out)
{
    weft_device *d = s->d;
    CUgraph graph = NULL;
    weft_status st = gpu_enter(d);
    if (st == WEFT_OK)
        st = gpu_check(d, d->cu->cuStreamEndCapture(s->cu, &graph), "recording work");
    weft_capture *c = st == WEFT_OK ? take(d, sizeof *c) : NULL;
    if (c)
        st = gpu_check(d, d->cu->cuGraphInstantiate(&c->exec, graph, 0), "making a graph");
    if (graph)
        (void)!d->cu->cuGraphDestroy(graph);
    if (!c)
        return st != WEFT_OK ? st : WEFT_NO_MEMORY;
    if (st == WEFT_OK)
        st = gpu_check(d, d->cu->cuGraphUpload(c->exec, s->cu), "uploading a graph");
    if (st != WEFT_OK) {
        if (c->exec)
            (void)!d->cu->cuGraphExecDestroy(c->exec);
        give(d, c);
        return st;
    }
    c->d = d;
    c->next = d->captures;
    d->captures = c;
    *out = c;
    return WEFT_OK;
}

weft_status gpu_replay(weft_capture *c, weft_stream *s, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(c->d->m->host);
    weft_device *d = c->d;
    weft_status st = gpu_enter(d);
    return st != WEFT_OK ? st
                         : gpu_check(d, d->cu->cuGraphLaunch(c->exec, s->cu), "starting a graph");
}

void *gpu_native_stream(weft_stream *s)
{
    return s->cu;
}
