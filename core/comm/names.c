/* comm/names.c: the address that this rank listens on, the job's id, and digests. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "comm/connect.h"

/* The address of the interface that leads to rank 0's store: a datagram socket that is connected,
 * and sends nothing, has it. */
static int address_towards(const char *name, uint16_t port, char *out, size_t room)
{
    char service[8];
    snprintf(service, sizeof service, "%u", port ? port : 9u);
    struct addrinfo hint = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
    if (getaddrinfo(name, service, &hint, &list) != 0)
        return 0;
    int found = 0;
    for (struct addrinfo *a = list; a && !found; a = a->ai_next) {
        struct sockaddr_storage local;
        socklen_t n = sizeof local;
        int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        found = connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
                getsockname(fd, (struct sockaddr *)&local, &n) == 0 &&
                getnameinfo((struct sockaddr *)&local, n, out, (socklen_t)room, NULL, 0,
                            NI_NUMERICHOST) == 0;
        close(fd);
    }
    freeaddrinfo(list);
    return found;
}

weft_status connect_names(comm_world *w, char *address, size_t room, char id[65])
{
    const job_identity *who = &w->who;
    uint8_t key[32] = {0};
    snprintf(address, room, "127.0.0.1");
    if (who->ranks > 1 && who->local_ranks < who->ranks &&
        !address_towards(who->addr, who->port, address, room))
        return fail(WEFT_IO, "no local address leads to MASTER_ADDR %s; is the name right?",
                    who->addr);
    if (w->job) {
        weft_status st = job_subkey(w->job, "comm job id", key);
        if (st != WEFT_OK)
            return st;
    }
    for (uint32_t i = 0; i < sizeof key; i++)
        snprintf(id + 2 * i, 3, "%02x", key[i]);
    return WEFT_OK;
}

void connect_digest(uint64_t *digest, const void *bytes, uint64_t n)
{
    const unsigned char *p = bytes;
    uint64_t h = *digest ? *digest : 0xcbf29ce484222325u;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    *digest = h;
}

/* Sends and receives concern two ranks of the group and tell each other nothing here: the link
 * compares their lengths. */
void connect_digest_op(comm_channel *c, const comm_request *r)
{
    if (r->kind == WEFT_SEND || r->kind == WEFT_RECV)
        return;
    uint64_t all[] = {r->kind, r->redop, r->dtype, r->count, r->root, r->chunk};
    connect_digest(&c->what, all, sizeof all);
    connect_digest(&c->what, r->algorithm, strlen(r->algorithm));
}
