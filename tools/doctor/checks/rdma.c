/* doctor/checks/rdma.c: RDMA devices, as /sys describes them. */
#include "doctor/checks/checks.h"

#include <inttypes.h>
#include <string.h>

#define IB "/sys/class/infiniband"
#define GIDS_MAX 256u

typedef struct port {
    const char *device, *number;
    char state[64], rate[64], layer[32], net[64]; /* `net`: the interface under RoCE */
    bool active, ethernet;
    uint32_t gids, v2,
        reachable; /* GIDs that are set; those of RoCE v2; those of RoCE v2 that can be routed */
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

static void read_gid(doctor *d, port *p, const char *index)
{
    char gid[64], type[32] = "", where[64] = "", text[64];
    if (!doctor_read_text(d, gid, sizeof gid, IB "/%s/ports/%s/gids/%s", p->device, p->number,
                          index) ||
        strspn(gid, "0:") == strlen(gid))
        return;
    doctor_read_text(d, type, sizeof type, IB "/%s/ports/%s/gid_attrs/types/%s", p->device,
                     p->number, index);
    doctor_read_text(d, where, sizeof where, IB "/%s/ports/%s/gid_attrs/ndevs/%s", p->device,
                     p->number, index);
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
        doctor_add_line(d, "  GID %s: %s, %s%s%s", index, text, *type ? type : "unknown type",
                        *where ? ", " : "", where);
}

static void read_port(doctor *d, port *p)
{
    doctor_read_text(d, p->state, sizeof p->state, IB "/%s/ports/%s/state", p->device, p->number);
    doctor_read_text(d, p->rate, sizeof p->rate, IB "/%s/ports/%s/rate", p->device, p->number);
    doctor_read_text(d, p->layer, sizeof p->layer, IB "/%s/ports/%s/link_layer", p->device,
                     p->number);
    p->active = strstr(p->state, "ACTIVE") && !strstr(p->state, "DEFER");
    p->ethernet = !strcmp(p->layer, "Ethernet");
    doctor_add_line(d, "%s port %s: %s, %s, %s", p->device, p->number,
                    *p->state ? p->state : "state unknown", *p->rate ? p->rate : "rate unknown",
                    *p->layer ? p->layer : "link layer unknown");
    const char *const *names = doctor_list_folder(d, IB "/%s/ports/%s/gids", p->device, p->number);
    for (uint32_t i = 0; names[i] && i < GIDS_MAX; i++)
        read_gid(d, p, names[i]);
    char name[128];
    snprintf(name, sizeof name, "%.48s.%.16s.rate", p->device, p->number);
    if (p->active)
        doctor_add_text(d, name, "%s", p->rate);
    snprintf(name, sizeof name, "%.48s.%.16s.link", p->device, p->number);
    if (p->active)
        doctor_add_text(d, name, "%s", p->layer);
}

static void assess_down(doctor *d, const port *p, bool others)
{
    doctor_add_finding(d, others ? DOCTOR_NOTE : DOCTOR_WARNING, "%s port %s is not active (%s)",
                       p->device, p->number, *p->state ? p->state : "state unknown");
    if (strstr(p->state, "INIT") || strstr(p->state, "ARMED")) {
        doctor_add_reason(d,
                          "The cable is connected, and no subnet manager has assigned an address.");
        doctor_add_command(
            d,
            "sudo systemctl start opensm  # on one machine, unless a switch runs a subnet manager");
        return;
    }
    doctor_add_reason(d, "%s",
                      others ? "Its bandwidth is lost, unless it is left unused on purpose."
                             : "No RDMA port is active, so RDMA transports cannot be used.");
    if (p->ethernet && *p->net)
        doctor_add_command(d, "sudo ip link set %s up && sudo ethtool %s | grep detected", p->net,
                           p->net);
    else
        doctor_add_command(d, "rdma link show %s/%s  # then look at cable and switch port",
                           p->device, p->number);
}

static void assess_gids(doctor *d, const port *p)
{
    if (!p->ethernet || p->reachable)
        return;
    doctor_add_finding(d, p->v2 ? DOCTOR_NOTE : DOCTOR_WARNING,
                       "%s port %s has no GID of RoCE v2%s", p->device, p->number,
                       p->v2 ? " but a link-local one" : "");
    doctor_add_reason(
        d, "A RoCE v2 GID comes from an IP address of the interface. %s",
        p->v2 ? "A link-local one works only between machines on one switch."
              : "Without one the device uses RoCE v1, which cannot be routed, or nothing.");
    doctor_add_command(d, "sudo ip addr add ADDRESS/24 dev %s && sudo ip link set %s up",
                       *p->net ? p->net : "INTERFACE", *p->net ? p->net : "INTERFACE");
}

/* Programs reach a device through /dev/infiniband/uverbsN. */
static void assess_access(doctor *d)
{
    if (*doctor_list_folder(d, "/dev/infiniband"))
        return;
    doctor_add_finding(d, DOCTOR_WARNING, "there are RDMA devices, and /dev/infiniband is empty");
    doctor_add_reason(d, "No program can open them: a kernel module is not loaded, or this "
                         "container has no access to the devices.");
    doctor_add_command(
        d, "sudo modprobe ib_uverbs  # in a container: docker run --device=/dev/infiniband "
           "--ulimit memlock=-1 ...");
}

void doctor_check_rdma(doctor *d)
{
    enum { LIMIT = 64 };
    port all[LIMIT];
    uint32_t n = 0, active = 0;
    const char *const *devices = doctor_list_folder(d, IB);
    for (; *devices; devices++) {
        const char *const *ports = doctor_list_folder(d, IB "/%s/ports", *devices);
        for (; *ports && n < LIMIT; ports++) {
            all[n] = (port){.device = *devices, .number = *ports};
            read_port(d, &all[n]);
            active += all[n++].active;
        }
    }
    doctor_add_number(d, "ports", n);
    doctor_add_number(d, "active", active);
    if (!n) {
        doctor_add_line(d, "no device");
        if (!doctor_path_exists(d, "/sys/class"))
            doctor_set_unknown(d);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        if (all[i].active)
            assess_gids(d, &all[i]);
        else
            assess_down(d, &all[i], active > 0);
    assess_access(d);
}
