/* memory.c: the arena, pinned host memory, and the device's own memory.
 *
 * The arena is one physical allocation mapped to one address range through the driver's
 * virtual-memory API, so that one descriptor exports all of it to another process or to a NIC, and
 * NCCL may register it. Without that API the arena is plain memory and has no descriptor. */
#include "device.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct gpu_block *new_block(weft_device *d)
{
    struct gpu_block *b = d->m->host->alloc(d->m->host->ctx, sizeof *b, 0);
    if (!b) {
        (void)!gpu_fail(d->m, WEFT_NO_MEMORY, "no memory to keep account of a block of memory");
        return NULL;
    }
    b->fd = -1;
    b->next = d->blocks;
    d->blocks = b;
    return b;
}

static weft_status too_big(const weft_device *d, uint64_t bytes)
{
    size_t available = 0, all = 0;
    (void)!d->cu->cuMemGetInfo(&available, &all);
    return gpu_fail(d->m, WEFT_NO_MEMORY,
                    "the plan needs an arena of %.2f GiB on this rank, and the GPU has %.2f GiB "
                    "free of %.2f; lower train.microbatch or split the model over more ranks",
                    (double)bytes / 0x1p30, (double)available / 0x1p30, (double)all / 0x1p30);
}

static int has(const weft_device *d, CUdevice_attribute what)
{
    int value = 0;
    return d->cu->cuDeviceGetAttribute(&value, what, d->gpu) == CUDA_SUCCESS && value != 0;
}

static CUmemAllocationProp arena_kind(const weft_device *d)
{
    CUmemAllocationProp p;
    memset(&p, 0, sizeof p);
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = d->gpu;
    if (has(d, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
        p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    p.allocFlags.gpuDirectRDMACapable =
        (unsigned char)has(d, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
    return p;
}

/* Physical memory that is the arena's, or with a descriptor another process's. */
static weft_status take_physical(weft_device *d, struct gpu_block *b, uint64_t bytes, int fd,
                                 const CUmemAllocationProp *kind)
{
    CUmemGenericAllocationHandle handle = 0;
    const CUresult r =
        fd < 0 ? d->cu->cuMemCreate(&handle, b->bytes, kind, 0)
               : d->cu->cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && fd < 0)
        return too_big(d, bytes);
    weft_status st = gpu_check(
        d, r, fd < 0 ? "taking memory for the arena" : "taking the arena of another process");
    b->handle = st == WEFT_OK ? handle : 0;
    return st;
}

/* Physical memory, addresses, and the one mapped to the other. Whatever there is of the block goes
 * at close. */
static weft_status map_arena(weft_device *d, struct gpu_block *b, uint64_t bytes, int fd)
{
    const struct gpu_driver *cu = d->cu;
    const CUmemAllocationProp kind = arena_kind(d);
    const CUmemAccessDesc access = {.location = kind.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t grain = 0;
    weft_status st = gpu_check(
        d, cu->cuMemGetAllocationGranularity(&grain, &kind, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        "asking for the granularity of memory");
    if (st != WEFT_OK)
        return st;
    grain = grain < (2u << 20) ? 2u << 20 : grain;
    b->bytes = (bytes + grain - 1) / grain * grain;
    st = take_physical(d, b, bytes, fd, &kind);
    if (st == WEFT_OK)
        st = gpu_check(d, cu->cuMemAddressReserve(&b->base, b->bytes, grain, 0, 0),
                       "reserving addresses for the arena");
    if (st == WEFT_OK)
        st = gpu_check(d, cu->cuMemMap(b->base, b->bytes, 0, b->handle, 0), "mapping the arena");
    if (st == WEFT_OK)
        st = gpu_check(d, cu->cuMemSetAccess(b->base, b->bytes, &access, 1),
                       "opening the arena for access");
    return st;
}

static weft_status plain_arena(weft_device *d, struct gpu_block *b, uint64_t bytes)
{
    b->bytes = bytes;
    b->plain = true;
    const CUresult r = d->cu->cuMemAlloc(&b->base, bytes);
    return r == CUDA_ERROR_OUT_OF_MEMORY ? too_big(d, bytes)
                                         : gpu_check(d, r, "taking memory for the arena");
}

static weft_status describe_arena(weft_device *d, struct gpu_block *b, int32_t kind)
{
    if (kind == WEFT_FD_CUDA)
        return gpu_check(d,
                         d->cu->cuMemExportToShareableHandle(
                             &b->fd, b->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                         "exporting the arena");
    if (!has(d, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED))
        return WEFT_OK; /* a NIC may know the addresses by other means */
    return gpu_check(d,
                     d->cu->cuMemGetHandleForAddressRange(&b->fd, b->base, b->bytes,
                                                          CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
                     "describing the arena to other devices");
}

static weft_status zero(weft_device *d, CUdeviceptr at, uint64_t bytes)
{
    weft_status st = gpu_check(d, d->cu->cuMemsetD8Async(at, 0, bytes, NULL), "clearing the arena");
    return st != WEFT_OK ? st : gpu_check(d, d->cu->cuCtxSynchronize(), "clearing the arena");
}

weft_status gpu_arena(weft_device *d, uint64_t bytes, int32_t want_fd, void **base, int32_t *fd)
{
    if (want_fd != 0 && want_fd != WEFT_FD_CUDA && want_fd != WEFT_FD_DMABUF)
        return gpu_fail(d->m, WEFT_UNSUPPORTED,
                        "a GPU's memory has descriptors for CUDA and for NICs, none for mmap()");
    if (bytes > (uint64_t)1 << 48)
        return too_big(d, bytes);
    weft_status st = gpu_enter(d);
    struct gpu_block *b = st == WEFT_OK ? new_block(d) : NULL;
    if (!b)
        return st != WEFT_OK ? st : WEFT_NO_MEMORY;
    const bool mapped = has(d, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
    bytes = bytes == 0 ? 1 : bytes;
    st = mapped ? map_arena(d, b, bytes, -1) : plain_arena(d, b, bytes);
    if (st == WEFT_OK)
        st = zero(d, b->base, bytes);
    if (st == WEFT_OK && want_fd != 0 && mapped)
        st = describe_arena(d, b, want_fd);
    if (st != WEFT_OK)
        return st; /* what there is of the block goes at close */
    *base = (void *)(uintptr_t)b->base;
    *fd = b->fd;
    return WEFT_OK;
}

weft_status gpu_ipc_domain(void *module, const weft_device_args *args, char *text, uint64_t *bytes)
{
    const struct gpu_module *m = module;
    weft_device d = {.m = module, .cu = gpu_driver_open(m->host)};
    CUuuid id;
    if (!d.cu)
        return WEFT_ABSENT;
    weft_status st = gpu_find(&d, args->local_rank);
    if (st != WEFT_OK)
        return st;
    if (!has(&d, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
        !has(&d, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
        return gpu_fail(m, WEFT_UNSUPPORTED,
                        "the GPU's memory has no descriptors for other processes");
    st = gpu_check(&d, d.cu->cuDeviceGetUuid(&id, d.gpu), "asking for its number");
    char name[4 + 2 * sizeof id.bytes + 1] = "GPU ";
    for (uint32_t i = 0; i < sizeof id.bytes; i++)
        snprintf(name + 4 + 2 * i, 3, "%02x", (unsigned char)id.bytes[i]);
    if (st == WEFT_OK && *bytes < sizeof name - 1)
        return gpu_fail(m, WEFT_USAGE, "the name of a GPU does not fit into %llu bytes",
                        (unsigned long long)*bytes);
    *bytes = sizeof name - 1;
    memcpy(text, name, *bytes);
    return st;
}

weft_status gpu_import_peer(weft_device *d, int32_t fd, uint64_t bytes, void **base)
{
    weft_status st = gpu_enter(d);
    struct gpu_block *b = st == WEFT_OK ? new_block(d) : NULL;
    if (!b)
        return st != WEFT_OK ? st : WEFT_NO_MEMORY;
    st = map_arena(d, b, bytes == 0 ? 1 : bytes, fd);
    if (st == WEFT_OK)
        *base = (void *)(uintptr_t)b->base;
    return st;
}

weft_status gpu_host_memory(weft_device *d, uint64_t bytes, void **out)
{
    weft_status st = gpu_enter(d);
    struct gpu_block *b = st == WEFT_OK ? new_block(d) : NULL;
    if (!b)
        return st != WEFT_OK ? st : WEFT_NO_MEMORY;
    st = gpu_check(d,
                   d->cu->cuMemHostAlloc(&b->host, bytes > 0 ? bytes : 1,
                                         CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                   "pinning host memory");
    if (st != WEFT_OK)
        return st;
    memset(b->host, 0, bytes);
    *out = b->host;
    return WEFT_OK;
}

static void free_block(weft_device *d, struct gpu_block *b)
{
    const struct gpu_driver *cu = d->cu;
    if (b->fd >= 0)
        close(b->fd);
    if (b->host)
        (void)!cu->cuMemFreeHost(b->host);
    if (b->plain && b->base != 0)
        (void)!cu->cuMemFree(b->base);
    if (!b->plain && b->base != 0) {
        (void)!cu->cuMemUnmap(b->base, b->bytes);
        (void)!cu->cuMemAddressFree(b->base, b->bytes);
    }
    if (b->handle != 0)
        (void)!cu->cuMemRelease(b->handle);
    d->m->host->free(d->m->host->ctx, b);
}

void gpu_free_blocks(weft_device *d)
{
    for (struct gpu_block *b = d->blocks, *next; b; b = next) {
        next = b->next;
        free_block(d, b);
    }
    d->blocks = NULL;
}

weft_status gpu_own_memory(weft_device *d, uint64_t bytes, CUdeviceptr *out)
{
    return gpu_check(d, d->cu->cuMemAlloc(out, bytes > 0 ? bytes : 1),
                     "taking memory beside the arena");
}

void gpu_free_memory(weft_device *d, CUdeviceptr p)
{
    if (p != 0)
        (void)!d->cu->cuMemFree(p);
}

weft_status gpu_upload(weft_device *d, CUdeviceptr to, const void *from, uint64_t bytes)
{
    weft_status st = gpu_check(
        d, d->cu->cuMemcpyAsync(to, (CUdeviceptr)(uintptr_t)from, bytes, NULL), "copying to it");
    return st != WEFT_OK ? st : gpu_check(d, d->cu->cuStreamSynchronize(NULL), "copying to it");
}
