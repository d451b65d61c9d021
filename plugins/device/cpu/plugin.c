/* plugin.c: entry point of the cpu device: manifest, options and the plan half. */
#include "machine/device.h"
#include <stdarg.h>
#include <stdio.h>

weft_status cpu_fail(const struct cpu_module *m, weft_status code, const char *format, ...)
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
    struct cpu_module *m = host->alloc(host->ctx, sizeof *m, 0);
    if (!m)
        return host->fail(host->ctx, WEFT_NO_MEMORY, "no memory for the cpu device");
    m->host = host;
    *module = m;
    return WEFT_OK;
}

static void module_close(void *module)
{
    struct cpu_module *m = module;
    if (m)
        m->host->free(m->host->ctx, m);
}

static weft_status query(void *module, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out)
{
    const struct cpu_op *op;
    struct cpu_args a;
    uint64_t workspace;
    (void)conf;
    weft_status st = cpu_op_plan(module, spec, &op, &a, &workspace);
    if (st == WEFT_OK)
        weft_give(out, &(weft_requirements){.struct_size = sizeof *out, .workspace = workspace});
    return st;
}

static weft_status probe(void *module, const weft_conf *conf, int32_t *score)
{
    (void)module;
    (void)conf;
    *score = 10;
    return WEFT_OK;
}

static const weft_option threads = {
    .struct_size = sizeof threads,
    .type = WEFT_OPT_AUTO_INT,
    .key = "threads",
    .dflt = "auto",
    .help = "threads of a rank; auto: its share of the cores, or of the CPU time that its "
            "control group allows",
    .min = 1,
    .max = 1024,
};

static const weft_option pin = {
    .struct_size = sizeof pin,
    .type = WEFT_OPT_BOOL,
    .key = "pin",
    .dflt = "on",
    .help = "pin each rank's threads to its share of the cores, if there are enough that no other "
            "process is pinned to",
};

static const weft_option isa = {
    .struct_size = sizeof isa,
    .type = WEFT_OPT_CHOICE,
    .key = "isa",
    .dflt = "auto",
    .help = "instruction set of all kernels, oneDNN's too; auto: the widest that every rank has, "
            "and that ONEDNN_MAX_CPU_ISA allows",
#if defined(__x86_64__)
    .choices = "auto|v2|v3|v4|v4bf16|v4amx",
#else
    .choices = "auto|plain",
#endif
};

static const weft_option *const options[] = {&threads, &pin, &isa, NULL};

static const weft_device_table table = {
    .struct_size = sizeof table,
    .caps = WEFT_DEV_HOST_MEMORY | WEFT_DEV_EXPORT_FD,
    .query = query,
    .probe = probe,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .arena = cpu_arena,
    .host_memory = cpu_host_memory,
    .stream = cpu_stream,
    .event = cpu_event,
    .record = cpu_record,
    .stream_wait = cpu_stream_wait,
    .event_query = cpu_event_query,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .prepare = cpu_prepare,
    .release = cpu_release,
    .run = cpu_run,
    .kernel_sets = cpu_kernel_sets,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.device/1",
    .name = "cpu",
    .help = "the host's cores: oneDNN for matrix products, own kernels for the rest",
    .options = options,
    .table = &table,
};

static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.cpu", "0.1.0", "Apache-2.0", components, module_open, module_close);
