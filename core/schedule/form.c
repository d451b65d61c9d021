/* schedule/form.c: see form.h. */
#include "schedule/form.h"

uint64_t code_bytes(uint32_t form, uint64_t count)
{
    uint64_t blocks = count / CODE_BLOCK + (count % CODE_BLOCK != 0);
    return form == COMM_TO_INT8 ? count + 4 * blocks : 2 * count;
}

const char *comm_form_name(uint32_t form)
{
    static const char *const names[] = {"none", "fp16", "bf16", "int8"};
    return form <= COMM_TO_INT8 ? names[form] : "unknown";
}

uint64_t code_touched(const comm_request *r, const comm_step *s, uint32_t nth)
{
    const uint32_t what = s->what, to = nth < s->nfrom ? 0 : nth - s->nfrom + 1;
    if (what < COMM_ENCODE || what > COMM_DECODE)
        return s->bytes;
    const uint64_t count = s->bytes / weft_dtype_size(r->dtype);
    const int coded = to ? to == 1 && (what == COMM_ENCODE || what == COMM_FOLD)
                         : what == COMM_DECODE || (what != COMM_ENCODE && nth != s->peer);
    const int kept = to == (what == COMM_ENCODE ? 2 : 3);
    return kept ? 4 * count : coded ? code_bytes(r->compress, count) : s->bytes;
}
