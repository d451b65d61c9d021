/* schedule/able.c: which requests an algorithm supports, over which links. */
#include "schedule/algorithm.h"
#include "schedule/request.h"

#define LINE 64u /* bytes: devices take whole lines */

int sched_device_reads_peers(const sched_request *r, const sched_algorithm *a)
{
    return r->staged && a->maps;
}

int sched_device_reduce_able(const sched_request *r)
{
    const bool is_float = r->dtype == WEFT_F32 || r->dtype == WEFT_BF16 || r->dtype == WEFT_F16;
    uint64_t part = r->count / r->ranks * weft_dtype_size(r->dtype);
    return !sched_reduces(r->kind) || (is_float && r->ranks <= WEFT_MAX_OPERANDS &&
                                       (r->kind != WEFT_REDUCE_SCATTER || part % LINE == 0));
}

int sched_sum_rounds(const sched_request *r)
{
    return sched_reduces(r->kind) && r->redop == WEFT_SUM &&
           (r->dtype == WEFT_BF16 || r->dtype == WEFT_F16);
}

int sched_link_maps(uint64_t link_caps)
{
    return (link_caps & WEFT_LINK_MAP) && !(link_caps & WEFT_LINK_REGISTER);
}

uint64_t sched_pair_caps(uint64_t intra, uint64_t inter)
{
    const uint64_t both = WEFT_LINK_HOST | WEFT_LINK_CUDA;
    const uint64_t either = WEFT_LINK_REGISTER | WEFT_LINK_FD_CUDA | WEFT_LINK_FD_DMABUF;
    return (intra & inter & both) | ((intra | inter) & either);
}

bool sched_able(const sched_algorithm *a, const sched_request *r)
{
    if (!(a->kinds & SCHED_ON(r->kind)) || (a->maps && !sched_link_maps(r->link_caps)))
        return false;
    if (r->kind == WEFT_SHIFT && r->in_place)
        return false; /* arriving data would overwrite data not sent yet */
    if (sched_device_reads_peers(r, a) && !sched_device_reduce_able(r))
        return false;
    return !(a->maps && r->kind == WEFT_ALL_TO_ALL && r->in_place);
}
