/* device.h: the run half, as plugin.c puts it in the table (weft/device.h says what each does). */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include "gpu.h"

/* device.c */
weft_status gpu_probe(void *module, const weft_conf *conf, int32_t *score);
weft_status gpu_open(void *module, const weft_device_args *args, weft_device **out);
void gpu_close(weft_device *d);
const char *gpu_describe(weft_device *d);

/* memory.c */
weft_status gpu_arena(weft_device *d, uint64_t bytes, int32_t want_fd, void **base, int32_t *fd);
weft_status gpu_host_memory(weft_device *d, uint64_t bytes, void **out);
weft_status gpu_ipc_domain(void *module, const weft_device_args *args, char *text, uint64_t *bytes);
weft_status gpu_import_peer(weft_device *d, int32_t fd, uint64_t bytes, void **base);

/* stream.c */
weft_status gpu_stream(weft_device *d, int32_t priority, weft_stream **out);
weft_status gpu_event(weft_device *d, weft_event **out);
weft_status gpu_record(weft_event *e, weft_stream *s, uint32_t flags);
weft_status gpu_stream_wait(weft_stream *s, weft_event *e, uint32_t flags);
weft_status gpu_event_query(weft_event *e, uint32_t flags);
weft_status gpu_copy(weft_device *d, weft_stream *s, void *to, const void *from, uint64_t bytes,
                     uint32_t flags);
weft_status gpu_fill(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes,
                     uint32_t flags);
weft_status gpu_flag_wait(weft_stream *s, const uint32_t *flag, uint32_t v, uint32_t flags);
weft_status gpu_flag_set(weft_stream *s, uint32_t *flag, uint32_t v, uint32_t flags);
weft_status gpu_capture_begin(weft_stream *s, uint32_t flags);
weft_status gpu_capture_end(weft_stream *s, weft_capture **out);
weft_status gpu_replay(weft_capture *c, weft_stream *s, uint32_t flags);
void *gpu_native_stream(weft_stream *s);
void gpu_free_streams(weft_device *d);

/* joined.c */
const char *gpu_fuse(void *module, const weft_conf *conf, const char *const *ids,
                     const uint32_t *joins, uint32_t n);

/* ops.c */
weft_status gpu_prepare(weft_device *d, const weft_opspec *spec, weft_prepared **out);
void gpu_release(weft_prepared *p);
weft_status gpu_run(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                    void *workspace, uint32_t flags);

#endif
