/* Any bytes as a message of weft/handshake.h: refused, or read, and written again the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#include <weft/handshake.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char magic[] = "wftH";
    uint8_t *in = malloc(WEFT_HANDSHAKE_BYTES), out[WEFT_HANDSHAKE_BYTES];
    weft_handshake h = {0, 0, 0, 0}, again = {0, 0, 0, 0};
    must(in != NULL); /* of its own, so that a sanitizer sees a byte behind it */
    memset(in, 0, WEFT_HANDSHAKE_BYTES);
    memcpy(in, data, bytes < WEFT_HANDSHAKE_BYTES ? bytes : WEFT_HANDSHAKE_BYTES);
    const weft_status st = weft_handshake_read(in, magic, &h);
    must((st == WEFT_OK) == !memcmp(in, magic, 4));
    if (st == WEFT_OK) {
        weft_handshake_write(out, magic, &h);
        must(weft_handshake_read(out, magic, &again) == WEFT_OK);
        must(!memcmp(&h, &again, sizeof h));
        must(!memcmp(in, out, 5) && !memcmp(in + 8, out + 8, 12));
        if (weft_handshake_expected(&h, h.peer, UINT32_MAX))
            must(h.rank > h.peer);
    }
    free(in);
    return 0;
}
