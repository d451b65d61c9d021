/* Any bytes as a heartbeat (job/beats/frame.h): refused, or read, and packed again into the same
 * bytes. The first byte chooses the direction. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job/beats/frame.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (!bytes)
        return 0;
    uint8_t *in = malloc(bytes), *out = malloc(bytes + BEAT_DOWN_BYTES);
    must(in && out);
    memcpy(in, data + 1, bytes - 1);
    const job_wire_frame f = {.bytes = (uint32_t)bytes - 1, .type = WIRE_BEAT, .body = in};
    job_beat_root root;
    job_beat_mark mark;
    uint32_t n;
    if (data[0] & 1) {
        if (job_beat_unpack_down(&f, &root)) {
            job_beat_pack_down(&root, out);
            must(bytes - 1 == BEAT_DOWN_BYTES && !memcmp(in, out, BEAT_DOWN_BYTES));
        }
    } else if (job_beat_unpack_up(&f, &mark, &n)) {
        must(n <= BEAT_ENTRIES_MAX && BEAT_UP_BYTES + n * BEAT_ENTRY_BYTES == bytes - 1);
        job_beat_pack_mark(&mark, out);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t rank = job_beat_entry(&f, i, &mark);
            job_beat_pack_entry(rank, &mark, out + BEAT_UP_BYTES + i * BEAT_ENTRY_BYTES);
        }
        must(!memcmp(in, out, bytes - 1));
    }
    free(in);
    free(out);
    return 0;
}
