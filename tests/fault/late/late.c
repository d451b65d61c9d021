/* A transport whose set-up takes long on one rank: tcp, but rank LATE_RANK sleeps LATE_MS
 * milliseconds when it creates its link, so that it tells its address late; or, with LATE_AT =
 * connect, before its first connection, so that the others wait for it with open listeners.
 *
 * LATE_HELLO names a file for the ClientHello with which that rank would greet rank 0. LATE_ENDS
 * names a folder in which each rank writes the order in which its link ends: "abort", "disconnect"
 * and "destroy", a line each. With LATE_DIES = n rank LATE_RANK kills itself at its n-th send, or,
 * for 0, when it creates its link. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <weft/host.h>
#include <weft/link.h>

#include "../../wrapped.h"

static const weft_host *host;
static const weft_manifest *tcp;
static const weft_link_table *below;
static weft_link_table table;
static int is_late;
static uint32_t my_rank;
static long dies_after = -1; /* sends; -1: it does not */

static void sleep_at(const char *place)
{
    const char *at = getenv("LATE_AT"), *ms = getenv("LATE_MS");
    if (!is_late || !ms || strcmp(at ? at : "create", place) != 0)
        return;
    const long n = strtol(ms, NULL, 10);
    struct timespec t = {n / 1000, n % 1000 * 1000000};
    nanosleep(&t, NULL);
    is_late = 0;
}

static void write_hello(const char *path, const char *job)
{
    const weft_host_tls *tls = host->iface(host->ctx, "weft.host.tls/1");
    char label[192], bytes[4096];
    weft_tls *session = NULL;
    int ends[2], out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    snprintf(label, sizeof label, "weft.tcp %s 0", job);
    if (out < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    if (tls->start(tls->ctx, ends[0], 0, label, &session) != WEFT_OK ||
        tls->handshake(session) != WEFT_BUSY)
        abort();
    ssize_t n = read(ends[1], bytes, sizeof bytes);
    if (n <= 0 || write(out, bytes, (size_t)n) != n)
        abort();
    tls->end(session);
    close(ends[0]);
    close(ends[1]);
    close(out);
}

static weft_status create(void *module, const weft_link_args *args, weft_link **out)
{
    const char *rank = getenv("LATE_RANK"), *hello = getenv("LATE_HELLO"),
               *dies = getenv("LATE_DIES");
    my_rank = args->rank;
    is_late = rank && args->rank == strtoul(rank, NULL, 10);
    if (is_late && hello)
        write_hello(hello, args->job_id);
    dies_after = is_late && dies ? strtol(dies, NULL, 10) : -1;
    if (!dies_after)
        raise(SIGKILL);
    sleep_at("create");
    return below->create(module, args, out);
}

static weft_status connect_late(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    sleep_at("connect");
    return below->connect(l, args, out);
}

static weft_status send_or_die(weft_conn *c, const void *from, uint64_t bytes, weft_region *region,
                               uint32_t flags)
{
    if (dies_after > 0 && --dies_after == 0)
        raise(SIGKILL);
    return below->send(c, from, bytes, region, flags);
}

static void write_end(const char *call)
{
    const char *folder = getenv("LATE_ENDS");
    char path[4200];
    snprintf(path, sizeof path, "%s/%u", folder ? folder : "", my_rank);
    FILE *f = folder ? fopen(path, "ae") : NULL;
    if (f) {
        fprintf(f, "%s\n", call);
        fclose(f);
    }
}

static void abort_link(weft_link *l)
{
    write_end("abort");
    below->abort(l);
}

static void disconnect(weft_conn *c)
{
    write_end("disconnect");
    below->disconnect(c);
}

static void destroy(weft_link *l)
{
    write_end("destroy");
    below->destroy(l);
}

static weft_status module_open(const weft_host *h, void **module)
{
    host = h;
    return tcp->open(h, module);
}

const weft_manifest *weft_plugin_entry(void)
{
    tcp = wrapped_load(LATE_TCP, "weft.test.late", "late", &table, sizeof table);
    if (!tcp)
        return NULL;
    below = tcp->components[0]->table;
    table.create = create;
    table.connect = connect_late;
    table.send = send_or_die;
    table.abort = abort_link;
    table.disconnect = disconnect;
    table.destroy = destroy;
    wrapped_manifest.open = module_open;
    return &wrapped_manifest;
}
