/* rig.c: nodes, connections and processes for the tests of transports. */
#include "rig.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const weft_manifest *rig_manifest;
const weft_component *rig_plugin;
const weft_link_table *rig_table;
char **rig_settings;
static host_component component; /* what check_conf() has to know of rig_plugin */
static pthread_t tester;         /* cmocka's own thread */
static bool is_child;            /* made by child_start() */
static _Thread_local char why[1024];

const char *rig_why(void)
{
    return why;
}

/* Unlike the checker's it keeps the last one, of whatever node, and why a connection waits. */
static weft_status keep_why(void *ctx, weft_status code, const char *text)
{
    (void)ctx;
    snprintf(why, sizeof why, "%s", text);
    return code;
}

/* A transport whose hardware is missing says so. */
static bool is_here(void)
{
    node n;
    node_init(&n, 0, 1);
    bool absent = node_open(&n) == WEFT_ABSENT;
    if (absent) {
        n.link = NULL;
        printf("%s cannot be tested here: %s\n", rig_plugin->name, rig_why());
    }
    node_close(&n);
    return !absent;
}

int rig_main(int argc, char **argv)
{
    static const weft_option *const none[] = {NULL};
    if (argc < 2) {
        fprintf(stderr, "usage: %s PLUGIN.so [KEY=VALUE ...]\n", argv[0]);
        return 2;
    }
    rig_settings = argv + 2;
    void *object = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    weft_plugin_entry_fn entry = NULL;
    *(void **)&entry = dlsym(object, "weft_plugin_entry");
    rig_manifest = entry();
    for (const weft_component *const *c = rig_manifest->components; *c; c++)
        if (strcmp((*c)->iface, "weft.link/1") == 0)
            rig_plugin = *c;
    if (!rig_plugin)
        return 77; /* no transport of this kind */
    rig_table = rig_plugin->table;
    component = (host_component){.name = rig_plugin->name,
                                 .options = rig_plugin->options ? rig_plugin->options : none,
                                 .own = rig_plugin};
    if (!is_here())
        return 77;
    tester = pthread_self();
    return test_run(NULL, NULL);
}

/* A transport of one rank refuses every other peer; it says so with its lack of an address. */
bool rig_alone(void)
{
    node n;
    node_init(&n, 0, 1);
    assert_int_equal(node_open(&n), WEFT_OK);
    bool alone = n.address_bytes == 0;
    node_close(&n);
    return alone;
}

bool rig_has_option(const char *key)
{
    return check_option(&component, key);
}

bool rig_listens(void)
{
    static const char *const names[] = {"tcp", "verbs", "ucx"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(rig_plugin->name, names[i]) == 0)
            return true;
    return false;
}

double rig_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double rig_patience(void)
{
    return 120; /* a busy machine gets its time */
}

uint64_t rig_share(uint64_t n)
{
    return getenv("WEFT_LAB") ? (n + 3) / 4 : n;
}

void rig_must_failed(const char *condition, const char *file, int line)
{
    if (pthread_equal(pthread_self(), tester) && !is_child)
        _fail(file, line);
    fprintf(stderr, "%s:%d: not true: %s (%s)\n", file, line, condition, rig_why());
    _exit(3);
}

static void look(weft_status st, double until, const char *what)
{
    if (st != WEFT_OK && st != WEFT_BUSY)
        fprintf(stderr, "%s: status %d: %s\n", what, (int)st, rig_why());
    must(st == WEFT_OK || st == WEFT_BUSY);
    if (rig_now() > until)
        fprintf(stderr, "%s: not finished in time\n", what);
    must(rig_now() <= until);
}

void node_init(node *n, uint32_t rank, uint32_t ranks)
{
    memset(n, 0, sizeof *n);
    n->rank = rank;
    n->ranks = ranks;
    n->key = 7;
    n->bind_addr = "127.0.0.1";
    check_host_begin(&n->host, "the host of a node");
    n->host.own.fail = keep_why;
}

/* The options of the node, behind those of the command line. */
static void set_options(node *n)
{
    const char *set[CHECK_SETS];
    char text[4][80];
    uint32_t k = 0;
    for (; rig_settings[k] && k < CHECK_SETS - 4; k++)
        set[k] = rig_settings[k];
    for (int i = 0; i < 4; i++)
        if (n->options[i][0]) {
            snprintf(text[i], sizeof text[i], "%s=%s", n->options[i][0], n->options[i][1]);
            set[k++] = text[i];
        }
    check_options_set(set, k);
    n->conf = check_conf(&n->host, &component);
    check_options_set(NULL, 0);
}

static void open_module(node *n)
{
    check_host_tls(&n->host, n->key);
    n->host.bare = n->no_tls;
    set_options(n);
    if (rig_manifest->open)
        must(rig_manifest->open(&n->host.own, &n->module) == WEFT_OK);
}

weft_status node_open(node *n)
{
    open_module(n);
    weft_link_args args = {.struct_size = sizeof args,
                           .rank = n->rank,
                           .ranks = n->ranks,
                           .local_rank = n->rank,
                           .local_ranks = n->ranks,
                           .conf = n->conf,
                           .bind_addr = n->bind_addr,
                           .job_id = "job-of-the-tests"};
    weft_status st = rig_table->create(n->module, &args, &n->link);
    if (st == WEFT_OK) {
        n->address_bytes = sizeof n->address;
        st = rig_table->address(n->link, n->address, &n->address_bytes);
    }
    return st;
}

int32_t node_probe(node *n, const weft_link_group *group)
{
    int32_t score = -1;
    open_module(n);
    must(rig_table->probe(n->module, n->conf, group, &score) == WEFT_OK);
    node_close(n);
    return score;
}

void node_close(node *n)
{
    rig_table->destroy(n->link);
    if (rig_manifest->close)
        rig_manifest->close(n->module);
    n->link = NULL;
    n->module = NULL;
    must(n->host.live == 0);
    check_host_end(&n->host);
}

void nodes_up(node *n, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++) {
        node_init(&n[r], r, ranks);
        must(node_open(&n[r]) == WEFT_OK);
    }
}

weft_status node_register(node *n, void *at, uint64_t bytes, int32_t fd, weft_region **out)
{
    const weft_memory memory = {sizeof memory, 0, at, bytes, fd, 0};
    return rig_table->register_memory(n->link, &memory, out);
}

weft_conn *node_connect(node *n, const node *peer, uint32_t channel)
{
    weft_conn *c = NULL;
    weft_status st =
        rig_table->connect(n->link,
                           &(weft_conn_args){sizeof(weft_conn_args), 0, peer->rank, channel,
                                             peer->address, peer->address_bytes},
                           &c);
    look(st, rig_now() + 1, "connect");
    return c;
}

void conn_ready(weft_conn *c)
{
    double until = rig_now() + rig_patience();
    weft_status st;
    while ((st = rig_table->ready(c)) != WEFT_OK)
        look(st, until, "ready");
}

pair pair_up(node *a, node *b, uint32_t channel)
{
    double until = rig_now() + rig_patience();
    pair p = {.a = node_connect(a, b, channel)};
    p.b = a == b ? p.a : node_connect(b, a, channel);
    for (weft_status st = WEFT_BUSY, t = WEFT_BUSY; st != WEFT_OK || t != WEFT_OK;) {
        look(st = rig_table->ready(p.a), until, "ready");
        look(t = rig_table->ready(p.b), until, "ready");
    }
    return p;
}

void pair_down(pair p)
{
    rig_table->disconnect(p.a);
    if (p.b != p.a)
        rig_table->disconnect(p.b);
}

void pair_finish(pair p, const uint64_t want[4])
{
    double until = rig_now() + rig_patience();
    for (;;) {
        uint64_t got[4];
        look(rig_table->progress(p.a, 0, &got[0], &got[1]), until, "progress");
        look(rig_table->progress(p.b, 0, &got[2], &got[3]), until, "progress");
        bool done = true;
        for (int i = 0; i < 4; i++) {
            must(got[i] <= want[i]);
            done &= got[i] == want[i];
        }
        if (done)
            return;
    }
}

void conn_send(node *n, weft_conn *c, const void *from, uint64_t bytes)
{
    double until = rig_now() + rig_patience();
    weft_status st;
    uint64_t sent, received;
    while ((st = rig_table->send(c, from, bytes, NULL, 0)) != WEFT_OK) {
        look(st, until, "send");
        look(rig_table->wait(n->link, 0, 10000, 0), until, "wait");
        look(rig_table->progress(c, 0, &sent, &received), until, "progress");
    }
}

void conn_recv(node *n, weft_conn *c, void *to, uint64_t bytes)
{
    double until = rig_now() + rig_patience();
    weft_status st;
    uint64_t sent, received;
    while ((st = rig_table->recv(c, to, bytes, NULL, 0)) != WEFT_OK) {
        look(st, until, "recv");
        look(rig_table->wait(n->link, 0, 10000, 0), until, "wait");
        look(rig_table->progress(c, 0, &sent, &received), until, "progress");
    }
}

void conn_finish(node *n, weft_conn *c, uint64_t sent, uint64_t received)
{
    double until = rig_now() + rig_patience();
    for (;;) {
        uint64_t s, r;
        look(rig_table->progress(c, 0, &s, &r), until, "progress");
        if (s >= sent && r >= received)
            return;
        look(rig_table->wait(n->link, 20, 1000000, 0), until, "wait");
    }
}

weft_status conn_fate(node *n, weft_conn *c, double seconds)
{
    double until = rig_now() + seconds;
    uint64_t sent, received;
    while (rig_now() < until) {
        weft_status st = rig_table->progress(c, 0, &sent, &received);
        if (st != WEFT_OK)
            return st;
        st = rig_table->wait(n->link, 0, 20000, 0);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

int child_start(child_fn fn, uint32_t rank, void *arg, int *fd)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    fflush(NULL);
    int pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        is_child = true;
        _exit(fn(ends[1], rank, arg));
    }
    close(ends[1]);
    *fd = ends[0];
    return pid;
}

int child_end(int pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        must(errno == EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void tell(int fd, const void *from, uint64_t bytes)
{
    const uint8_t *at = from;
    while (bytes > 0) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        must(n > 0);
        at += n;
        bytes -= (uint64_t)n;
    }
}

void hear(int fd, void *to, uint64_t bytes)
{
    uint8_t *at = to;
    while (bytes > 0) {
        ssize_t n = recv(fd, at, bytes, 0);
        must(n > 0);
        at += n;
        bytes -= (uint64_t)n;
    }
}

void swap_address(node *mine, node *theirs, int fd)
{
    tell(fd, &mine->rank, sizeof mine->rank);
    tell(fd, &mine->address_bytes, sizeof mine->address_bytes);
    tell(fd, mine->address, sizeof mine->address);
    hear(fd, &theirs->rank, sizeof theirs->rank);
    hear(fd, &theirs->address_bytes, sizeof theirs->address_bytes);
    hear(fd, theirs->address, sizeof theirs->address);
}
