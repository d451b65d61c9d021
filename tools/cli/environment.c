/* cli/environment.c: see environment.h. */
#define _GNU_SOURCE
#include "cli/environment.h"

#include "base/time/date.h"
#include "cli/cli.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <weft/plugin.h>

uint32_t cli_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (uint32_t)CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

static json_t *processor(void)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];
    json_t *name = NULL;
    while (f && !name && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (colon && (!strncmp(line, "model name", 10) || !strncmp(line, "Processor", 9)))
            name = json_string(cli_trimmed(colon + 1));
    }
    if (f)
        fclose(f);
    return name ? name : json_string("unknown");
}

static void put_text(json_t *to, const char *key, const char *text)
{
    json_t *v = json_string(text);
    json_object_set_new(to, key, v ? v : json_string("?")); /* not UTF-8 */
}

json_t *cli_environment(void)
{
    json_t *x = json_object();
    char host[256] = "", date[32], abi[24];
    struct utsname u = {0};
    struct sysinfo info = {0};
    double load[3] = {-1, -1, -1};
    date_now(date);
    gethostname(host, sizeof host - 1);
    uname(&u);
    sysinfo(&info);
    if (getloadavg(load, 3) < 3)
        load[0] = load[1] = load[2] = -1;
    snprintf(abi, sizeof abi, "%u.%u", WEFT_ABI_MAJOR, WEFT_ABI_MINOR);
    put_text(x, "date", date);
    put_text(x, "host", host);
    put_text(x, "system", u.sysname);
    put_text(x, "kernel", u.release);
    put_text(x, "machine", u.machine);
    json_object_set_new(x, "processor", processor());
    json_object_set_new(x, "cpus", json_integer(get_nprocs()));
    json_object_set_new(x, "cpus_usable", json_integer(cli_cpus()));
    json_object_set_new(x, "memory_bytes",
                        json_integer((json_int_t)info.totalram * (json_int_t)info.mem_unit));
    json_object_set_new(x, "load", json_pack("[fff]", load[0], load[1], load[2]));
    put_text(x, "weft", WEFT_VERSION);
    put_text(x, "commit", cli_commit());
    put_text(x, "abi", abi);
    return x;
}
