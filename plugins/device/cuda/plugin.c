/* plugin.c: entry point of the cuda device: manifest, options, the plan half. */
#include "driver/device.h"
#include "ops/ops.h"
#include <stdarg.h>
#include <stdio.h>

weft_status gpu_fail(const struct gpu_module *m, weft_status code, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return m->host->fail(m->host->ctx, code, text);
}

static weft_status module_open(const weft_host *host, void **module)
{
    struct gpu_module *m = host->alloc(host->ctx, sizeof *m, 0);
    if (!m)
        return host->fail(host->ctx, WEFT_NO_MEMORY, "no memory for the cuda device");
    m->host = host;
    *module = m;
    return WEFT_OK;
}

static void module_close(void *module)
{
    struct gpu_module *m = module;
    if (m)
        m->host->free(m->host->ctx, m);
}

static weft_status query(void *module, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out)
{
    const struct gpu_op *op;
    struct gpu_sizes z;
    uint64_t workspace;
    weft_status st = gpu_op_plan(module, spec, &op, &z, &workspace);
    if (st == WEFT_OK && op->plan == plan_joined && conf->integer(conf->ctx, "joined") == 0)
        st = gpu_fail(module, WEFT_UNSUPPORTED, "op %s: device.joined is off", spec->id);
    if (st == WEFT_OK)
        weft_give(out, &(weft_requirements){.struct_size = sizeof *out,
                                            .workspace = (workspace + 63) / 64 * 64});
    return st;
}

static const weft_option graphs = {
    .struct_size = sizeof graphs,
    .type = WEFT_OPT_BOOL,
    .key = "graphs",
    .dflt = "on",
    .help = "record what a list computes between communication once, and replay it",
};

static const weft_option products = {
    .struct_size = sizeof products,
    .type = WEFT_OPT_CHOICE,
    .key = "products",
    .dflt = "cublaslt",
    .help =
        "library for matrix products; own: kernels without tensor cores, for comparison with the "
        "library",
    .choices = "cublaslt|own",
};

static const weft_option joined = {
    .struct_size = sizeof joined,
    .type = WEFT_OPT_BOOL,
    .key = "joined",
    .dflt = "on",
    .help = "join biases, GELU, residuals and gradients of biases with the products beside them, "
            "where the library does both in one and, with tune, that is faster",
};

static const weft_option attention = {
    .struct_size = sizeof attention,
    .type = WEFT_OPT_CHOICE,
    .key = "attention",
    .dflt = "auto",
    .help = "library for attention; auto: cuDNN where it can be used, else own kernels",
    .choices = "auto|cudnn|own",
};

static const weft_option tf32 = {
    .struct_size = sizeof tf32,
    .type = WEFT_OPT_BOOL,
    .key = "tf32",
    .dflt = "off",
    .help = "products of fp32 operands on tensor cores, with 10 bits of fraction",
};

static const weft_option tune = {
    .struct_size = sizeof tune,
    .type = WEFT_OPT_BOOL,
    .key = "tune",
    .dflt = "on",
    .help = "time the library's algorithms for each product; off, and where run.deterministic "
            "is on: take its first choice",
};

static const weft_option libraries = {
    .struct_size = sizeof libraries,
    .type = WEFT_OPT_STRING,
    .key = "libraries",
    .dflt = "",
    .help =
        "DIR:DIR to look for libcublasLt and libcudnn in, before the loader's default directories",
};

static const weft_option *const options[] = {&graphs, &products, &joined,    &attention,
                                             &tf32,   &tune,     &libraries, NULL};

static const weft_device_table table = {
    .struct_size = sizeof table,
    .caps = WEFT_DEV_CAPTURE | WEFT_DEV_FLAGS | WEFT_DEV_CUDA_MEMORY | WEFT_DEV_EXPORT_CUDA |
            WEFT_DEV_EXPORT_DMABUF | WEFT_DEV_IMPORT_PEER,
    .query = query,
    .fuse = gpu_fuse,
    .probe = gpu_probe,
    .open = gpu_open,
    .close = gpu_close,
    .describe = gpu_describe,
    .arena = gpu_arena,
    .host_memory = gpu_host_memory,
    .stream = gpu_stream,
    .event = gpu_event,
    .record = gpu_record,
    .stream_wait = gpu_stream_wait,
    .event_query = gpu_event_query,
    .copy = gpu_copy,
    .fill = gpu_fill,
    .prepare = gpu_prepare,
    .release = gpu_release,
    .run = gpu_run,
    .flag_wait = gpu_flag_wait,
    .flag_set = gpu_flag_set,
    .capture_begin = gpu_capture_begin,
    .capture_end = gpu_capture_end,
    .replay = gpu_replay,
    .native_stream = gpu_native_stream,
    .ipc_domain = gpu_ipc_domain,
    .import_peer = gpu_import_peer,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.device/1",
    .name = "cuda",
    .help = "one NVIDIA GPU a rank: cuBLASLt for products, cuDNN for attention, own kernels for "
            "the rest",
    .options = options,
    .table = &table,
};

static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.cuda", "0.1.0", "Apache-2.0", components, module_open, module_close);
