/* doctor/checks/topology.c: packages, NUMA nodes, caches, and the location of network interfaces
 * and GPUs, found with hwloc. */
#include "doctor/checks/checks.h"

#include <hwloc.h>
#include <stdlib.h>

#define DEVICES_MAX 64u
#define NVIDIA 0x10deu
#define AMD 0x1002u
#define GPU_PARTS "-cuda,-nvml,-opencl,-rsmi,-gl,-levelzero" /* of hwloc */

typedef struct device {
    hwloc_obj_t at;
    char name[64];
} device;
typedef struct devices {
    uint32_t n;
    device at[DEVICES_MAX];
} devices;

static weft_status load(const doctor *d, hwloc_topology_t *out)
{
    /* GPU libraries have a check of their own; a copied tree contains everything. */
    setenv("HWLOC_COMPONENTS", *d->root ? GPU_PARTS ",-x86,-pci" : GPU_PARTS, 1);
    setenv("HWLOC_HIDE_ERRORS", "2", 1);
    if (*d->root)
        setenv("HWLOC_FSROOT", d->root, 1);
    if (hwloc_topology_init(out))
        return WEFT_IO;
    hwloc_topology_set_io_types_filter(*out, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_set_flags(*out, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    return hwloc_topology_load(*out) ? WEFT_IO : WEFT_OK;
}

static int count(hwloc_topology_t t, hwloc_obj_type_t type)
{
    int n = hwloc_get_nbobjs_by_type(t, type);
    return n > 0 ? n : 0;
}

static uint64_t cache(hwloc_topology_t t, hwloc_obj_type_t type)
{
    hwloc_obj_t o = hwloc_get_obj_by_type(t, type, 0);
    return o ? o->attr->cache.size : 0;
}

static void report_processors(doctor *d, hwloc_topology_t t)
{
    int packages = count(t, HWLOC_OBJ_PACKAGE), cores = count(t, HWLOC_OBJ_CORE),
        cpus = count(t, HWLOC_OBJ_PU), l3 = count(t, HWLOC_OBJ_L3CACHE);
    char shared[64] = "";
    if (l3)
        snprintf(shared, sizeof shared, ", L3 %s for each %d cores",
                 mem_size(cache(t, HWLOC_OBJ_L3CACHE)).text, cores / l3);
    doctor_add_line(d, "%d package%s, %d cores, %d CPUs; L1 %s, L2 %s%s", packages,
                    packages == 1 ? "" : "s", cores, cpus,
                    mem_size(cache(t, HWLOC_OBJ_L1CACHE)).text,
                    mem_size(cache(t, HWLOC_OBJ_L2CACHE)).text, shared);
    doctor_add_number(d, "packages", packages);
    doctor_add_number(d, "cores", cores);
    doctor_add_number(d, "cpus", cpus);
    doctor_add_number(d, "nodes", count(t, HWLOC_OBJ_NUMANODE));
}

static void report_numa_nodes(doctor *d, hwloc_topology_t t)
{
    int n = count(t, HWLOC_OBJ_NUMANODE), empty = 0, full = 0;
    unsigned which = 0;
    for (int i = 0; i < n; i++) {
        hwloc_obj_t o = hwloc_get_obj_by_type(t, HWLOC_OBJ_NUMANODE, (unsigned)i);
        uint64_t bytes = o->attr->numanode.local_memory;
        char cpus[128];
        hwloc_bitmap_list_snprintf(cpus, sizeof cpus, o->cpuset);
        doctor_add_line(d, "node %u: CPUs %s, %s", o->os_index, *cpus ? cpus : "none",
                        mem_size(bytes).text);
        full += bytes > 0;
        if (!bytes && *cpus) {
            empty++;
            which = o->os_index;
        }
    }
    if (empty && full) {
        doctor_add_finding(d, DOCTOR_WARNING, "NUMA node %u has CPUs and no memory", which);
        doctor_add_reason(d, "Its CPUs read all memory from another node: memory modules are in "
                             "the wrong slots, or have failed.");
        doctor_add_command(d, "sudo dmidecode -t memory | grep -E 'Locator|Size'");
    }
    int64_t balancing = 0;
    if (n > 1 && doctor_read_number(d, &balancing, "/proc/sys/kernel/numa_balancing") &&
        balancing) {
        doctor_add_finding(d, DOCTOR_NOTE, "automatic NUMA balancing is enabled");
        doctor_add_reason(d, "The kernel unmaps pages to sample who uses them. Ranks are pinned "
                             "and allocate memory by first touch, so balancing only costs time.");
        doctor_add_command(d, "sudo sysctl kernel.numa_balancing=0");
    }
}

/* --- devices --- */

static void add(devices *l, hwloc_obj_t o, const char *name)
{
    if (l->n == DEVICES_MAX)
        return;
    l->at[l->n].at = o;
    snprintf(l->at[l->n++].name, sizeof l->at[0].name, "%s", name ? name : "unnamed");
}

static void find_devices(hwloc_topology_t t, devices *nics, devices *gpus)
{
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(t, o));)
        if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK ||
            o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
            add(nics, o, o->name);
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(t, o));) {
        const struct hwloc_pcidev_attr_s *p = &o->attr->pcidev;
        unsigned kind = p->class_id >> 8;
        char name[64];
        if ((p->vendor_id != NVIDIA && p->vendor_id != AMD) || (kind != 0x03 && kind != 0x12))
            continue;
        snprintf(name, sizeof name, "GPU %04x:%02x:%02x.%x", p->domain, p->bus, p->dev, p->func);
        add(gpus, o, name);
    }
}

/* The one NUMA node that the device is at; -1: none, or several. */
static int node_of(hwloc_topology_t t, hwloc_obj_t o)
{
    hwloc_obj_t above = hwloc_get_non_io_ancestor_obj(t, o);
    hwloc_const_bitmap_t set = above ? above->nodeset : NULL;
    return set && hwloc_bitmap_weight(set) == 1 ? hwloc_bitmap_first(set) : -1;
}

static void node_text(hwloc_topology_t t, hwloc_obj_t o, char out[32])
{
    int node = node_of(t, o);
    if (node >= 0)
        snprintf(out, 32, "node %d", node);
    else
        snprintf(out, 32, "no node of its own");
}

/* hwloc's own function for this does not support devices. */
static hwloc_obj_t common_ancestor(hwloc_obj_t a, hwloc_obj_t b)
{
    for (hwloc_obj_t up = a; up; up = up->parent)
        for (hwloc_obj_t other = b; other; other = other->parent)
            if (up == other)
                return up;
    return NULL;
}

/* 0 is nearest. */
static uint32_t distance(hwloc_topology_t t, hwloc_obj_t a, hwloc_obj_t b)
{
    hwloc_obj_t both = common_ancestor(a, b);
    if (!both)
        return 3;
    if (both->type == HWLOC_OBJ_BRIDGE || both->type == HWLOC_OBJ_PCI_DEVICE)
        return both->type == HWLOC_OBJ_BRIDGE &&
               both->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
    return node_of(t, a) == node_of(t, b) ? 2 : 3;
}

static void report_distances(doctor *d, hwloc_topology_t t, const devices *nics,
                             const devices *gpus)
{
    static const char *const how[] = {"under the same PCIe switch", "at the same root port",
                                      "at the same NUMA node", "at another NUMA node"};
    for (uint32_t g = 0; nics->n && g < gpus->n; g++) {
        uint32_t best = 0, far = 3;
        for (uint32_t i = 0; i < nics->n; i++) {
            uint32_t x = distance(t, gpus->at[g].at, nics->at[i].at);
            best = x < far ? i : best;
            far = x < far ? x : far;
        }
        doctor_add_line(d, "%s: nearest is %s, %s", gpus->at[g].name, nics->at[best].name,
                        how[far]);
        if (far < 3)
            continue;
        doctor_add_finding(d, DOCTOR_NOTE, "%s has no network interface at its NUMA node",
                           gpus->at[g].name);
        doctor_add_reason(d, "Its traffic to other machines crosses the link between processors, "
                             "which is shared and slower.");
        doctor_add_command(d, "lstopo  # then move the card to a slot of the other processor");
    }
}

void doctor_check_topology(doctor *d)
{
    hwloc_topology_t t;
    devices nics = {0}, gpus = {0};
    if (load(d, &t) != WEFT_OK || !count(t, HWLOC_OBJ_CORE)) {
        doctor_add_unknown(d, "hwloc finds no cores below %s/sys", d->root);
        return;
    }
    report_processors(d, t);
    report_numa_nodes(d, t);
    find_devices(t, &nics, &gpus);
    for (uint32_t i = 0; i < nics.n; i++) {
        char node[32];
        node_text(t, nics.at[i].at, node);
        doctor_add_line(d, "%s: at %s", nics.at[i].name, node);
    }
    report_distances(d, t, &nics, &gpus);
    hwloc_topology_destroy(t);
}
