/* library.c: see library.h. */
#include "library.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NCCL "libnccl.so.2"
#define DRIVER "libcuda.so.1"
#define OLDEST 21800 /* 2.18: non-blocking configurations, communicator split */

#define OF(name)                                                                                   \
    {                                                                                              \
        "nccl" #name, offsetof(nccl_api, name)                                                     \
    }
#define OF_DRIVER(name)                                                                            \
    {                                                                                              \
#name, offsetof(driver_api, name)                                                          \
    }

typedef struct symbol {
    const char *name;
    size_t at;
} symbol;

static const symbol of_nccl[] = {OF(GetVersion),   OF(GetUniqueId),  OF(CommInitRankConfig),
                                 OF(CommSplit),    OF(CommFinalize), OF(CommGetAsyncError),
                                 OF(CommDestroy),  OF(CommAbort),    OF(GroupStart),
                                 OF(GroupEnd),     OF(AllReduce),    OF(ReduceScatter),
                                 OF(AllGather),    OF(Broadcast),    OF(Reduce),
                                 OF(Send),         OF(Recv),         OF(GetErrorString),
                                 OF(GetLastError), OF(CommRegister), OF(CommDeregister)};

static const symbol of_driver[] = {OF_DRIVER(cuInit), OF_DRIVER(cuDeviceGetCount),
                                   OF_DRIVER(cuStreamGetCtx), OF_DRIVER(cuCtxSetCurrent)};

weft_status nccl_fail(const nccl_module *m, weft_status code, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return m->host->fail(m->host->ctx, code, text);
}

static weft_status find(const nccl_module *m, void *library, const char *file, const symbol *s,
                        size_t n, void *table)
{
    for (size_t i = 0; i < n; i++) {
        void *at = dlsym(library, s[i].name);
        if (!at)
            return nccl_fail(m, WEFT_ABSENT, "the %s of this machine is too old: it has no %s",
                             file, s[i].name);
        memcpy((char *)table + s[i].at, &at, sizeof at);
    }
    return WEFT_OK;
}

/* The libraries are never closed: their own threads outlive a job. */
weft_status nccl_load(nccl_module *m)
{
    if (m->loaded)
        return WEFT_OK;
    void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        return nccl_fail(m, WEFT_ABSENT, "no NVIDIA driver: %s", dlerror());
    void *nccl = dlopen(NCCL, RTLD_NOW | RTLD_LOCAL);
    if (!nccl)
        return nccl_fail(m, WEFT_ABSENT,
                         "nccl needs " NCCL ", which this machine does not have (%s)", dlerror());
    weft_status st =
        find(m, driver, DRIVER, of_driver, sizeof of_driver / sizeof *of_driver, &m->driver);
    if (st == WEFT_OK)
        st = find(m, nccl, NCCL, of_nccl, sizeof of_nccl / sizeof *of_nccl, &m->nccl);
    if (st == WEFT_OK && (m->nccl.GetVersion(&m->version) != ncclSuccess || m->version < OLDEST))
        st = nccl_fail(m, WEFT_ABSENT,
                       "the " NCCL " of this machine is version %d.%d; 2.18 or later is needed",
                       m->version / 10000, m->version / 100 % 100);
    m->loaded = st == WEFT_OK;
    return st;
}
