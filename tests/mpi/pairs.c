/* pairs.c: what the pairs of the plugin mpi promise beyond the checks of any link. Every case runs
 * with a link of its own; those that fail connections are the last, since MPI is not finalized
 * after them. */
#include "pairs.h"

#include "base/clock.h"

#include <string.h>

enum { LAST_CHANNEL = 4095, ROUNDS = 500, BYTES = 8 };

static void expect(const check_end *e, weft_status got, weft_status want, const char *words)
{
    if (got != want || !strstr(e->host.why, words))
        check_fail("%s is due on rank %u, with '%s'; a call returned %s: %s", check_status(want),
                   e->rank, words, check_status(got), e->host.why);
}

static void *stream(void *arg)
{
    check_end *e = arg;
    uint64_t done = 0;
    weft_conn *c = check_end_connect(e, e->peer, LAST_CHANNEL);
    check_end_rounds(e, c, ROUNDS, BYTES, &done, "beside another link of its process");
    check_end_down(e, c);
    return NULL;
}

/* Two links of a process are in two threads at once. */
static void two_threads(check_end *e)
{
    check_end other = *e;
    pthread_t thread;
    other.address = check_shared(e->ranks * sizeof *other.address);
    other.memory += 2 * BYTES;
    check_end_up(&other);
    if (pthread_create(&thread, NULL, stream, &other))
        check_fail("no thread for the check");
    stream(e);
    pthread_join(thread, NULL);
    PLUGIN_DO(other.t, destroy, other.link);
}

/* A receive that nothing will match does not keep disconnect(). */
static void left_receive(check_end *e)
{
    weft_conn *c = check_end_connect(e, e->peer, 2);
    check_end_recv(e, c, e->memory, BYTES);
    const uint64_t began = clock_ms();
    check_end_down(e, c);
    if (clock_ms() - began >= 1500)
        check_fail("disconnect() with a receive that nothing matches took %llu ms",
                   (unsigned long long)(clock_ms() - began));
}

static void refusals(check_end *e)
{
    uint64_t n;
    weft_conn *c = check_end_connect(e, e->peer, 3), *none;
    const uint32_t unknown = 1;
    expect(e, CHECK_LINK(e, send, c, e->memory, BYTES, NULL, unknown), WEFT_UNSUPPORTED, "");
    expect(e, CHECK_LINK(e, progress, c, unknown, &n, &n), WEFT_UNSUPPORTED, "");
    expect(e, CHECK_LINK(e, wait, e->link, 0, 10, unknown), WEFT_UNSUPPORTED, "");
    check_host_clear(&e->host);
    weft_conn_args args = {sizeof args, 0, e->peer, 4, e->address[e->peer], 5};
    expect(e, CHECK_LINK(e, connect, e->link, &args, &none), WEFT_DATA, "addresses of 4 bytes");
    args = (weft_conn_args){sizeof args, 0, e->peer, LAST_CHANNEL + 1, e->address[e->peer], 4};
    expect(e, CHECK_LINK(e, connect, e->link, &args, &none), WEFT_DATA, "4096 channels");
}

/* Rank 0 sends more or less than the 200 bytes that rank 1 expects. */
static void unequal(check_end *e)
{
    static const struct {
        uint64_t sends;
        const char *words;
    } cases[] = {{100, "rank 0 has sent 100 bytes where 200 are expected"},
                 {300, "could not receive 200 bytes from rank 0: "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_conn *c = check_end_connect(e, e->peer, (uint32_t)cases[i].sends);
        if (e->rank) {
            check_host_clear(&e->host);
            check_end_recv(e, c, e->memory, 200);
            expect(e, check_end_fate(e, c, 20000), WEFT_PEER, cases[i].words);
        } else {
            check_end_send(e, c, e->memory, cases[i].sends);
            check_end_finish(e, c, 1, 0); /* disconnect() cancels what is still on its way */
        }
        check_end_down(e, c);
    }
}

void mpi_check_pairs(check_run *r)
{
    static void (*const cases[])(check_end * e) = {two_threads, left_receive, refusals, unequal};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_link_run(
            r,
            &(check_link_job){
                .ranks = 2, .seconds = 60, .memory = 4096, .others_only = true, .run = cases[i]});
}
