/* no_sdpa.c: in the place of sdpa.c and its parts, where cuDNN's headers are not installed. */
#include "sdpa.h"
#include <string.h>

weft_status gpu_sdpa_open(weft_device *d, const weft_conf *conf)
{
    const char *wish = conf->text(conf->ctx, "attention");
    if (wish && strcmp(wish, "cudnn") == 0)
        return gpu_fail(d->m, WEFT_ABSENT,
                        "device.attention = cudnn: the plugin was built without cuDNN's headers");
    return WEFT_OK;
}

void gpu_sdpa_close(weft_device *d)
{
    (void)d;
}

const char *gpu_sdpa_name(const weft_device *d)
{
    (void)d;
    return "own kernels";
}

uint64_t gpu_sdpa_workspace(const struct gpu_sizes *z, bool backward, bool deterministic)
{
    (void)z;
    (void)backward;
    (void)deterministic;
    return 0;
}

weft_status gpu_sdpa_ready(weft_prepared *p, const weft_opspec *spec, bool backward)
{
    (void)p;
    (void)spec;
    (void)backward;
    return WEFT_UNSUPPORTED;
}

void gpu_sdpa_drop(const weft_device *d, void *ready)
{
    (void)d;
    (void)ready;
}

weft_status gpu_sdpa_run(const weft_prepared *p, weft_stream *s, bool backward,
                         const struct gpu_job *j)
{
    (void)s;
    (void)backward;
    (void)j;
    return gpu_fail(p->d->m, WEFT_INTERNAL, "op %s: cuDNN was not built in", p->op->id);
}
