/* tests/plugins/stuck.c: a transport and a device that do not return from a call, or miscount.
 *
 * They are tcp and cpu, whose files WEFT_STUCK_TCP and WEFT_STUCK_CPU name, but for one call, which
 * WEFT_STUCK="CALL [RANK]" names: on that rank, or on all, it does not return. RANK is that of the
 * environment of weft's launcher. With WEFT_STUCK_WHEN=FILE it does return while FILE is empty or
 * not there; then it appends "RANK SECONDS\n" to FILE.at, the moment by CLOCK_MONOTONIC.
 * WEFT_STUCK_SPINS: it does not sleep. WEFT_STUCK_TAKES=SECONDS: what each such call takes before.
 * WEFT_MISCOUNT=back or ahead: progress() counts wrong. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <weft/device.h>
#include <weft/link.h>

static const weft_manifest *of_tcp, *of_cpu;
static const weft_link_table *tcp;
static const weft_device_table *cpu;

typedef struct module {
    const weft_host *host;
    void *tcp, *cpu;
} module;

/* Whether the time has come, which is noted. */
static bool is_time(const char *own)
{
    const char *file = getenv("WEFT_STUCK_WHEN"), *takes = getenv("WEFT_STUCK_TAKES");
    struct stat s;
    if (!file)
        return true;
    if (stat(file, &s) || !s.st_size) {
        if (takes)
            usleep((useconds_t)(strtod(takes, NULL) * 1e6));
        return false;
    }
    char path[4096];
    struct timespec t;
    snprintf(path, sizeof path, "%s.at", file);
    FILE *f = fopen(path, "a");
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (f) {
        fprintf(f, "%s %lld.%09ld\n", own ? own : "0", (long long)t.tv_sec, t.tv_nsec);
        fclose(f);
    }
    return true;
}

static void stick(const char *call)
{
    const char *wish = getenv("WEFT_STUCK"), *own = getenv("RANK");
    const size_t n = strlen(call);
    if (!wish || strncmp(wish, call, n) || (wish[n] && wish[n] != ' '))
        return;
    if (wish[n] && (!own || strcmp(own, wish + n + 1)))
        return;
    if (!is_time(own))
        return;
    for (volatile uint64_t turns = 0;; turns++)
        if (!getenv("WEFT_STUCK_SPINS"))
            pause();
}

/* --- the transport --- */

static weft_status probe(void *m, const weft_conf *conf, const weft_link_group *g, int32_t *score)
{
    stick("probe");
    return tcp->probe(((module *)m)->tcp, conf, g, score);
}

static weft_status create(void *m, const weft_link_args *args, weft_link **out)
{
    stick("create");
    return tcp->create(((module *)m)->tcp, args, out);
}

static weft_status connect_to(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    stick("connect");
    return tcp->connect(l, args, out);
}

static void disconnect(weft_conn *c)
{
    stick("disconnect");
    tcp->disconnect(c);
}

static weft_status send_to(weft_conn *c, const void *from, uint64_t bytes, weft_region *region,
                           uint32_t flags)
{
    stick("send");
    return tcp->send(c, from, bytes, region, flags);
}

static weft_status progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    stick("progress");
    const char *how = getenv("WEFT_MISCOUNT");
    const weft_status st = tcp->progress(c, flags, sent, received);
    if (st != WEFT_OK || !how)
        return st;
    static weft_conn *_Atomic counted; /* its count falls from the next call on */
    weft_conn *none = NULL;
    if (counted == c && !strcmp(how, "back"))
        *sent = 0;
    else if (*sent)
        atomic_compare_exchange_strong(&counted, &none, c);
    *sent += strcmp(how, "ahead") ? 0 : 5;
    return st;
}

static weft_status wait_for(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    stick("wait");
    return tcp->wait(l, spin_us, timeout_us, flags);
}

/* --- the device --- */

static weft_status query(void *m, const weft_conf *conf, const weft_opspec *op,
                         weft_requirements *out)
{
    stick("query");
    return cpu->query(((module *)m)->cpu, conf, op, out);
}

static weft_status has_device(void *m, const weft_conf *conf, int32_t *score)
{
    return cpu->probe(((module *)m)->cpu, conf, score);
}

static weft_status open_device(void *m, const weft_device_args *args, weft_device **out)
{
    stick("open");
    return cpu->open(((module *)m)->cpu, args, out);
}

static void close_device(weft_device *d)
{
    stick("close");
    cpu->close(d);
}

static weft_status prepare(weft_device *d, const weft_opspec *op, weft_prepared **out)
{
    stick("prepare");
    return cpu->prepare(d, op, out);
}

static weft_status run(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags)
{
    stick("run");
    return cpu->run(p, s, in, out, workspace, flags);
}

static weft_status record(weft_event *e, weft_stream *s, uint32_t flags)
{
    stick("record");
    return cpu->record(e, s, flags);
}

static weft_status domain(void *m, const weft_device_args *args, char *text, uint64_t *bytes)
{
    return cpu->ipc_domain(((module *)m)->cpu, args, text, bytes);
}

static weft_status kernel_sets(void *m, const weft_conf *conf, char *text, uint64_t *bytes)
{
    return cpu->kernel_sets(((module *)m)->cpu, conf, text, bytes);
}

/* --- the object --- */

/* The component of the interface in the file that the variable names. */
static const weft_component *find(const char *variable, const char *iface, const weft_manifest **m)
{
    const char *path = getenv(variable);
    void *file = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL, *symbol;
    weft_plugin_entry_fn entry;
    if (!file || !(symbol = dlsym(file, "weft_plugin_entry")))
        return NULL;
    memcpy(&entry, &symbol, sizeof entry);
    *m = entry();
    for (uint32_t i = 0; (*m)->components[i]; i++)
        if (!strcmp((*m)->components[i]->iface, iface))
            return (*m)->components[i];
    return NULL;
}

static weft_link_table link_table;
static weft_device_table device_table;
static weft_component way = {
    sizeof way, 0,           "weft.link/1", "test.stuck", "tcp with a call that lasts",
    NULL,       &link_table, NULL};
static weft_component device = {
    sizeof device, 0,   "weft.device/1", "test.stuck", "cpu with a call that lasts", NULL,
    &device_table, NULL};

__attribute__((constructor)) static void load(void)
{
    const weft_component *l = find("WEFT_STUCK_TCP", "weft.link/1", &of_tcp);
    const weft_component *d = find("WEFT_STUCK_CPU", "weft.device/1", &of_cpu);
    if (!l || !d)
        return;
    tcp = l->table;
    cpu = d->table;
    way.options = l->options;
    way.user = l->user;
    device.options = d->options;
    device.user = d->user;
    link_table = *tcp;
    link_table.probe = probe;
    link_table.create = create;
    link_table.connect = connect_to;
    link_table.disconnect = disconnect;
    link_table.send = send_to;
    link_table.progress = progress;
    link_table.wait = wait_for;
    device_table = *cpu;
    device_table.query = query;
    device_table.probe = has_device;
    device_table.open = open_device;
    device_table.close = close_device;
    device_table.prepare = prepare;
    device_table.run = run;
    device_table.record = record;
    device_table.ipc_domain = cpu->ipc_domain ? domain : NULL;
    device_table.kernel_sets = kernel_sets;
}

static weft_status open_both(const weft_host *host, void **out)
{
    module *m = calloc(1, sizeof *m);
    if (!m)
        return WEFT_NO_MEMORY;
    m->host = host;
    weft_status st = of_tcp->open(host, &m->tcp);
    if (st == WEFT_OK)
        st = of_cpu->open(host, &m->cpu);
    *out = m;
    return st;
}

static void close_both(void *p)
{
    module *m = p;
    if (of_cpu->close)
        of_cpu->close(m->cpu);
    if (of_tcp->close)
        of_tcp->close(m->tcp);
    free(m);
}

static const weft_component *const components[] = {&way, &device, NULL};
static const weft_manifest manifest = {
    WEFT_MANIFEST_HEAD,   .id = "org.test.stuck",   .version = "1",    .license = "",
    .build = __VERSION__, .components = components, .open = open_both, .close = close_both};

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
