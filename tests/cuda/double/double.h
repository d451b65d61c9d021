/* double.h: what the parts of the double of libcuda share, and what the double of libcublasLt asks
 * of it. */
#ifndef DOUBLE_H
#define DOUBLE_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

/* --- memory.c --- */

bool double_is_ours(const void *p); /* device memory, or pinned */
void double_open_memory(void);      /* let this process touch device memory: while work runs */
void double_close_memory(void);

/* --- work.c: streams are queues, whose work runs when somebody waits or asks --- */

struct task {
    struct task *next;
    enum {
        CALL,   /* run(payload) */
        RECORD, /* event */
        AWAIT,  /* event, as it was recorded when this was enqueued */
        UNTIL,  /* *flag reaches value */
    } kind;
    void (*run)(const void *payload);
    CUevent event;
    uint64_t number; /* AWAIT: of the record */
    uint64_t order;  /* of being enqueued, over all streams */
    const uint32_t *flag;
    uint32_t value;
    uint64_t bytes; /* of the payload */
    _Alignas(16) char payload[];
};

CUresult double_load_code(void); /* what a library that loads code has to ask */

/* The doubles of libraries find these calls by name: the driver's double is loaded before them.
 * NULL: it is not. */
static inline void *double_call(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver ? dlsym(driver, name) : NULL;
}

/* Enqueue a call with a copy of the payload; or record it, where the stream is being captured. */
CUresult double_submit(CUstream s, void (*run)(const void *payload), const void *payload,
                       uint64_t bytes);

#endif
