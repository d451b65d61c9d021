/* sdpa.h: attention by cuDNN. */
#ifndef GPU_SDPA_H
#define GPU_SDPA_H

#include "gpu.h"

/* Bytes of workspace at most; 0 for sizes that it does not serve. [plan] */
uint64_t gpu_sdpa_workspace(const struct gpu_sizes *z, bool backward, bool deterministic);

/* Set p->extra. WEFT_UNSUPPORTED where cuDNN does not serve the op and a kernel of ours may.
 * [setup]
 */
weft_status gpu_sdpa_ready(weft_prepared *p, const weft_opspec *spec, bool backward);
void gpu_sdpa_drop(const weft_device *d, void *ready); /* NULL is allowed */
weft_status gpu_sdpa_run(const weft_prepared *p, weft_stream *s, bool backward,
                         const struct gpu_job *j);

#endif
