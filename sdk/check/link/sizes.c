/* check/link/sizes.c: messages of 0 bytes, of odd sizes and places, and of more than 4 GiB.
 *
 * The long message needs little memory: its pages are the same few over and over, at both ends. Its
 * last bytes have a page of their own. */
#define _GNU_SOURCE /* memfd_create */
#include "check/link/link.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE ((uint64_t)64 << 20)
#define PIECES 64u /* 4 GiB */
#define TAIL 5u
#define PAGE 65536u
#define ROOM ((uint64_t)1 << 20)

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

static void over_4_gib(check_end *e, weft_conn *c, uint64_t sent, uint64_t received)
{
    const bool sends = !e->rank, receives = e->peer == 0;
    unsigned char *out = sends ? long_memory() : NULL, *in = receives ? long_memory() : NULL;
    const uint64_t bytes = PIECES * PIECE + TAIL;
    if (receives)
        check_end_recv(e, c, in, bytes);
    if (sends) {
        check_pattern(out, PIECE, 1);
        check_pattern(out + PIECES * PIECE, TAIL, 2);
        check_end_send(e, c, out, bytes);
    }
    check_end_finish(e, c, sent + sends, received + receives);
    if (receives &&
        (!check_pattern_holds(in, PIECE, 1) || !check_pattern_holds(in + PIECES * PIECE, TAIL, 2)))
        check_fail("a message of %llu bytes, more than 4 GiB, arrived in part only at '%s': the "
                   "receive is counted and bytes are missing",
                   (unsigned long long)bytes, e->c->name);
}

static void exchange(check_end *e)
{
    static const uint64_t sizes[] = {0, 1, 2, 3, 0, 5, 4095, 4096, 4097, 65537, ROOM - 64, 1, 0};
    const uint32_t n = sizeof sizes / sizeof *sizes;
    unsigned char *out = e->memory, *in = e->memory + ROOM;
    weft_conn *c = check_end_connect(e, e->peer, 0);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t off = i * 3 % 13; /* most are not aligned */
        memset(in, 0xee, ROOM);
        check_pattern(out + off, sizes[i], i + 1);
        check_end_recv(e, c, in + off + 1, sizes[i]);
        check_end_send(e, c, out + off, sizes[i]);
        check_end_finish(e, c, i + 1, i + 1);
        if (!check_pattern_holds(in + off + 1, sizes[i], i + 1))
            check_fail("a message of %llu bytes arrived with other bytes at '%s'",
                       (unsigned long long)sizes[i], e->c->name);
        if (in[off] != 0xee || in[off + 1 + sizes[i]] != 0xee)
            check_fail("a receive of %llu bytes at '%s' wrote outside of its memory",
                       (unsigned long long)sizes[i], e->c->name);
    }
    if (!(e->t->caps & WEFT_LINK_REGISTER)) /* the long message lies in no registered memory */
        over_4_gib(e, c, n, n);
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_sizes(check_run *r)
{
    const check_link_job job = {.ranks = 2, .seconds = 30, .memory = 2 * ROOM, .run = exchange};
    check_link_run(r, &job);
}
