/* check/link/sizes.c: messages of all sizes of lengths.h, at odd places, and of more than 4 GiB.
 *
 * The long message needs little memory: its pages are the same few over and over, at both ends. Its
 * last bytes have a page of their own. */
#define _GNU_SOURCE /* memfd_create */
#include "check/link/link.h"

#include <sys/mman.h>
#include <unistd.h>

#define PIECE ((uint64_t)64 << 20)
#define PIECES 64u /* 4 GiB */
#define TAIL 5u
#define PAGE 65536u
#define LONG (PIECES * PIECE + TAIL)
#define CAPACITY (CHECK_SIZES_TO + 64)

/* PIECES times the same memory, then a page. */
static unsigned char *long_memory(void)
{
    const int piece = memfd_create("weft-check-piece", MFD_CLOEXEC);
    unsigned char *at = mmap(NULL, PIECES * PIECE + PAGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool good = piece >= 0 && at != MAP_FAILED && !ftruncate(piece, (off_t)PIECE);
    for (uint32_t i = 0; good && i < PIECES; i++)
        good = mmap(at + i * PIECE, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, piece,
                    0) != MAP_FAILED;
    if (!good)
        check_fail("no address space for a message of more than 4 GiB");
    close(piece);
    return at;
}

typedef struct long_message {
    unsigned char *out, *in;
    weft_region *region[2]; /* of both, where the transport wants them */
    bool left_out;          /* the machine does not let so much memory be registered */
} long_message;

static weft_region *add(check_end *e, long_message *m, void *at)
{
    const weft_memory memory = {sizeof memory, 0, at, LONG, -1, 0};
    weft_region *r = NULL;
    if (!at || !(e->t->caps & WEFT_LINK_REGISTER))
        return NULL;
    const weft_status st = CHECK_LINK(e, register_memory, e->link, &memory, &r);
    if (st == WEFT_NO_MEMORY || st == WEFT_UNSUPPORTED)
        m->left_out = true;
    else
        check_end_ok(e, st, "register_memory");
    check_host_clear(&e->host);
    return r;
}

/* Rank 0 sends it. Memory is registered before connect(). */
static void prepare(check_end *e, long_message *m)
{
    unsigned char all[16];
    m->out = e->rank ? NULL : long_memory();
    m->in = e->peer ? NULL : long_memory();
    m->region[0] = add(e, m, m->out);
    m->region[1] = add(e, m, m->in);
    const unsigned char mine = m->left_out;
    check_rank_exchange(e->k, &mine, 1, all);
    for (uint32_t i = 0; i < e->ranks; i++)
        m->left_out = m->left_out || all[i];
}

static void over_4_gib(check_end *e, weft_conn *c, const long_message *m, uint64_t done)
{
    if (m->in)
        check_end_ok(e, CHECK_LINK(e, recv, c, m->in, LONG, m->region[1], 0), "recv");
    if (m->out) {
        check_pattern(m->out, PIECE, 1);
        check_pattern(m->out + PIECES * PIECE, TAIL, 2);
        check_end_ok(e, CHECK_LINK(e, send, c, m->out, LONG, m->region[0], 0), "send");
    }
    check_end_finish(e, c, done + (m->out != NULL), done + (m->in != NULL));
    if (m->in && (!check_pattern_holds(m->in, PIECE, 1) ||
                  !check_pattern_holds(m->in + PIECES * PIECE, TAIL, 2)))
        check_fail("a message of %llu bytes, more than 4 GiB, arrived in part only at '%s': the "
                   "receive is counted and bytes are missing",
                   (unsigned long long)LONG, e->c->name);
}

static void one_size(check_end *e, weft_conn *c, uint64_t bytes, uint64_t k)
{
    const uint64_t off = k * 3 % 13; /* most are not aligned */
    unsigned char *out = e->memory + off, *in = e->memory + CAPACITY + off;
    *in = in[1 + bytes] = 0xee;
    check_pattern(out, bytes, k + e->rank);
    check_end_recv(e, c, in + 1, bytes);
    check_end_send(e, c, out, bytes);
    check_end_finish(e, c, k, k);
    if (!check_pattern_holds(in + 1, bytes, k + e->peer))
        check_fail("a message of %llu bytes arrived with other bytes at '%s'",
                   (unsigned long long)bytes, e->c->name);
    if (*in != 0xee || in[1 + bytes] != 0xee)
        check_fail("a receive of %llu bytes at '%s' wrote outside of its memory",
                   (unsigned long long)bytes, e->c->name);
}

static void exchange(check_end *e)
{
    long_message m = {0};
    prepare(e, &m);
    weft_conn *c = check_end_connect(e, e->peer, 0);
    for (uint32_t i = 0; i < e->sizes.n; i++)
        one_size(e, c, e->sizes.at[i], i + 1);
    if (!m.left_out)
        over_4_gib(e, c, &m, e->sizes.n);
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_sizes(check_run *r)
{
    const check_link_job job = {.ranks = 2, .seconds = 30, .memory = 2 * CAPACITY, .run = exchange};
    check_link_run(r, &job);
}
