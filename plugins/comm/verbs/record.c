/* record.c: control messages of a connection, as sends of RECORD bytes on pair 0.
 *
 *   credit   for a long receive that is posted: its number, address, bytes, a key for each rail,
 *            and whether the peer may write into it; else the message comes through slots
 *   free     how many slots have been emptied since the start
 *   want     for a long send that has waited for its credit: its number and bytes. So ends that
 *            disagree about a length fail with both numbers instead of waiting for each other
 *
 * Only violations of the protocol are found here. The NIC checks addresses against keys. */
#include "verbs.h"

#include <string.h>

enum kind { CREDIT = 1, FREE, WANT };

static bool send_record(weft_conn *c, const uint8_t text[RECORD])
{
    qpair *p = &c->pair[0];
    uint8_t *copy = c->records_out + p->posted % SEND_DEPTH * RECORD;
    struct ibv_sge piece = {.addr = (uintptr_t)copy, .length = RECORD, .lkey = c->mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &piece, .num_sge = 1};
    if (!verbs_capacity(p))
        return false;
    memcpy(copy, text, RECORD);
    if (p->inlined >= RECORD)
        wr.send_flags = IBV_SEND_INLINE;
    return verbs_post(c, 0, OP_RECORD, &wr, false) == WEFT_OK;
}

bool verbs_send_credit(weft_conn *c, message *m)
{
    uint8_t text[RECORD] = {CREDIT, m->region != NULL};
    verbs_put(text + 8, m->number, 8);
    verbs_put(text + 16, (uintptr_t)m->at, 8);
    verbs_put(text + 24, m->bytes, 8);
    for (uint32_t i = 0; m->region && i < c->link->nrails; i++)
        verbs_put(text + 32 + 4 * (size_t)i, m->region->mr[i]->rkey, 4);
    if (!send_record(c, text))
        return false;
    m->direct = m->region;
    return true;
}

bool verbs_send_free(weft_conn *c)
{
    uint8_t text[RECORD] = {FREE};
    verbs_put(text + 8, c->slots_taken, 8);
    if (!send_record(c, text))
        return false;
    c->slots_reported = c->slots_taken;
    return true;
}

bool verbs_send_want(weft_conn *c, const message *m)
{
    uint8_t text[RECORD] = {WANT};
    if (c->want_sent == m->number)
        return true;
    verbs_put(text + 8, m->number, 8);
    verbs_put(text + 16, m->bytes, 8);
    if (!send_record(c, text))
        return false;
    c->want_sent = m->number;
    return true;
}

void verbs_compare_want(weft_conn *c)
{
    uint64_t place = c->want_number - 1;
    const message *m = &c->in.m[place % QUEUE];
    if (c->want_number > c->in.done && c->want_number <= c->in.posted && m->bytes != c->want_bytes)
        (void)!verbs_length_mismatch(c, c->want_number, c->want_bytes, m->bytes);
}

weft_status verbs_record(weft_conn *c, const uint8_t *text, uint32_t bytes)
{
    uint64_t number = verbs_get(text + 8, 8);
    if (bytes == RECORD && text[0] == CREDIT && number <= c->out.issued) {
        return c->peer.broken; /* sent without a credit: it is shorter, and the peer reports it */
    } else if (bytes == RECORD && text[0] == CREDIT && number - c->out.issued <= QUEUE) {
        credit *to = &c->credit[number % QUEUE];
        *to = (credit){.number = number,
                       .at = verbs_get(text + 16, 8),
                       .bytes = verbs_get(text + 24, 8),
                       .direct = text[1] == 1};
        for (int i = 0; i < RAILS; i++)
            to->key[i] = (uint32_t)verbs_get(text + 32 + 4 * i, 4);
    } else if (bytes == RECORD && text[0] == FREE && number >= c->slots_free &&
               number <= c->slots_out) {
        c->slots_free = number;
    } else if (bytes == RECORD && text[0] == WANT && number > 0) {
        c->want_number = number;
        c->want_bytes = verbs_get(text + 16, 8);
        verbs_compare_want(c);
    } else {
        return sockets_break(&c->peer, WEFT_DATA,
                             "rank %u sent an invalid control message on channel %u", c->peer.rank,
                             c->peer.channel);
    }
    return c->peer.broken;
}
