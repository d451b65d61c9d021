/* library.c: see library.h. */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(OPEN_MPI)
#define MADE_FOR "Open MPI"
#define USUAL "libmpi.so.40"
#define PACKAGE "libopenmpi3 on Debian"
#elif defined(MPICH_VERSION)
#define MADE_FOR "MPICH"
#define USUAL "libmpi.so.12"
#define PACKAGE "libmpich12 on Debian"
#else
#define MADE_FOR "another MPI"
#define USUAL "libmpi.so"
#define PACKAGE "the one that this program was built with"
#endif

typedef struct symbol {
    const char *name;
    size_t at;
} symbol;

#define FUNCTION(name) {"MPI_" #name, offsetof(mpi_api, name)},

static const symbol functions[] = {MPI_FUNCTIONS(FUNCTION)};

#ifdef OPEN_MPI
static const symbol handles[] = {
    {"ompi_mpi_comm_world", offsetof(mpi_api, world)},
    {"ompi_mpi_errors_return", offsetof(mpi_api, errors_return)},
    {"ompi_mpi_float", offsetof(mpi_api, f32)},
    {"ompi_mpi_double", offsetof(mpi_api, f64)},
    {"ompi_mpi_int32_t", offsetof(mpi_api, i32)},
    {"ompi_mpi_int64_t", offsetof(mpi_api, i64)},
    {"ompi_mpi_uint16_t", offsetof(mpi_api, u16)},
    {"ompi_mpi_uint8_t", offsetof(mpi_api, u8)},
    {"ompi_mpi_op_sum", offsetof(mpi_api, sum)},
    {"ompi_mpi_op_max", offsetof(mpi_api, max)},
    {"ompi_mpi_op_min", offsetof(mpi_api, min)},
};
#endif

static struct {
    pthread_mutex_t lock; /* jobs of one process may probe at once */
    bool loaded;
    char file[256];
    mpi_api api;
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

weft_status mpi_fail(const weft_host *h, weft_status code, const char *fmt, ...)
{
    char text[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return h->fail(h->ctx, code, text);
}

void *mpi_new(const weft_host *h, uint64_t bytes, weft_status *st)
{
    void *p = *st == WEFT_OK ? calloc(1, bytes) : NULL;
    if (*st == WEFT_OK && !p)
        *st = mpi_fail(h, WEFT_NO_MEMORY, "no memory for a queue of MPI operations");
    return p;
}

static weft_status find(const weft_host *h, void *library, const char *file, const symbol *s,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *at = dlsym(library, s[i].name);
        if (!at)
            return mpi_fail(h, WEFT_ABSENT,
                            "the %s of this machine has no %s: it is older than MPI 3, or no "
                            "%s, for which the plugin mpi was built",
                            file, s[i].name, MADE_FOR);
        memcpy((char *)&the.api + s[i].at, &at, sizeof at);
    }
    return WEFT_OK;
}

#ifdef OPEN_MPI
static weft_status find_handles(const weft_host *h, void *library, const char *file)
{
    return find(h, library, file, handles, sizeof handles / sizeof *handles);
}
#else
static weft_status find_handles(const weft_host *h, void *library, const char *file)
{
    (void)h, (void)library, (void)file;
    mpi_api *a = &the.api;
    a->world = MPI_COMM_WORLD;
    a->errors_return = MPI_ERRORS_RETURN;
    a->f32 = MPI_FLOAT;
    a->f64 = MPI_DOUBLE;
    a->i32 = MPI_INT32_T;
    a->i64 = MPI_INT64_T;
    a->u16 = MPI_UINT16_T;
    a->u8 = MPI_UINT8_T;
    a->sum = MPI_SUM;
    a->max = MPI_MAX;
    a->min = MPI_MIN;
    return WEFT_OK;
}
#endif

static weft_status load(const weft_host *h, const char *file)
{
    if (the.loaded && !strcmp(the.file, file))
        return WEFT_OK;
    if (the.loaded)
        return mpi_fail(h, WEFT_USAGE,
                        "this process uses the MPI library %s already, and cannot use %s beside it",
                        the.file, file);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return mpi_fail(h, WEFT_ABSENT,
                        "mpi needs %s (%s), which cannot be opened: %s; install it (%s), or name "
                        "its path by comm.mpi.library",
                        file, MADE_FOR, dlerror(), PACKAGE);
    weft_status st = find(h, library, file, functions, sizeof functions / sizeof *functions);
    if (st == WEFT_OK)
        st = find_handles(h, library, file);
    the.loaded = st == WEFT_OK;
    snprintf(the.file, sizeof the.file, "%s", file);
    return st;
}

const mpi_api *mpi_load(const weft_host *h, const char *file)
{
    if (!strcmp(file, "auto"))
        file = *WEFT_MPI_LIBRARY ? WEFT_MPI_LIBRARY : USUAL;
    if (strlen(file) >= sizeof the.file) {
        (void)!mpi_fail(h, WEFT_USAGE, "comm.mpi.library is too long for a path");
        return NULL;
    }
    pthread_mutex_lock(&the.lock);
    const weft_status st = load(h, file);
    pthread_mutex_unlock(&the.lock);
    return st == WEFT_OK ? &the.api : NULL;
}
