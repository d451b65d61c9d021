/* network.c: networks whose full speed only MPI reaches, of all transports here.
 *
 * The kernel lists their adapters in /sys/class. `tcp` works on them too, slowly; `verbs` does not,
 * because they have no reliable connected queue pairs. InfiniBand and RoCE are not in this list:
 * `verbs` uses them. Whether the MPI library was built for the network is not known before it is
 * initialized. */
#include "parts.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* An adapter is an entry of `folder`, with a device whose driver is `driver`, where that is set. */
static const struct network {
    const char *name, *folder, *driver;
} networks[] = {
    {"HPE Slingshot", "/sys/class/cxi", NULL},
    {"Cray Aries", "/sys/class/gni", NULL},
    {"AWS EFA", "/sys/class/infiniband", "efa"},
    {"Cisco usNIC", "/sys/class/infiniband", "usnic_verbs"},
};

static bool has_driver(const char *folder, const char *device, const char *driver)
{
    char path[PATH_MAX], to[PATH_MAX];
    if (!driver)
        return true;
    snprintf(path, sizeof path, "%s/%.200s/device/driver", folder, device);
    const ssize_t n = readlink(path, to, sizeof to - 1);
    if (n <= 0)
        return false;
    to[n] = 0;
    const char *last = strrchr(to, '/');
    return !strcmp(last ? last + 1 : to, driver);
}

static bool is_there(const char *root, const struct network *n)
{
    char folder[2048];
    bool found = false;
    snprintf(folder, sizeof folder, "%.1000s%s", root, n->folder);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = e->d_name[0] != '.' && has_driver(folder, e->d_name, n->driver);
    if (d)
        closedir(d);
    return found;
}

const char *mpi_network(const char *root)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        if (is_there(root, &networks[i]))
            return networks[i].name;
    return NULL;
}
