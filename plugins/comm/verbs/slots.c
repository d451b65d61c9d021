/* slots.c: short messages, and those whose memory is not registered, through slots at the receiver.
 *
 * Each end has a ring of slots for what the other sends. A message of up to `eager` bytes is one
 * write with immediate into the next slot: it needs no credit and crosses the network once. If it
 * fits into the request itself (inline), it is sent from where it is; else it is copied to a
 * staging slot first. In both cases the sender's memory is free at once.
 *
 * A longer message takes as many slots as it needs, after its credit, if one of the two memories is
 * not registered. Slots are used in order on pair 0, so an announcement does not name its slot. The
 * receiver copies them out, and sends after each quarter of the ring how many are free. */
#include "verbs.h"

#include <arpa/inet.h>
#include <string.h>

uint32_t verbs_immediate(enum announcement kind, uint64_t number, uint64_t count)
{
    return (uint32_t)kind << 30 | (uint32_t)(number % NUMBERS) << 19 | (uint32_t)count;
}

weft_status verbs_length_mismatch(weft_conn *c, uint64_t number, uint64_t sent, uint64_t expected)
{
    return sockets_break(
        &c->peer, WEFT_PEER,
        "message %llu of channel %u: rank %u sent %llu bytes, this rank expects %llu",
        (unsigned long long)number - 1, c->peer.channel, c->peer.rank, (unsigned long long)sent,
        (unsigned long long)expected);
}

/* The next slot is free at the peer, and its staging copy is not in use. */
static bool is_free(const weft_conn *c)
{
    return c->slots_out - c->slots_free < c->slots && verbs_capacity(&c->pair[0]) &&
           c->pair[0].done >= c->slot_request[c->slots_out % c->slots];
}

static bool put(weft_conn *c, enum announcement kind, uint64_t number, const void *from,
                uint64_t bytes)
{
    uint32_t at = (uint32_t)(c->slots_out % c->slots);
    struct ibv_sge piece = {.addr = (uintptr_t)from, .length = (uint32_t)bytes};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM};
    bool staged = bytes > c->pair[0].inlined;
    if (!is_free(c))
        return false;
    if (staged) {
        uint8_t *copy = c->staged + (uint64_t)at * c->mine.slot_bytes;
        memcpy(copy, from, bytes);
        piece.addr = (uintptr_t)copy;
        piece.lkey = c->mr->lkey;
    }
    wr.sg_list = &piece;
    wr.num_sge = bytes > 0 ? 1 : 0;
    wr.send_flags = staged || bytes == 0 ? 0 : IBV_SEND_INLINE;
    wr.imm_data = htonl(verbs_immediate(kind, number, bytes));
    wr.wr.rdma.remote_addr = c->theirs.slots_at + (uint64_t)at * c->theirs.slot_bytes;
    wr.wr.rdma.rkey = c->theirs.slots_key;
    /* A staging copy is free when a later request is known to be done. So one in each quarter is
     * signaled, whether it has such a copy or not. */
    const uint32_t quarter = c->slots / 4;
    if (verbs_post(c, 0, OP_SLOT, &wr, at % quarter == quarter - 1) != WEFT_OK)
        return false;
    c->slot_request[at] = staged ? c->pair[0].posted : 0;
    c->slots_out++;
    return true;
}

bool verbs_put_slots(weft_conn *c, message *m)
{
    enum announcement kind = m->bytes <= c->eager ? MESSAGE_WHOLE : MESSAGE_PART;
    do {
        uint64_t left = m->bytes - m->moved;
        uint64_t part = left < c->slot_bytes ? left : c->slot_bytes;
        if (!put(c, kind, m->number, m->at + m->moved, part))
            return false;
        m->moved += part;
    } while (m->moved < m->bytes);
    return true;
}

weft_status verbs_slot_arrived(weft_conn *c, uint32_t imm)
{
    if (c->slots_in - c->slots_taken == c->slots || (imm & 0x7ffff) > c->slot_bytes)
        return sockets_break(
            &c->peer, WEFT_DATA,
            "rank %u used more slots of channel %u, or longer ones, than this rank has",
            c->peer.rank, c->peer.channel);
    c->arrival[c->slots_in++ % c->slots] = imm;
    return WEFT_OK;
}

/* Take what has arrived of the first unfinished receive; true: it is complete. */
bool verbs_take_slots(weft_conn *c, message *m)
{
    bool whole = false;
    while (!whole && c->slots_taken < c->slots_in) {
        uint32_t at = (uint32_t)(c->slots_taken % c->slots), imm = c->arrival[at];
        uint64_t bytes = imm & 0x7ffff, left = m->bytes - m->moved;
        bool part = imm >> 30 == MESSAGE_PART;
        if ((imm >> 19) % NUMBERS != m->number % NUMBERS)
            break; /* of a later message; this one is written directly */
        if (!part && bytes != m->bytes) {
            (void)!verbs_length_mismatch(c, m->number, bytes, m->bytes);
            break;
        }
        if (part && (bytes == 0 || bytes > left || m->bytes <= c->eager)) {
            (void)!sockets_break(&c->peer, WEFT_DATA,
                                 "rank %u sent an invalid part of a message on channel %u",
                                 c->peer.rank, c->peer.channel);
            break;
        }
        if (bytes > 0 && m->region && m->region->device) {
            (void)!sockets_break(&c->peer, WEFT_UNSUPPORTED,
                                 "rank %u sends on channel %u from memory that is not registered, "
                                 "and this rank receives into a device's memory",
                                 c->peer.rank, c->peer.channel);
            break;
        }
        if (bytes > 0)
            memcpy(m->at + m->moved, c->slot + (uint64_t)at * c->mine.slot_bytes, bytes);
        c->slots_taken++;
        m->moved += bytes;
        whole = m->moved == m->bytes;
    }
    if (c->slots_taken - c->slots_reported >= c->slots / 4)
        (void)verbs_send_free(c); /* if it fails, progress() tries again */
    return whole;
}
