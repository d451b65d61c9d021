/* driver.c: see driver.h. */
#include "driver.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUOTED_(name) #name
#define QUOTED(name) QUOTED_(name)

static weft_status no_driver(const weft_host *host, const char *why)
{
    char text[512];
    snprintf(text, sizeof text,
             "no NVIDIA driver: %s; install one, or set device.plugin to another device", why);
    return host->fail(host->ctx, WEFT_ABSENT, text);
}

static weft_status find_calls(const weft_host *host, void *so, struct gpu_driver *cu)
{
    static const struct {
        const char *name;
        size_t at;
    } calls[] = {
#define CALL(name) {QUOTED(name), offsetof(struct gpu_driver, name)},
        GPU_DRIVER_CALLS(CALL)};
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        void *found = dlsym(so, calls[k].name);
        if (!found) {
            char why[256];
            snprintf(why, sizeof why, "the one that is installed is too old, it has no %s",
                     calls[k].name);
            return no_driver(host, why);
        }
        memcpy((char *)cu + calls[k].at, &found, sizeof found);
    }
    return WEFT_OK;
}

void gpu_driver_error(const struct gpu_driver *cu, CUresult error, char *text, size_t cap)
{
    const char *name = NULL, *meaning = NULL;
    if (cu->cuGetErrorName(error, &name) != CUDA_SUCCESS || !name)
        name = "an unknown error";
    if (cu->cuGetErrorString(error, &meaning) != CUDA_SUCCESS || !meaning)
        meaning = "no description";
    snprintf(text, cap, "%s (%s)", name, meaning);
}

/* Streams share hardware queues to the GPU, 8 by default. A stream that waits for a flag blocks the
 * other streams of its queue: a deadlock if the flag is set by work on one of them. So the number
 * of queues is set to its maximum. */
static weft_status start(const weft_host *host, struct gpu_driver *cu)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); /* read as the driver starts */
    void *so = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!so)
        return no_driver(host, "libcuda.so.1 cannot be opened");
    weft_status st = find_calls(host, so, cu);
    if (st != WEFT_OK)
        return st;
    const CUresult r = cu->cuInit(0);
    if (r != CUDA_SUCCESS || cu->cuDriverGetVersion(&cu->version) != CUDA_SUCCESS) {
        char why[256], error[200];
        gpu_driver_error(cu, r, error, sizeof error);
        snprintf(why, sizeof why, "it does not start: %s", error);
        return no_driver(host, why);
    }
    return WEFT_OK;
}

/* What the loader keeps of an object is a process's, so this is as well. */
const struct gpu_driver *gpu_driver_open(const weft_host *host)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct gpu_driver driver;
    static bool open;
    pthread_mutex_lock(&lock);
    if (!open)
        open = start(host, &driver) == WEFT_OK;
    const bool there = open;
    pthread_mutex_unlock(&lock);
    return there ? &driver : NULL;
}
