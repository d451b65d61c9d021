/* pair.h: a connection of ranks 0 and 1 beside those of the store, as transports make them.
 *
 * Include after ranks.h. */
#ifndef TESTS_FAULT_PAIR_H
#define TESTS_FAULT_PAIR_H

#include "loopback.h"

/* Rank 0 accepts; its address is `key` of the store. */
static inline weft_status pair_connect(job *j, uint32_t me, const char *key, int *out)
{
    struct sockaddr_in at;
    weft_status st;
    if (me == 0) {
        const int door = loopback_listen(&at);
        st = job_put(j, key, &at, sizeof at);
        *out = st != WEFT_OK ? -1 : accept4(door, NULL, NULL, SOCK_CLOEXEC);
        close(door);
    } else {
        void *value = NULL;
        uint64_t bytes;
        st = job_get(j, key, 120, &value, &bytes);
        *out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (st == WEFT_OK && (bytes != sizeof at || connect(*out, value, sizeof at)))
            abort();
        free(value);
    }
    fcntl(*out, F_SETFL, O_NONBLOCK);
    return st;
}

static inline weft_status pair_shake(const weft_host_tls *tls, weft_tls *t, int fd)
{
    weft_status st;
    uint64_t until = clock_ms() + RANKS_WAIT_MS;
    while ((st = tls->handshake(t)) == WEFT_BUSY && clock_ms() < until) {
        struct pollfd p = {.fd = fd, .events = tls->wants(t) == 2 ? POLLOUT : POLLIN};
        poll(&p, 1, 100);
    }
    return st;
}

#endif
