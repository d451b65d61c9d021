/* job/identity/slurm.c: see slurm.h. */
#define _GNU_SOURCE
#include "job/identity/slurm.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/number/check.h"

#define PORT_FIRST 20000u
#define PORTS (32768u - PORT_FIRST)
#define TASKS_MAX 65536u

static bool is_of_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == ':';
}

bool job_slurm_first_node(const char *list, char *out, size_t bytes)
{
    size_t n = 0;
    for (const char *at = list; *at && *at != ',';) {
        if (*at == '[') { /* the first number, as it is written */
            const size_t digits = strspn(++at, "0123456789");
            if (!digits || n + digits >= bytes || !strchr("-,]", at[digits]) || !at[digits])
                return false;
            memcpy(out + n, at, digits);
            n += digits;
            at += strspn(at, "0123456789,-");
            if (*at++ != ']')
                return false;
        } else if (is_of_name(*at) && n + 1 < bytes) {
            out[n++] = *at++;
        } else {
            return false;
        }
    }
    out[n] = 0;
    return n > 0;
}

uint16_t job_slurm_port(uint32_t job, uint32_t step)
{
    return (uint16_t)(PORT_FIRST + ((uint64_t)job * 31 + step) % PORTS);
}

/* --- the address of a node --- */

static bool take_address(const char *at, size_t n, const char *node, char *out, size_t bytes)
{
    if (n > 2 && *at == '[' && at[n - 1] == ']') {
        at++;
        n -= 2;
    }
    if (!n || n >= bytes)
        return false;
    memcpy(out, at, n);
    out[n] = 0;
    return strcmp(out, node) != 0 && strcmp(out, "(null)") != 0;
}

bool job_slurm_alias(const char *aliases, const char *node, char *out, size_t bytes)
{
    const size_t n = strlen(node);
    for (const char *at = aliases; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, node, n) && at[n] == ':') {
            at += n + 1;
            const char *close = *at == '[' ? strchr(at, ']') : NULL;
            return take_address(at, close ? (size_t)(close + 1 - at) : strcspn(at, ":,"), node, out,
                                bytes);
        }
    return false;
}

bool job_slurm_shown(const char *text, const char *node, char *out, size_t bytes)
{
    static const char word[] = " NodeAddr=";
    const char *at = strstr(text, word);
    if (at)
        at += sizeof word - 1;
    return at && take_address(at, strcspn(at, " \t\n"), node, out, bytes);
}

/* What `scontrol show node NODE` prints, up to `bytes`; "": it is not here, or has failed. */
static void show_node(const char *node, char *out, size_t bytes)
{
    char *argv[] = {"scontrol", "--oneliner", "show", "node", (char *)node, NULL};
    int ends[2], status;
    size_t n = 0;
    ssize_t got;
    pid_t pid;
    posix_spawn_file_actions_t files;
    out[0] = 0;
    if (pipe2(ends, O_CLOEXEC))
        return;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const bool runs = !posix_spawnp(&pid, argv[0], &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    while (runs && n + 1 < bytes && (got = read(ends[0], out + n, bytes - 1 - n)) > 0)
        n += (size_t)got;
    close(ends[0]);
    out[n] = 0;
    if (runs)
        waitpid(pid, &status, 0);
}

bool job_slurm_node_address(const char *node, char *out, size_t bytes)
{
    char text[8192];
    if (job_slurm_alias(getenv("SLURM_NODE_ALIASES"), node, out, bytes))
        return true;
    show_node(node, text, sizeof text);
    return job_slurm_shown(text, node, out, bytes);
}

/* --- the environment --- */

static bool number_of(const char *name, uint32_t max, uint32_t *out)
{
    const char *text = getenv(name);
    uint64_t v;
    if (!text || !check_number(&text, max, &v) || *text)
        return false;
    *out = (uint32_t)v;
    return true;
}

static weft_status find_port(job_slurm_step *out)
{
    const char *reserved = getenv("SLURM_STEP_RESV_PORTS");
    uint64_t port;
    uint32_t id, step;
    if (reserved && check_number(&reserved, 65535, &port) && port) {
        out->port = (uint16_t)port;
        return WEFT_OK;
    }
    if (!number_of("SLURM_JOB_ID", UINT32_MAX, &id) ||
        !number_of("SLURM_STEP_ID", UINT32_MAX, &step))
        return err_fail(WEFT_USAGE,
                        "this is a task of a Slurm step, and SLURM_JOB_ID or SLURM_STEP_ID is no "
                        "number: set MASTER_PORT to a free port of rank 0's node on all ranks");
    out->port = job_slurm_port(id, step);
    return WEFT_OK;
}

/* The node of rank 0. The list of the step is in the order of names, and ranks are in that of the
 * components of a heterogeneous job, unless this is a step of one of them. */
static bool find_first(const char *nodes, char *out, size_t bytes)
{
    const char *job = getenv("SLURM_JOB_NODELIST"), *first = NULL;
    uint32_t n = 0;
    (void)number_of("SLURM_HET_SIZE", TASKS_MAX, &n);
    while (n-- > 0) {
        char name[48];
        snprintf(name, sizeof name, "SLURM_JOB_NODELIST_HET_GROUP_%u", n);
        first = getenv(name);
        if (first && job && !strcmp(first, job))
            return job_slurm_first_node(nodes, out, bytes);
    }
    return job_slurm_first_node(first ? first : nodes, out, bytes);
}

weft_status job_slurm_read(job_slurm_step *out)
{
    const char *nodes = getenv("SLURM_STEP_NODELIST"), *tasks = getenv("SLURM_GTIDS"),
               *here = getenv("SLURMD_NODENAME");
    uint32_t n = 0;
    *out = (job_slurm_step){.port = 0};
    if (!nodes || !find_first(nodes, out->addr, sizeof out->addr))
        return err_fail(WEFT_USAGE,
                        "this is a task of a Slurm step, and SLURM_STEP_NODELIST%s%.100s%s: set "
                        "MASTER_ADDR to the node of rank 0 on all ranks",
                        nodes ? "='" : " is not set", nodes ? nodes : "",
                        nodes ? "' is no list of nodes" : "");
    if (tasks && here && !getenv("MASTER_ADDR") && (*tasks == '0') != !strcmp(here, out->addr))
        return err_fail(WEFT_USAGE,
                        "the first node of this Slurm step is %.60s, and rank 0 is not there "
                        "(srun -m arbitrary, or a step of several parts): set MASTER_ADDR to the "
                        "node of rank 0 on all ranks",
                        out->addr);
    if (number_of("SLURM_STEP_NUM_NODES", TASKS_MAX, &n) && n == 1)
        snprintf(out->addr, sizeof out->addr, "127.0.0.1");
    for (out->local_ranks = tasks != NULL; tasks && *tasks; tasks++)
        out->local_ranks += *tasks == ',';
    return find_port(out);
}
