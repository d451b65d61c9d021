/* direct.c: long messages, written into the receiver's memory.
 *
 * The receiver's credit has the address. The message is split into as many stripes as there are
 * queue pairs, none shorter than STRIPE. Each stripe goes to a pair of its own, in requests of the
 * largest size that the device accepts. The last request of a stripe carries an immediate: number
 * of the message, number of stripes. Pairs are not ordered among each other, so a message has
 * arrived when all its stripes have. The next message begins with the next pair, so that messages
 * of one stripe use all pairs, too. */
#include "verbs.h"

#include <arpa/inet.h>

static uint32_t stripes_of(const weft_conn *c, uint64_t bytes)
{
    uint64_t n = bytes / STRIPE;
    return n < 1 ? 1 : n > c->pairs ? c->pairs : (uint32_t)n;
}

/* Bytes of each of n stripes but the last: whole pages, and the last stripe is not empty. */
static uint64_t stripe_of(uint64_t bytes, uint32_t n)
{
    _Static_assert((PAIRS - 1) * 4096 < STRIPE, "rounding takes less than a stripe in all");
    return ((bytes + n - 1) / n + 4095) / 4096 * 4096;
}

static struct ibv_send_wr request(struct ibv_sge *piece, const weft_conn *c, uint32_t pair,
                                  const message *m, uint64_t at, uint64_t bytes)
{
    const qpair *p = &c->pair[pair];
    *piece = (struct ibv_sge){.addr = (uintptr_t)(m->at + at),
                              .length = (uint32_t)bytes,
                              .lkey = m->region->mr[p->rail]->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = piece, .num_sge = 1};
    if (bytes <= p->inlined && !m->region->device)
        wr.send_flags = IBV_SEND_INLINE;
    return wr;
}

/* Post what can be posted; true: that was all. */
bool verbs_put_stripes(weft_conn *c, message *m, const credit *to)
{
    uint32_t n = stripes_of(c, m->bytes);
    const uint64_t size = stripe_of(m->bytes, n);
    if (m->next_stripe == 0 && m->in_stripe == 0)
        m->first = c->stripe_first;
    for (; m->next_stripe < n; m->next_stripe++, m->in_stripe = 0) {
        uint32_t pair = (m->first + m->next_stripe) % c->pairs;
        uint64_t from = m->next_stripe * size, left = m->bytes - from;
        uint64_t length = left < size ? left : size;
        while (m->in_stripe < length) {
            uint64_t rest = length - m->in_stripe, at = from + m->in_stripe;
            uint64_t part = rest < c->longest ? rest : c->longest;
            struct ibv_sge piece;
            struct ibv_send_wr wr = request(&piece, c, pair, m, at, part);
            if (part == rest) {
                wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
                wr.imm_data = htonl(verbs_immediate(MESSAGE_DATA, m->number, n));
            }
            wr.wr.rdma.remote_addr = to->at + at;
            wr.wr.rdma.rkey = to->key[(c->peer.channel + pair) % c->theirs.rails];
            if (!verbs_capacity(&c->pair[pair]) ||
                verbs_post(c, pair, OP_DATA, &wr, part == rest) != WEFT_OK)
                return false;
            m->in_stripe += part;
        }
        m->last[pair] = c->pair[pair].posted;
    }
    c->stripe_first = (m->first + n) % c->pairs;
    return true;
}

weft_status verbs_stripe_arrived(weft_conn *c, uint32_t imm)
{
    uint64_t first = c->in.done + 1; /* the number of the first unfinished receive */
    uint64_t ahead = ((imm >> 19) - first) % NUMBERS;
    uint32_t n = imm & 0x7ffff;
    message *m = &c->in.m[(c->in.done + ahead) % QUEUE];
    bool known = ahead < c->in.posted - c->in.done && m->direct && n >= 1 && n <= PAIRS;
    if (!known || (m->stripes != 0 && m->stripes != n) || m->arrived == n || m->moved > 0)
        return sockets_break(&c->peer, WEFT_DATA,
                             "rank %u wrote a message on channel %u that no posted receive expects",
                             c->peer.rank, c->peer.channel);
    m->stripes = n;
    m->arrived++;
    return WEFT_OK;
}
