/* device.h: functions of the run half that plugin.c puts in the table; weft/device.h specifies
 * them. */
#ifndef CPU_DEVICE_H
#define CPU_DEVICE_H

#include "cpu.h"

weft_status cpu_open(void *module, const weft_device_args *args, weft_device **out);
void cpu_close(weft_device *d);
const char *cpu_describe(weft_device *d);
weft_status cpu_stream(weft_device *d, int32_t priority, weft_stream **out);
weft_status cpu_event(weft_device *d, weft_event **out);
weft_status cpu_record(weft_event *e, weft_stream *s, uint32_t flags);
weft_status cpu_stream_wait(weft_stream *s, weft_event *e, uint32_t flags);
weft_status cpu_event_query(weft_event *e, uint32_t flags);
weft_status cpu_copy(weft_device *d, weft_stream *s, void *to, const void *from, uint64_t bytes,
                     uint32_t flags);
weft_status cpu_fill(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes,
                     uint32_t flags);
weft_status cpu_prepare(weft_device *d, const weft_opspec *spec, weft_prepared **out);
void cpu_release(weft_prepared *p);
weft_status cpu_run(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                    void *workspace, uint32_t flags);

#endif
