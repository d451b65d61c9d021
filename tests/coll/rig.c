/* rig.c: see rig.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rig.h"

enum { KEYS = 512 };

/* What the processes share: the store, an identifier for each communicator. */
typedef struct shared {
    atomic_uint taken;
    struct {
        char key[64];
        atomic_uint bytes;
        char value[256];
    } row[KEYS];
    char id[4][4096];
    atomic_ullong id_bytes[4];
} shared;

static shared *all;
uint32_t rig_me, rig_ranks;
char rig_why[1024];
const weft_coll_table *rig_table;
void *rig_module;
bool rig_forked;

void rig_must_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: rank %u of %u: %s; the plugin says: %s\n", file, line, rig_me,
            rig_ranks, what, rig_why);
    _exit(3);
}

/* --- the host --- */

static void *take(void *ctx, uint64_t bytes, uint64_t align)
{
    (void)ctx, (void)align;
    return calloc(1, bytes);
}

static void give(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static int32_t enabled(void *ctx, int32_t level)
{
    (void)ctx;
    return level <= WEFT_LOG_WARN;
}

static void log_text(void *ctx, int32_t level, const char *text)
{
    (void)ctx, (void)level;
    fprintf(stderr, "%s\n", text);
}

static weft_status fail_text(void *ctx, weft_status code, const char *text)
{
    (void)ctx;
    snprintf(rig_why, sizeof rig_why, "%s", text);
    return code;
}

static weft_status kv_put(void *ctx, const char *key, const void *data, uint64_t bytes)
{
    (void)ctx;
    MUST(*key && strlen(key) < 64 && bytes && bytes <= sizeof all->row[0].value);
    const unsigned i = atomic_fetch_add(&all->taken, 1);
    MUST(i < KEYS);
    memcpy(all->row[i].key, key, strlen(key));
    memcpy(all->row[i].value, data, bytes);
    atomic_store(&all->row[i].bytes, (unsigned)bytes);
    return WEFT_OK;
}

static weft_status kv_get(void *ctx, const char *key, void *to, uint64_t *bytes)
{
    (void)ctx;
    for (unsigned i = 0; i < KEYS; i++) {
        const unsigned n = atomic_load(&all->row[i].bytes);
        if (!n || strcmp(all->row[i].key, key) != 0)
            continue;
        MUST(n <= *bytes);
        memcpy(to, all->row[i].value, n);
        *bytes = n;
        return WEFT_OK;
    }
    return WEFT_BUSY;
}

static weft_host_kv kv = {.struct_size = sizeof kv, .put = kv_put, .get = kv_get};

static const void *iface(void *ctx, const char *id)
{
    (void)ctx;
    return all && !strcmp(id, "weft.host.kv/1") ? &kv : NULL;
}

/* --- the options: KEY=VALUE of the command line, else the defaults --- */

static const weft_component *component;
static char **given;

static const char *text_of(void *ctx, const char *key)
{
    const size_t n = strlen(key);
    (void)ctx;
    for (char **word = given; *word; word++)
        if (!strncmp(*word, key, n) && (*word)[n] == '=')
            return *word + n + 1;
    for (const weft_option *const *o = component->options; o && *o; o++)
        if (!strcmp((*o)->key, key))
            return (*o)->dflt;
    return NULL;
}

static weft_conf conf = {.struct_size = sizeof conf, .text = text_of};

static const weft_host host = {.struct_size = sizeof host,
                               .abi_major = WEFT_ABI_MAJOR,
                               .abi_minor = WEFT_ABI_MINOR,
                               .alloc = take,
                               .free = give,
                               .log_enabled = enabled,
                               .log = log_text,
                               .fail = fail_text,
                               .iface = iface};

void rig_nap(void)
{
    nanosleep(&(struct timespec){0, 20000}, NULL);
}

double rig_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

weft_comm *rig_open(uint32_t which)
{
    uint32_t members[MOST];
    uint64_t bytes = sizeof all->id[0];
    static char own[4096];
    char *id = all ? all->id[which] : own;
    for (uint32_t r = 0; r < MOST; r++)
        members[r] = r;
    if (rig_me == 0) {
        MUST(rig_table->id(rig_module, &conf, id, &bytes) == WEFT_OK);
        if (all)
            atomic_store(&all->id_bytes[which], bytes + 1);
    }
    while (all && !atomic_load(&all->id_bytes[which]))
        rig_nap();
    weft_coll_args args = {.struct_size = sizeof args,
                           .rank = rig_me,
                           .ranks = rig_ranks,
                           .id = id,
                           .conf = &conf,
                           .id_bytes = all ? atomic_load(&all->id_bytes[which]) - 1 : bytes,
                           .members = members};
    weft_comm *c = NULL;
    MUST(rig_table->open(rig_module, &args, &c) == WEFT_OK && c);
    const double until = rig_now() + PATIENCE;
    weft_status st;
    while ((st = rig_table->ready(c)) == WEFT_BUSY && rig_now() < until)
        rig_nap();
    MUST(st == WEFT_OK);
    return c;
}

static int run(const weft_manifest *m, int (*rank)(void))
{
    int32_t score = -1;
    component = m->components[0];
    rig_table = component->table;
    MUST(rig_table->caps & WEFT_COLL_HOST);
    MUST(m->open(&host, &rig_module) == WEFT_OK);
    MUST(rig_table->probe(rig_module, &conf, WEFT_DEV_HOST_MEMORY, &score) == WEFT_OK && score > 0);
    MUST(rig_table->probe(rig_module, &conf, WEFT_DEV_CUDA_MEMORY, &score) == WEFT_OK && !score);
    const int status = rank();
    if (m->close)
        m->close(rig_module);
    return status;
}

static int forked(const weft_manifest *m, uint32_t n, int (*rank)(void))
{
    pid_t child[MOST];
    int bad = 0;
    rig_ranks = n;
    rig_forked = true;
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (uint32_t r = 0; r < n; r++)
        if (!(child[r] = fork())) {
            rig_me = kv.rank = r;
            kv.ranks = n;
            const int status = run(m, rank);
            fflush(stdout);
            _exit(status);
        }
    for (uint32_t r = 0; r < n; r++) {
        int status;
        waitpid(child[r], &status, 0);
        const bool killed = n > 1 && r == n - 1;
        if (killed ? !WIFSIGNALED(status) : !WIFEXITED(status) || WEXITSTATUS(status))
            bad = 1;
    }
    munmap(all, sizeof *all);
    return bad;
}

int rig_main(int argc, char **argv, int (*rank)(void))
{
    given = argv + (argc > 2 ? 2 : argc);
    setvbuf(stdout, NULL, _IOLBF, 0);
    void *so = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    weft_plugin_entry_fn entry = so ? (weft_plugin_entry_fn)dlsym(so, "weft_plugin_entry") : NULL;
    if (!entry) {
        fprintf(stderr, "coll_test PLUGIN [KEY=VALUE ...]: %s\n",
                argc > 1 ? dlerror() : "no plugin");
        return 2;
    }
    const char *number = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE");
    number = number ? number : getenv("PMI_RANK"); /* mpiexec of MPICH */
    size = size ? size : getenv("PMI_SIZE");
    if (number && size) {
        rig_me = (uint32_t)strtoul(number, NULL, 10);
        rig_ranks = (uint32_t)strtoul(size, NULL, 10);
        return rig_ranks > MOST ? 2 : run(entry(), rank);
    }
    for (uint32_t n = 1; n <= 5; n++)
        if (forked(entry(), n, rank))
            return 1;
    return 0;
}
