/* bench/overhead/null.c: a device whose kernels do nothing, so that what is left is the executor.
 */
#include <stdlib.h>
#include <string.h>
#include <weft/device.h>

static weft_status query(void *m, const weft_conf *c, const weft_opspec *s, weft_requirements *out)
{
    (void)m, (void)c, (void)s;
    out->workspace = 0;
    return WEFT_OK;
}

static weft_status probe(void *m, const weft_conf *c, int32_t *score)
{
    (void)m, (void)c;
    *score = 1;
    return WEFT_OK;
}

static char one; /* what every opaque pointer points to */
static void *memory;
static const weft_host *host_table; /* one job a process: this device is for measurements alone */

static weft_status open_device(void *m, const weft_device_args *a, weft_device **out)
{
    (void)m, (void)a;
    *out = (weft_device *)(void *)&one;
    return WEFT_OK;
}

static void close_device(weft_device *d)
{
    (void)d;
    free(memory);
    memory = NULL;
}

static const char *describe(weft_device *d)
{
    (void)d;
    return "kernels that do nothing";
}

static weft_status arena(weft_device *d, uint64_t bytes, int32_t want_fd, void **base, int32_t *fd)
{
    (void)d, (void)want_fd;
    *fd = -1;
    *base = memory = calloc(1, bytes);
    return memory ? WEFT_OK : WEFT_NO_MEMORY;
}

static weft_status host_memory(weft_device *d, uint64_t bytes, void **out)
{
    (void)d, (void)bytes, (void)out;
    return WEFT_UNSUPPORTED;
}

static weft_status stream(weft_device *d, int32_t priority, weft_stream **out)
{
    (void)d, (void)priority;
    *out = (weft_stream *)(void *)&one;
    return WEFT_OK;
}

static weft_status event(weft_device *d, weft_event **out)
{
    (void)d;
    *out = (weft_event *)(void *)&one;
    return WEFT_OK;
}

static weft_status record(weft_event *e, weft_stream *s, uint32_t flags)
{
    (void)e, (void)s;
    return weft_check_flags(host_table, flags, 0);
}

static weft_status stream_wait(weft_stream *s, weft_event *e, uint32_t flags)
{
    (void)s, (void)e;
    return weft_check_flags(host_table, flags, 0);
}

static weft_status event_query(weft_event *e, uint32_t flags)
{
    (void)e;
    return weft_check_flags(host_table, flags, 0);
}

static weft_status copy(weft_device *d, weft_stream *s, void *to, const void *from, uint64_t bytes,
                        uint32_t flags)
{
    (void)d, (void)s;
    if (flags)
        return weft_refuse_unknown(host_table);
    memcpy(to, from, bytes);
    return WEFT_OK;
}

static weft_status fill(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes,
                        uint32_t flags)
{
    (void)d, (void)s;
    if (flags)
        return weft_refuse_unknown(host_table);
    memset(to, byte, bytes);
    return WEFT_OK;
}

static weft_status prepare(weft_device *d, const weft_opspec *spec, weft_prepared **out)
{
    (void)d, (void)spec;
    *out = (weft_prepared *)(void *)&one;
    return WEFT_OK;
}

static void release(weft_prepared *p)
{
    (void)p;
}

static weft_status run(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags)
{
    (void)p, (void)s, (void)in, (void)out, (void)workspace;
    return weft_check_flags(host_table, flags, 0);
}

static const weft_device_table table = {.struct_size = sizeof table,
                                        .caps = WEFT_DEV_HOST_MEMORY,
                                        .query = query,
                                        .probe = probe,
                                        .open = open_device,
                                        .close = close_device,
                                        .describe = describe,
                                        .arena = arena,
                                        .host_memory = host_memory,
                                        .stream = stream,
                                        .event = event,
                                        .record = record,
                                        .stream_wait = stream_wait,
                                        .event_query = event_query,
                                        .copy = copy,
                                        .fill = fill,
                                        .prepare = prepare,
                                        .release = release,
                                        .run = run};
static const weft_component null_device = {sizeof null_device,        0,    "weft.device/1", "null",
                                           "kernels that do nothing", NULL, &table,          NULL};
static const weft_component *const components[] = {&null_device, NULL};

static weft_status open_module(const weft_host *host, void **module)
{
    host_table = host;
    *module = &one;
    return WEFT_OK;
}

WEFT_PLUGIN("weft.bench.null", "0.1", "Apache-2.0", components, open_module, NULL);
