/* comm.h: communicators, as specified in weft/coll.h. */
#ifndef NCCL_COMM_H
#define NCCL_COMM_H

#include "library.h"

weft_status comm_id(void *module, const weft_conf *conf, void *out, uint64_t *bytes);
weft_status comm_open(void *module, const weft_coll_args *args, weft_comm **out);
weft_status comm_ready(weft_comm *c);
void comm_close(weft_comm *c);
weft_status comm_register(weft_comm *c, void *base, uint64_t bytes, uint32_t flags);
weft_status comm_begin(void *module, uint32_t flags);
weft_status comm_end(void *module, uint32_t flags);
weft_status comm_call(weft_comm *c, const weft_coll_call *call);
weft_status comm_health(weft_comm *c);
void comm_abort(weft_comm *c);

#endif
