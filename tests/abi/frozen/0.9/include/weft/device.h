#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H
#include <weft/op.h>
#include <weft/plugin.h>
WEFT_EXTERN_C_BEGIN
typedef struct weft_device weft_device;
typedef struct weft_stream weft_stream;
typedef struct weft_event weft_event;
typedef struct weft_prepared weft_prepared;
typedef struct weft_capture weft_capture;
typedef struct weft_operand {
    uint32_t dtype, rank;
    uint32_t flags, reserved;
    int64_t size[WEFT_MAX_AXES];
} weft_operand;
WEFT_FREEZE(weft_operand, size, 80);
#define WEFT_SPEC_ACCUMULATE 1u
#define WEFT_SPEC_DETERMINISTIC 2u
typedef struct weft_opspec {
    uint32_t struct_size, flags;
    const char *id;
    const weft_attr *attrs;
    uint32_t nattr, nin, nout, reserved;
    const weft_operand *in, *out;
    const weft_ew_program *program;
} weft_opspec;
WEFT_FREEZE(weft_opspec, program, 64);
typedef struct weft_requirements {
    uint32_t struct_size, flags;
    uint64_t workspace;
} weft_requirements;
WEFT_FREEZE(weft_requirements, workspace, 16);
typedef struct weft_device_args {
    uint32_t struct_size, flags;
    uint32_t local_rank, local_ranks;
    const weft_conf *conf;
} weft_device_args;
WEFT_FREEZE(weft_device_args, conf, 24);
#define WEFT_DEV_HOST_MEMORY 1u
#define WEFT_DEV_EXPORT_FD 2u
#define WEFT_DEV_CAPTURE 4u
#define WEFT_DEV_FLAGS 8u
#define WEFT_DEV_CUDA_MEMORY 16u
#define WEFT_DEV_EXPORT_CUDA 32u
#define WEFT_DEV_EXPORT_DMABUF 64u
#define WEFT_DEV_IMPORT_PEER 128u
#define WEFT_FD_MAP 1
#define WEFT_FD_CUDA 2
#define WEFT_FD_DMABUF 3
#define WEFT_FUSE_CHAINED 1u
#define WEFT_FUSE_SHARED_INPUT 2u
typedef struct weft_device_table {
    uint32_t struct_size, reserved;
    uint64_t caps;
    weft_status (*query)(void *module, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out);
    const char *(*fuse)(void *module, const weft_conf *conf, const char *const *ids,
                        const uint32_t *joins, uint32_t n);
    weft_status (*probe)(void *module, const weft_conf *conf, int32_t *score);
    weft_status (*open)(void *module, const weft_device_args *args, weft_device **out);
    void (*close)(weft_device *d);
    const char *(*describe)(weft_device *d);
    weft_status (*arena)(weft_device *d, uint64_t bytes, int32_t want_fd, void **base, int32_t *fd);
    weft_status (*host_memory)(weft_device *d, uint64_t bytes, void **out);
    weft_status (*stream)(weft_device *d, int32_t priority, weft_stream **out);
    weft_status (*event)(weft_device *d, weft_event **out);
    weft_status (*record)(weft_event *e, weft_stream *s, uint32_t flags);
    weft_status (*stream_wait)(weft_stream *s, weft_event *e, uint32_t flags);
    weft_status (*event_query)(weft_event *e, uint32_t flags);
    weft_status (*copy)(weft_device *d, weft_stream *s, void *to, const void *from, uint64_t bytes,
                        uint32_t flags);
    weft_status (*fill)(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes,
                        uint32_t flags);
    weft_status (*prepare)(weft_device *d, const weft_opspec *spec, weft_prepared **out);
    void (*release)(weft_prepared *p);
    weft_status (*run)(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags);
    weft_status (*flag_wait)(weft_stream *s, const uint32_t *flag, uint32_t v, uint32_t flags);
    weft_status (*flag_set)(weft_stream *s, uint32_t *flag, uint32_t v, uint32_t flags);
    weft_status (*capture_begin)(weft_stream *s, uint32_t flags);
    weft_status (*capture_end)(weft_stream *s, weft_capture **out);
    weft_status (*replay)(weft_capture *c, weft_stream *s, uint32_t flags);
    void *(*native_stream)(weft_stream *s);
    weft_status (*ipc_domain)(void *module, const weft_device_args *args, char *text,
                              uint64_t *bytes);
    weft_status (*import_peer)(weft_device *d, int32_t fd, uint64_t bytes, void **base);
} weft_device_table;
WEFT_FREEZE(weft_device_table, import_peer, 224);
WEFT_EXTERN_C_END
#endif
