/* region.c: registered memory. An arena is registered once with each rail; to write into it a peer
 * needs its address and one key for each rail.
 *
 * A device's memory is registered by a dmabuf descriptor, else by a peer-memory driver, with which
 * ordinary registration finds it. Where neither exists, probe() has refused, and data is staged in
 * host memory. A failure here ends the job. */
#include "verbs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel reads the byte, so memory of a device causes no fault in this process. */
static bool host_can_read(const void *at)
{
    int ends[2];
    if (pipe(ends) != 0)
        return true;
    bool can = write(ends[1], at, 1) == 1 || errno != EFAULT;
    close(ends[0]);
    close(ends[1]);
    return can;
}

static weft_status refused(weft_link *l, const rail *r, uint64_t bytes, bool device, int why)
{
    if (device)
        return sockets_fail(l->net.host, WEFT_UNSUPPORTED,
                            "%s cannot register %llu bytes of the device's memory (%s): neither "
                            "dmabuf nor a peer-memory driver (nvidia_peermem) is available, and "
                            "without them messages have to go through host memory",
                            r->name, (unsigned long long)bytes, strerror(why));
    if (why == ENOMEM)
        return sockets_fail(
            l->net.host, WEFT_NO_MEMORY,
            "%s cannot register %llu bytes: the limit of locked memory is too "
            "low; raise it with `ulimit -l unlimited`, or in /etc/security/limits.conf",
            r->name, (unsigned long long)bytes);
    return sockets_fail(l->net.host, WEFT_IO, "%s cannot register %llu bytes: %s", r->name,
                        (unsigned long long)bytes, strerror(why));
}

/* flush.c reads a device's memory through this rank's own NIC. */
static struct ibv_mr *register_with(const rail *on, const weft_region *r, int fd)
{
    const verbs_api *api = r->link->api;
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    struct ibv_mr *mr = NULL;
    if (r->device)
        access |= IBV_ACCESS_REMOTE_READ;
    if (fd >= 0 && api->reg_dmabuf_mr)
        mr = api->reg_dmabuf_mr(on->pd, 0, r->bytes, (uintptr_t)r->base, fd, access);
    return mr ? mr : api->reg_mr(on->pd, r->base, r->bytes, access);
}

weft_status verbs_register(weft_link *l, void *base, uint64_t bytes, int32_t fd, weft_region **out)
{
    struct stat about;
    if (!base || bytes == 0)
        return sockets_fail(l->net.host, WEFT_USAGE,
                            "verbs was asked to register memory without an address or of 0 bytes");
    if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        fd = -1; /* a file of host memory, which other transports map */
    weft_region *r = l->net.host->alloc(l->net.host->ctx, sizeof *r, 0);
    if (!r)
        return sockets_fail(l->net.host, WEFT_NO_MEMORY, "no memory for a region");
    *r = (weft_region){.link = l, .next = l->regions, .base = base, .bytes = bytes};
    r->device = fd >= 0 || !host_can_read(base);
    l->regions = r;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < l->nrails; i++) {
        r->mr[i] = register_with(&l->rail[i], r, fd);
        if (!r->mr[i])
            st = refused(l, &l->rail[i], bytes, r->device, errno);
    }
    if (st == WEFT_OK && r->device)
        st = verbs_open_loopbacks(l);
    if (st != WEFT_OK) {
        verbs_deregister(r);
        return st;
    }
    *out = r;
    return WEFT_OK;
}

void verbs_deregister(weft_region *r)
{
    if (!r)
        return;
    weft_link *l = r->link;
    weft_region **at = &l->regions;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    for (uint32_t i = 0; i < l->nrails; i++)
        if (r->mr[i])
            l->api->dereg_mr(r->mr[i]);
    l->net.host->free(l->net.host->ctx, r);
}
