/* memory.c: memory and copies of the double of libcuda. Device memory is the process's own, but
 * closed to it, if DOUBLE_GPU_CLOSED is set, except while enqueued work runs: a host that reads an
 * address of a GPU dies of it here too. Physical memory of the virtual-memory API is a memfd, so
 * that its descriptors work in other processes. */
#define _GNU_SOURCE
#include "double.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIMIT = 4096, GRAIN = 2 << 20 };

struct range {
    char *base;
    uint64_t bytes;
    bool device; /* else pinned host memory */
    bool mapped; /* an address range with physical memory, or plain memory */
};

static struct range ranges[LIMIT];
static int open_depth;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t taken;

static uint64_t capacity(void)
{
    const char *mib = getenv("DOUBLE_GPU_MIB"); /* a small GPU, for tests of a full one */
    return (mib ? strtoull(mib, NULL, 10) : 4096) << 20;
}

/* It takes time: only where DOUBLE_GPU_CLOSED asks for it. */
static bool closes(void)
{
    static int asked = -1;
    if (asked < 0)
        asked = getenv("DOUBLE_GPU_CLOSED") != NULL;
    return asked;
}

static void protect(const struct range *r)
{
    if (r->device && r->mapped && !closes())
        mprotect(r->base, r->bytes, PROT_READ | PROT_WRITE);
    else if (r->device && r->mapped)
        mprotect(r->base, r->bytes, open_depth > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static struct range *add_range(void *base, uint64_t bytes, bool device, bool mapped)
{
    pthread_mutex_lock(&lock);
    struct range *r = ranges;
    while (r->base && r < ranges + LIMIT - 1)
        r++;
    *r = (struct range){base, bytes, device, mapped};
    protect(r);
    pthread_mutex_unlock(&lock);
    return r;
}

static struct range *range_of(const void *p)
{
    for (struct range *r = ranges; r < ranges + LIMIT; r++)
        if (r->base && (const char *)p >= r->base && (const char *)p < r->base + r->bytes)
            return r;
    return NULL;
}

bool double_is_ours(const void *p)
{
    pthread_mutex_lock(&lock);
    const bool ours = range_of(p);
    pthread_mutex_unlock(&lock);
    return ours;
}

static void change_access(int by)
{
    if (!closes())
        return;
    pthread_mutex_lock(&lock);
    open_depth += by;
    if (open_depth == (by > 0 ? 1 : 0))
        for (struct range *r = ranges; r < ranges + LIMIT; r++)
            if (r->base)
                protect(r);
    pthread_mutex_unlock(&lock);
}

void double_open_memory(void)
{
    change_access(1);
}

void double_close_memory(void)
{
    change_access(-1);
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

static CUresult take(uint64_t bytes)
{
    if (taken + bytes > capacity())
        return CUDA_ERROR_OUT_OF_MEMORY;
    taken += bytes;
    return CUDA_SUCCESS;
}

/* --- plain and pinned memory --- */

CUresult cuMemGetInfo(size_t *free_bytes, size_t *all)
{
    *all = capacity();
    *free_bytes = *all - taken;
    return CUDA_SUCCESS;
}

/* At the end of its pages, so that a kernel which runs over its end is seen; what is not yet
 * written is no number. */
CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    const uint64_t pages = whole_pages(bytes) + 4096;
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (take(pages) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *p = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    madvise(p, pages, MADV_HUGEPAGE); /* filling it is most of what a job's start takes */
    memset(p, 0xff, pages - 4096);
    add_range(p, pages - 4096, true, true);
    mprotect(p + pages - 4096, 4096, PROT_NONE);
    *out = (CUdeviceptr)(uintptr_t)p + (whole_pages(bytes) - (bytes + 255) / 256 * 256);
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr p)
{
    (void)!cuCtxSynchronize();
    pthread_mutex_lock(&lock);
    struct range *r = range_of((void *)(uintptr_t)p);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (r && r->device) {
        munmap(r->base, r->bytes + 4096);
        taken -= r->bytes + 4096;
        *r = (struct range){0};
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    char *p =
        mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    add_range(p, whole_pages(bytes), false, true);
    *out = p;
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *p)
{
    (void)!cuCtxSynchronize();
    pthread_mutex_lock(&lock);
    struct range *r = range_of(p);
    if (r) {
        munmap(r->base, r->bytes);
        *r = (struct range){0};
    }
    pthread_mutex_unlock(&lock);
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- the virtual-memory API: a handle is a descriptor, plus one --- */

CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *p,
                                       CUmemAllocationGranularity_flags kind)
{
    (void)p;
    (void)kind;
    *out = GRAIN;
    return CUDA_SUCCESS;
}

/* What is not yet written is no number here either. */
static bool fill_with_nan(int fd, size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return false;
    memset(p, 0xff, bytes);
    munmap(p, bytes);
    return true;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *p,
                     unsigned long long flags)
{
    (void)flags;
    if (bytes % GRAIN != 0 || p->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (take(bytes) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const int fd = memfd_create("double", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 || !fill_with_nan(fd, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = (CUmemGenericAllocationHandle)fd + 1;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle h)
{
    struct stat st;
    if (h == 0 || fstat((int)h - 1, &st) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    taken -= (uint64_t)st.st_size;
    return close((int)h - 1) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags)
{
    (void)addr;
    (void)flags;
    char *p = mmap(NULL, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *at = (char *)(((uintptr_t)p + alignment - 1) & ~(uintptr_t)(alignment - 1));
    munmap(p, (size_t)(at - p));
    munmap(at + bytes, alignment - (size_t)(at - p));
    add_range(at, bytes, true, false);
    *out = (CUdeviceptr)(uintptr_t)at;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes)
{
    pthread_mutex_lock(&lock);
    struct range *r = range_of((void *)(uintptr_t)p);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (r && r->bytes == bytes && !r->mapped) {
        munmap(r->base, bytes);
        *r = (struct range){0};
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle h,
                  unsigned long long flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    struct range *r = range_of((void *)(uintptr_t)p);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (r && r->bytes == bytes && !r->mapped &&
        mmap(r->base, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)h - 1, (off_t)offset) !=
            MAP_FAILED)
        result = CUDA_SUCCESS;
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
    pthread_mutex_lock(&lock);
    struct range *r = range_of((void *)(uintptr_t)p);
    const bool fits =
        r && r->bytes == bytes && n == 1 && access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (fits) {
        r->mapped = true;
        protect(r);
    }
    pthread_mutex_unlock(&lock);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr p, size_t bytes)
{
    (void)!cuCtxSynchronize();
    pthread_mutex_lock(&lock);
    struct range *r = range_of((void *)(uintptr_t)p);
    if (r && r->bytes == bytes) {
        mmap(r->base, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
             0);
        r->mapped = false;
    }
    pthread_mutex_unlock(&lock);
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle h,
                                      CUmemAllocationHandleType kind, unsigned long long flags)
{
    (void)flags;
    if (kind != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    *(int *)out = dup((int)h - 1);
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                        CUmemAllocationHandleType kind)
{
    const int fd = dup((int)(intptr_t)os_handle);
    if (kind != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct stat st;
    if (fstat(fd, &st) == 0)
        taken += (uint64_t)st.st_size; /* cuMemRelease() takes it off */
    *out = (CUmemGenericAllocationHandle)fd + 1;
    return CUDA_SUCCESS;
}

CUresult cuMemGetHandleForAddressRange(void *out, CUdeviceptr p, size_t bytes,
                                       CUmemRangeHandleType kind, unsigned long long flags)
{
    (void)out;
    (void)p;
    (void)bytes;
    (void)kind;
    (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED; /* and the attribute says so */
}

/* --- copies: host memory that is not pinned is read at once, and written before the return --- */

struct copy {
    void *to;
    const void *from; /* NULL: what follows */
    uint64_t bytes;
};

static void run_copy(const void *payload)
{
    const struct copy *c = payload;
    memmove(c->to, c->from ? c->from : (const void *)(c + 1), c->bytes);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s)
{
    struct copy c = {(void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes};
    const bool to_ours = double_is_ours(c.to);
    if (double_is_ours(c.from)) {
        CUresult r = double_submit(s, run_copy, &c, sizeof c);
        return r == CUDA_SUCCESS && !to_ours ? cuStreamSynchronize(s) : r;
    }
    struct copy *whole = malloc(sizeof c + bytes);
    *whole = (struct copy){c.to, NULL, bytes};
    memcpy(whole + 1, c.from, bytes);
    CUresult r = double_submit(s, run_copy, whole, sizeof c + bytes);
    free(whole);
    return r;
}

struct fill {
    void *to;
    uint64_t bytes;
    int byte;
};

static void run_fill(const void *payload)
{
    const struct fill *f = payload;
    memset(f->to, f->byte, f->bytes);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream s)
{
    const struct fill f = {(void *)(uintptr_t)to, bytes, byte};
    return double_is_ours(f.to) ? double_submit(s, run_fill, &f, sizeof f)
                                : CUDA_ERROR_INVALID_VALUE;
}
