/* doctor/checks/gpu.c: GPUs, their driver, and the libraries that jobs on them load. */
#include "doctor/internal.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PCI "/sys/bus/pci/devices"
#define DRIVER "/proc/driver/nvidia/version"

/* A display or accelerator of the one maker whose libraries are looked for below. */
static bool is_gpu(const doctor *d, const char *device)
{
    char vendor[32], class[32];
    return see_text(d, vendor, sizeof vendor, PCI "/%s/vendor", device) &&
           !strcmp(vendor, "0x10de") && see_text(d, class, sizeof class, PCI "/%s/class", device) &&
           !strncmp(class, "0x03", 4);
}

static void look_at_gpu(doctor *d, const char *device)
{
    char path[160], model[128] = "a GPU";
    int64_t lanes = 0, most = 0, node = -1;
    snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%.100s/information", device);
    see_line(d, path, "Model", model, sizeof model);
    see_number(d, &lanes, PCI "/%s/current_link_width", device);
    see_number(d, &most, PCI "/%s/max_link_width", device);
    see_number(d, &node, PCI "/%s/numa_node", device);
    tell_line(d, "%s: %s, %" PRId64 " PCIe lanes", device, model, lanes);
    if (lanes > 0 && lanes < most && most <= 32) {
        tell(d, DOCTOR_NOTE, "GPU %s has %" PRId64 " of its %" PRId64 " PCIe lanes", device, lanes,
             most);
        tell_why(d, "Copies from and to it are that much slower: the slot is narrow, or the card "
                    "does not sit well in it.");
        tell_type(d, "sudo lspci -vv -s %s | grep Lnk", device);
    }
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  ...": the first word with a digit in
 * front and a dot. */
static bool driver_version(const doctor *d, char *out, size_t size)
{
    char text[512], *rest;
    if (!see_line(d, DRIVER, "NVRM version", text, sizeof text))
        return false;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (*word >= '0' && *word <= '9' && strchr(word, '.')) {
            snprintf(out, size, "%s", word);
            return true;
        }
    return false;
}

static void judge_driver(doctor *d, uint32_t gpus, bool driver)
{
    if (gpus && !driver) {
        tell(d, DOCTOR_WARNING, "there are GPUs (%u) and no driver is loaded", gpus);
        tell_why(d, "Nothing can run on them.");
        tell_type(d, "sudo modprobe nvidia  # or install the driver of your distribution first");
    } else if (gpus && !see_path(d, "/dev/nvidiactl")) {
        tell(d, DOCTOR_WARNING, "there are GPUs (%u) that this process cannot open", gpus);
        tell_why(d, "/dev/nvidiactl is not here: this is a container that was not given them.");
        tell_type(d, "docker run --gpus all ...");
    }
    if (gpus && driver && *see_names(d, "/sys/class/infiniband") &&
        !see_path(d, "/sys/module/nvidia_peermem")) {
        tell(d, DOCTOR_NOTE, "the module nvidia_peermem is not loaded");
        tell_why(d, "RDMA devices then reach GPU memory only where driver and kernel both have "
                    "dmabuf; else each message is copied through the host.");
        tell_type(d, "sudo modprobe nvidia_peermem");
    }
}

void check_gpus(doctor *d)
{
    uint32_t n = 0;
    char version[64] = "";
    for (const char *const *device = see_names(d, PCI); *device; device++)
        if (is_gpu(d, *device)) {
            n++;
            look_at_gpu(d, *device);
        }
    bool driver = driver_version(d, version, sizeof version);
    tell_number(d, "gpus", n);
    if (driver) {
        tell_line(d, "driver %s", version);
        tell_fact(d, "driver", "%s", version);
    } else if (!n) {
        tell_line(d, "none");
    }
    judge_driver(d, n, driver);
}

/* --- libraries: these run in a process of their own --- */

typedef int version_function(int *out);

/* The number that `function` of `library` tells; false: no library, or not this function. */
static bool library_version(doctor *d, const char *library, const char *function, int *out)
{
    void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!l) {
        const char *why = dlerror();
        bool absent = why && strstr(why, "No such file");
        tell_line(d, "%s", absent ? "not installed" : why ? why : "cannot be loaded");
        return false;
    }
    version_function *ask;
    *(void **)&ask = dlsym(l, function);
    if (ask && ask(out) == 0)
        return true;
    tell_line(d, "%s does not say its version", library);
    return false;
}

void check_libcuda(doctor *d)
{
    int v;
    if (!library_version(d, "libcuda.so.1", "cuDriverGetVersion", &v))
        return;
    tell_line(d, "CUDA up to %d.%d", v / 1000, v % 1000 / 10);
    tell_fact(d, "version", "%d.%d", v / 1000, v % 1000 / 10);
}

void check_libnccl(doctor *d)
{
    int v;
    if (library_version(d, "libnccl.so.2", "ncclGetVersion", &v)) {
        int major = v >= 10000 ? v / 10000 : v / 1000;
        int minor = v >= 10000 ? v % 10000 / 100 : v % 1000 / 100;
        tell_line(d, "NCCL %d.%d.%d", major, minor, v % 100);
        tell_fact(d, "version", "%d.%d.%d", major, minor, v % 100);
    } else if (see_fact(d, "gpus", "gpus", 0) > 1 && *see_fact_text(d, "gpus", "driver")) {
        tell(d, DOCTOR_NOTE, "there are several GPUs and NCCL cannot be loaded");
        tell_why(d, "It moves data between GPUs directly; without it they go through the host.");
        tell_type(d, "ldconfig -p | grep nccl  # then install libnccl2, or set LD_LIBRARY_PATH");
    }
}
