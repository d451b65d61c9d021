/* doctor/checks/rdma.c: RDMA devices, from /sys alone. */
#include "doctor/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define IB "/sys/class/infiniband"
#define GIDS_MAX 256u

typedef struct port {
    const char *device, *number;
    char state[64], rate[64], layer[32], net[64]; /* `net`: the interface under RoCE */
    bool active, ethernet;
    uint32_t gids, v2, reachable; /* set; of RoCE v2; of those with an address that routes */
} port;

/* "0000:0000:0000:0000:0000:ffff:0a00:0001" as "10.0.0.1", others as they are. */
static void gid_text(const char *gid, char out[64])
{
    unsigned g[8];
    snprintf(out, 64, "%.60s", gid);
    if (sscanf(gid, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x", &g[0], &g[1], &g[2], &g[3], &g[4], &g[5],
               &g[6], &g[7]) == 8 &&
        !(g[0] | g[1] | g[2] | g[3] | g[4]) && g[5] == 0xffff)
        snprintf(out, 64, "%u.%u.%u.%u", g[6] >> 8, g[6] & 255, g[7] >> 8, g[7] & 255);
}

static void look_at_gid(doctor *d, port *p, const char *index)
{
    char gid[64], type[32] = "", where[64] = "", text[64];
    if (!see_text(d, gid, sizeof gid, IB "/%s/ports/%s/gids/%s", p->device, p->number, index) ||
        strspn(gid, "0:") == strlen(gid))
        return;
    see_text(d, type, sizeof type, IB "/%s/ports/%s/gid_attrs/types/%s", p->device, p->number,
             index);
    see_text(d, where, sizeof where, IB "/%s/ports/%s/gid_attrs/ndevs/%s", p->device, p->number,
             index);
    if (*where)
        snprintf(p->net, sizeof p->net, "%s", where);
    const bool v2 = !strcmp(type, "RoCE v2"), local = !strncmp(gid, "fe80", 4);
    p->gids++;
    p->v2 += v2;
    p->reachable += v2 && !local;
    if (!p->ethernet)
        snprintf(type, sizeof type, "InfiniBand");
    gid_text(gid, text);
    if (p->gids <= 8)
        tell_line(d, "  GID %s: %s, %s%s%s", index, text, *type ? type : "unknown type",
                  *where ? ", " : "", where);
}

static void look_at_port(doctor *d, port *p)
{
    see_text(d, p->state, sizeof p->state, IB "/%s/ports/%s/state", p->device, p->number);
    see_text(d, p->rate, sizeof p->rate, IB "/%s/ports/%s/rate", p->device, p->number);
    see_text(d, p->layer, sizeof p->layer, IB "/%s/ports/%s/link_layer", p->device, p->number);
    p->active = strstr(p->state, "ACTIVE") != NULL && !strstr(p->state, "DEFER");
    p->ethernet = !strcmp(p->layer, "Ethernet");
    tell_line(d, "%s port %s: %s, %s, %s", p->device, p->number,
              *p->state ? p->state : "state unknown", *p->rate ? p->rate : "rate unknown",
              *p->layer ? p->layer : "link layer unknown");
    const char *const *names = see_names(d, IB "/%s/ports/%s/gids", p->device, p->number);
    for (uint32_t i = 0; names[i] && i < GIDS_MAX; i++)
        look_at_gid(d, p, names[i]);
    char name[128];
    snprintf(name, sizeof name, "%.48s.%.16s.rate", p->device, p->number);
    if (p->active)
        tell_fact(d, name, "%s", p->rate);
    snprintf(name, sizeof name, "%.48s.%.16s.link", p->device, p->number);
    if (p->active)
        tell_fact(d, name, "%s", p->layer);
}

static void judge_down(doctor *d, const port *p, bool others)
{
    tell(d, others ? DOCTOR_NOTE : DOCTOR_WARNING, "%s port %s is not active (%s)", p->device,
         p->number, *p->state ? p->state : "state unknown");
    if (strstr(p->state, "INIT") || strstr(p->state, "ARMED")) {
        tell_why(d, "The cable is there, and no subnet manager has given it an address.");
        tell_type(d, "sudo systemctl start opensm  # on one machine, unless a switch does it");
        return;
    }
    tell_why(d, "%s",
             others ? "Its bandwidth is missing, unless it is meant to be unused."
                    : "No RDMA port is active: transports that need one cannot be used.");
    if (p->ethernet && *p->net)
        tell_type(d, "sudo ip link set %s up && sudo ethtool %s | grep detected", p->net, p->net);
    else
        tell_type(d, "rdma link show %s/%s  # then look at cable and switch port", p->device,
                  p->number);
}

static void judge_gids(doctor *d, const port *p)
{
    if (!p->ethernet || p->reachable)
        return;
    tell(d, p->v2 ? DOCTOR_NOTE : DOCTOR_WARNING, "%s port %s has no GID of RoCE v2%s", p->device,
         p->number, p->v2 ? " but a link-local one" : "");
    tell_why(d, "A RoCE v2 GID stands for an IP address of its interface. %s",
             p->v2 ? "A link-local one works between machines of one switch and no further."
                   : "Without, packets are RoCE v1, which no router passes, or there are none.");
    tell_type(d, "sudo ip addr add ADDRESS/24 dev %s && sudo ip link set %s up",
              *p->net ? p->net : "INTERFACE", *p->net ? p->net : "INTERFACE");
}

/* Programs reach a device through /dev/infiniband/uverbsN. */
static void judge_access(doctor *d)
{
    if (*see_names(d, "/dev/infiniband"))
        return;
    tell(d, DOCTOR_WARNING, "there are RDMA devices, and nothing in /dev/infiniband");
    tell_why(d, "No program can open them: a module is not loaded, or this is a container that was "
                "not given the devices.");
    tell_type(d, "sudo modprobe ib_uverbs  # in a container: docker run --device=/dev/infiniband "
                 "--ulimit memlock=-1 ...");
}

void check_rdma(doctor *d)
{
    enum { MOST = 64 };
    port all[MOST];
    uint32_t n = 0, active = 0;
    const char *const *devices = see_names(d, IB);
    for (; *devices; devices++) {
        const char *const *ports = see_names(d, IB "/%s/ports", *devices);
        for (; *ports && n < MOST; ports++) {
            all[n] = (port){.device = *devices, .number = *ports};
            look_at_port(d, &all[n]);
            active += all[n++].active;
        }
    }
    tell_number(d, "ports", n);
    tell_number(d, "active", active);
    if (!n) {
        tell_line(d, "no device");
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        if (all[i].active)
            judge_gids(d, &all[i]);
        else
            judge_down(d, &all[i], active > 0);
    judge_access(d);
}
