/* moody.c: a kernel whose score depends on the rank, against the rule: ranks then have different
 * plans from the same files. It is never run. */
#include <stdlib.h>
#include <weft/device.h>
#include <weft/op.h>
#include <weft/plugin.h>

static weft_status query(void *module, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out)
{
    (void)module, (void)conf, (void)spec, (void)out;
    return WEFT_OK;
}

static weft_status prepare(void *module, const weft_conf *conf, const weft_opspec *spec,
                           void *stream, void **out)
{
    (void)conf, (void)spec, (void)stream, (void)out;
    const weft_host *host = module;
    return host->fail(host->ctx, WEFT_UNSUPPORTED, "test.moody computes nothing");
}

static weft_status run(void *prepared, void *stream, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags)
{
    (void)prepared, (void)stream, (void)in, (void)out, (void)workspace, (void)flags;
    return WEFT_UNSUPPORTED;
}

static int32_t score(void *module, const weft_conf *conf, const weft_opspec *spec)
{
    (void)module, (void)conf, (void)spec;
    const char *rank = getenv("RANK");
    return rank && *rank == '1' ? 60 : 40;
}

static const weft_kernel kernel = {.struct_size = sizeof kernel,
                                   .op = "gelu",
                                   .device = "cpu",
                                   .query = query,
                                   .prepare = prepare,
                                   .release = free,
                                   .run = run,
                                   .score = score};
static const weft_component component = {sizeof component,
                                         0,
                                         "weft.kernel/1",
                                         "test.moody",
                                         "scores by rank, which is forbidden",
                                         NULL,
                                         &kernel,
                                         NULL};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("org.test.moody", "1", "", components, weft_open_host, NULL);
