/* schedule/form.c: see form.h. */
#include "schedule/form.h"

uint64_t sched_code_bytes(uint32_t form, uint64_t count)
{
    uint64_t blocks = count / SCHED_CODE_BLOCK + (count % SCHED_CODE_BLOCK != 0);
    return form == SCHED_TO_INT8 ? count + 4 * blocks : 2 * count;
}

const char *sched_form_name(uint32_t form)
{
    static const char *const names[] = {"none", "fp16", "bf16", "int8"};
    return form <= SCHED_TO_INT8 ? names[form] : "unknown";
}

uint64_t sched_code_touched(const sched_request *r, const sched_step *s, uint32_t nth)
{
    const uint32_t what = s->what, to = nth < s->nfrom ? 0 : nth - s->nfrom + 1;
    if (what < SCHED_ENCODE || what > SCHED_DECODE)
        return s->bytes;
    const uint64_t count = s->bytes / weft_dtype_size(r->dtype);
    const int coded = to ? to == 1 && (what == SCHED_ENCODE || what == SCHED_REDUCE_ENCODE)
                         : what == SCHED_DECODE || (what != SCHED_ENCODE && nth != s->peer);
    const int kept = to == (what == SCHED_ENCODE ? 2 : 3);
    return kept ? 4 * count : coded ? sched_code_bytes(r->compress, count) : s->bytes;
}
