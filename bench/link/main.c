/* bench/link/main.c: bandwidth and latency of a transport alone, between two processes.
 *
 *   link_bench PLUGIN.so bw|poll|lat BYTES COUNT [KEY=VALUE ... [-- KEY=VALUE ...]]
 *
 * Options behind `--` are the second process's; bind=ADDRESS is where a process listens. Prints one
 * number: bw, MiB a second over COUNT messages of which up to 64 are under way, where who has
 * nothing to do polls for a moment and then sleeps, as jobs do; poll, the same where nobody sleeps;
 * lat, microseconds one way, half the median round trip, polling. Memory is registered where the
 * transport wants it. Each process keeps to a core of its own.
 *
 * Two processes that mpirun has started are the two ends: mpirun -n 2 link_bench PLUGIN.so ...
 */
#include "rig.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { WINDOW = 64, POLL_US = 200, SLEEP_US = 10000 };

typedef struct task {
    bool latency, sleeps;
    uint64_t bytes, count;
    char **options[2]; /* NULL-ended */
} task;

typedef struct end {
    node n, other;
    weft_conn *c;
    weft_region *region;
    uint8_t *memory;
    uint64_t sent, received;
} end;

static void up(end *e, int fd, uint32_t rank, const task *t)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(rank, &own);
    (void)!sched_setaffinity(0, sizeof own, &own); /* with one core they share it */
    node_init(&e->n, rank, 2);
    rig_settings = t->options[rank];
    for (char **s = rig_settings; *s; s++)
        if (strncmp(*s, "bind=", 5) == 0)
            e->n.bind_addr = *s + 5;
    must(node_open(&e->n) == WEFT_OK);
    e->memory = aligned_alloc(4096, 2 * (t->bytes + 4096) / 4096 * 4096);
    must(e->memory != NULL);
    memset(e->memory, 1, 2 * t->bytes);
    if ((rig_table->caps & WEFT_LINK_REGISTER) != 0)
        must(rig_table->register_memory(
                 e->n.link, &(weft_memory){sizeof(weft_memory), 0, e->memory, 2 * t->bytes, -1, 0},
                 &e->region) == WEFT_OK);
    swap_address(&e->n, &e->other, fd);
    e->c = node_connect(&e->n, &e->other, 0);
    conn_ready(e->c);
}

static void look(end *e)
{
    must(rig_table->progress(e->c, 0, &e->sent, &e->received) == WEFT_OK);
}

static void look_or_sleep(end *e, const task *t)
{
    uint64_t sent = e->sent, received = e->received;
    look(e);
    if (t->sleeps && e->sent == sent && e->received == received)
        must(rig_table->wait(e->n.link, POLL_US, SLEEP_US, 0) == WEFT_OK);
}

static void receive(end *e, const task *t)
{
    must(rig_table->recv(e->c, e->memory + t->bytes, t->bytes, e->region, 0) == WEFT_OK);
}

static void send_one(end *e, const task *t)
{
    must(rig_table->send(e->c, e->memory, t->bytes, e->region, 0) == WEFT_OK);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double ping_pong(end *e, const task *t)
{
    double *took = calloc(t->count, sizeof *took);
    receive(e, t);
    for (uint64_t i = 0; i < t->count; i++) {
        double began = rig_now();
        if (e->n.rank == 0)
            send_one(e, t);
        while (e->received < i + 1)
            look(e);
        if (i + 1 < t->count)
            receive(e, t);
        if (e->n.rank == 1)
            send_one(e, t);
        took[i] = rig_now() - began;
    }
    while (e->sent < t->count)
        look(e);
    qsort(took, t->count, sizeof *took, by_size);
    double half = took[t->count / 2] * 1e6 / 2;
    free(took);
    return half;
}

static double stream(end *e, const task *t)
{
    uint64_t posted = 0, first = WINDOW < t->count ? WINDOW : t->count;
    double began = rig_now();
    if (e->n.rank == 0) {
        while (e->sent < t->count) {
            for (; posted < t->count && posted - e->sent < WINDOW; posted++)
                send_one(e, t);
            look_or_sleep(e, t);
        }
        must(rig_table->recv(e->c, NULL, 0, NULL, 0) == WEFT_OK); /* all have come */
        while (e->received < 1)
            look_or_sleep(e, t);
    } else {
        for (; posted < first; posted++)
            receive(e, t);
        while (e->received < t->count) {
            look_or_sleep(e, t);
            for (; posted < t->count && posted - e->received < WINDOW; posted++)
                receive(e, t);
        }
        must(rig_table->send(e->c, NULL, 0, NULL, 0) == WEFT_OK);
        while (e->sent < 1)
            look_or_sleep(e, t);
    }
    return (double)(t->count * t->bytes) / 1048576 / (rig_now() - began);
}

static double run(int fd, uint32_t rank, const task *t)
{
    end e = {0};
    up(&e, fd, rank, t);
    double result = t->latency ? ping_pong(&e, t) : stream(&e, t);
    rig_table->disconnect(e.c);
    node_close(&e.n);
    free(e.memory);
    return result;
}

static int second(int fd, uint32_t rank, void *arg)
{
    (void)run(fd, rank, arg);
    return 0;
}

/* Two processes of one mpirun meet at a socket that is named after it. */
static int meet(bool first)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const double until = rig_now() + rig_patience();
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "weft-link-bench-%d", (int)getppid());
    const struct sockaddr *name = (const struct sockaddr *)&at;
    if (first) {
        must(!bind(fd, name, sizeof at) && !listen(fd, 1));
        const int met = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        must(met >= 0);
        close(fd);
        return met;
    }
    while (connect(fd, name, sizeof at)) {
        must(rig_now() < until);
        usleep(1000);
    }
    return fd;
}

static task the_task;

TEST(measure)
{
    int fd, pid = -1;
    const char *launched = getenv("OMPI_COMM_WORLD_RANK");
    const uint32_t rank = launched && *launched != '0';
    if (launched)
        fd = meet(!rank);
    else
        pid = child_start(second, 1, &the_task, &fd);
    double result = run(fd, rank, &the_task);
    if (pid >= 0)
        assert_int_equal(child_end(pid), 0);
    close(fd);
    if (!rank)
        fprintf(stderr, "%.2f\n", result);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: %s PLUGIN.so bw|poll|lat BYTES COUNT [KEY=VALUE ... [-- ...]]\n",
                argv[0]);
        return 2;
    }
    the_task.latency = strcmp(argv[2], "lat") == 0;
    the_task.sleeps = strcmp(argv[2], "bw") == 0;
    the_task.bytes = strtoull(argv[3], NULL, 10);
    the_task.count = strtoull(argv[4], NULL, 10);
    the_task.options[0] = the_task.options[1] = argv + 5;
    for (int i = 5; i < argc; i++)
        if (strcmp(argv[i], "--") == 0) {
            the_task.options[1] = argv + i + 1;
            argv[i] = NULL;
        }
    return rig_main(2, argv);
}
