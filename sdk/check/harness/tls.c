/* check/harness/tls.c: "weft.host.tls/1" of a check: the job's own TLS, with a key that the check
 * chooses. Hosts of one key accept each other; those of two keys do not. */
#include "job/wire/tls.h"
#include "base/err.h"
#include "base/number/digest.h"
#include "check/harness/harness.h"

#include <string.h>

static job_tls_context *context; /* of this process; forked processes have a copy */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* 32 bytes that depend on the key and on the label. */
static void derive(const check_host *h, const char *label, uint8_t out[32])
{
    uint64_t state = h->key;
    digest_mix(&state, label, strlen(label));
    for (size_t i = 0; i < 4; i++) {
        const uint64_t x = check_random(&state);
        memcpy(out + 8 * i, &x, sizeof x);
    }
}

static weft_status start(void *ctx, int32_t fd, int32_t server, const char *label, weft_tls **out)
{
    uint8_t psk[32];
    pthread_mutex_lock(&lock);
    weft_status st = context ? WEFT_OK : job_tls_context_open(&context);
    pthread_mutex_unlock(&lock);
    if (!label)
        return err_fail(WEFT_USAGE, "start() of weft.host.tls/1 was called without a label");
    derive(ctx, label, psk);
    return st == WEFT_OK ? job_tls_start(context, fd, server != 0, psk, out) : st;
}

void check_host_tls(check_host *h, uint64_t key)
{
    h->key = key;
    h->tls = (weft_host_tls){.struct_size = sizeof h->tls,
                             .ctx = h,
                             .start = start,
                             .handshake = job_tls_handshake,
                             .wants = job_tls_wants,
                             .read = job_tls_read,
                             .write = job_tls_write,
                             .end = job_tls_end};
}
