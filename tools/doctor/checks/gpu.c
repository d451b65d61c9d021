/* doctor/checks/gpu.c: GPUs, their driver, and the libraries for jobs on GPUs. */
#include "doctor/checks/checks.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>

#define PCI "/sys/bus/pci/devices"
#define DRIVER "/proc/driver/nvidia/version"

/* A display controller or accelerator of NVIDIA, whose libraries are checked below. */
static bool is_gpu(const doctor *d, const char *device)
{
    char vendor[32], class[32];
    return doctor_read_text(d, vendor, sizeof vendor, PCI "/%s/vendor", device) &&
           !strcmp(vendor, "0x10de") &&
           doctor_read_text(d, class, sizeof class, PCI "/%s/class", device) &&
           !strncmp(class, "0x03", 4);
}

static void read_gpu(doctor *d, const char *device)
{
    char path[160], model[128] = "a GPU";
    int64_t lanes = 0, max = 0, node = -1;
    snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%.100s/information", device);
    doctor_read_line(d, path, "Model", model, sizeof model);
    doctor_read_number(d, &lanes, PCI "/%s/current_link_width", device);
    doctor_read_number(d, &max, PCI "/%s/max_link_width", device);
    doctor_read_number(d, &node, PCI "/%s/numa_node", device);
    doctor_add_line(d, "%s: %s, %" PRId64 " PCIe lanes", device, model, lanes);
    if (lanes > 0 && lanes < max && max <= 32) {
        doctor_add_finding(d, DOCTOR_NOTE, "GPU %s has %" PRId64 " of its %" PRId64 " PCIe lanes",
                           device, lanes, max);
        doctor_add_reason(d, "Copies from and to the GPU are slower in proportion: the slot has "
                             "fewer lanes, or the card is not seated well.");
        doctor_add_command(d, "sudo lspci -vv -s %s | grep Lnk", device);
    }
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  ...": the first word with a digit in
 * front and a dot. */
static bool driver_version(const doctor *d, char *out, size_t size)
{
    char text[512], *rest;
    if (!doctor_read_line(d, DRIVER, "NVRM version", text, sizeof text))
        return false;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (*word >= '0' && *word <= '9' && strchr(word, '.')) {
            snprintf(out, size, "%s", word);
            return true;
        }
    return false;
}

static void assess_driver(doctor *d, uint32_t gpus, bool driver)
{
    if (gpus && !driver) {
        doctor_add_finding(d, DOCTOR_WARNING, "there are GPUs (%u), and no driver is loaded", gpus);
        doctor_add_reason(d, "Nothing can run on them.");
        doctor_add_command(
            d, "sudo modprobe nvidia  # or install the driver of your distribution first");
    } else if (gpus && !doctor_path_exists(d, "/dev/nvidiactl")) {
        doctor_add_finding(d, DOCTOR_WARNING, "there are GPUs (%u) that this process cannot open",
                           gpus);
        doctor_add_reason(
            d, "/dev/nvidiactl does not exist: this container has no access to the GPUs.");
        doctor_add_command(d, "docker run --gpus all ...");
    }
    if (gpus && driver && *doctor_list_folder(d, "/sys/class/infiniband") &&
        !doctor_path_exists(d, "/sys/module/nvidia_peermem")) {
        doctor_add_finding(d, DOCTOR_NOTE, "the module nvidia_peermem is not loaded");
        doctor_add_reason(d,
                          "Without it RDMA devices reach GPU memory only if driver and kernel both "
                          "support dmabuf; else each message is copied through host memory.");
        doctor_add_command(d, "sudo modprobe nvidia_peermem");
    }
}

void doctor_check_gpus(doctor *d)
{
    uint32_t n = 0;
    char version[64] = "";
    for (const char *const *device = doctor_list_folder(d, PCI); *device; device++)
        if (is_gpu(d, *device)) {
            n++;
            read_gpu(d, *device);
        }
    bool driver = driver_version(d, version, sizeof version);
    doctor_add_number(d, "gpus", n);
    if (driver) {
        doctor_add_line(d, "driver %s", version);
        doctor_add_text(d, "driver", "%s", version);
    } else if (!n) {
        doctor_add_line(d, "none");
        if (!doctor_path_exists(d, PCI))
            doctor_set_unknown(d);
    }
    assess_driver(d, n, driver);
}

/* --- libraries: these checks run in a child process --- */

typedef int version_function(int *out);

/* The version that `function` of `library` returns; false: no library, or no such function. */
static bool library_version(doctor *d, const char *library, const char *function, int *out)
{
    void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!l) {
        const char *why = dlerror();
        bool absent = why && strstr(why, "No such file");
        doctor_add_line(d, "%s", absent ? "not installed" : why ? why : "cannot be loaded");
        if (!absent)
            doctor_set_unknown(d);
        return false;
    }
    version_function *ask;
    *(void **)&ask = dlsym(l, function);
    if (ask && ask(out) == 0)
        return true;
    doctor_add_unknown(d, "%s does not report its version", library);
    return false;
}

void doctor_check_libcuda(doctor *d)
{
    int v;
    if (!library_version(d, "libcuda.so.1", "cuDriverGetVersion", &v))
        return;
    doctor_add_line(d, "CUDA up to %d.%d", v / 1000, v % 1000 / 10);
    doctor_add_text(d, "version", "%d.%d", v / 1000, v % 1000 / 10);
}

void doctor_check_libnccl(doctor *d)
{
    int v;
    if (library_version(d, "libnccl.so.2", "ncclGetVersion", &v)) {
        int major = v >= 10000 ? v / 10000 : v / 1000;
        int minor = v >= 10000 ? v % 10000 / 100 : v % 1000 / 100;
        doctor_add_line(d, "NCCL %d.%d.%d", major, minor, v % 100);
        doctor_add_text(d, "version", "%d.%d.%d", major, minor, v % 100);
    } else if (doctor_fact_number(d, "gpus", "gpus", 0) > 1 &&
               *doctor_fact_text(d, "gpus", "driver")) {
        doctor_add_finding(d, DOCTOR_NOTE, "there are several GPUs, and NCCL cannot be loaded");
        doctor_add_reason(
            d, "NCCL moves data between GPUs directly; without it data goes through host memory.");
        doctor_add_command(
            d, "ldconfig -p | grep nccl  # then install libnccl2, or set LD_LIBRARY_PATH");
    }
}
