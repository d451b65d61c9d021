/* comm/info.c: see info.h. Ranks with different operations on a channel would deadlock, so each
 * compares the digests of its peers first. */
#include "comm/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/number/digest.h"

#define INFO_MAGIC 0x63617264u

/* An operation executed by devices, identified by channel, kind, peer or root, and the number of
 * equal ones before it. */
typedef struct info_place {
    uint64_t who;
    uint32_t kind, root;
    sched_buffer_offsets at;
} info_place;

/* --- digests --- */

static void mix(uint64_t *digest, const void *bytes, uint64_t n)
{
    *digest = *digest ? *digest : DIGEST_BEGIN;
    digest_mix(digest, bytes, n);
}

void comm_info_digest_channel(comm_channel *c)
{
    mix(&c->who, c->name, strlen(c->name));
    mix(&c->who, c->ranks, c->n * sizeof *c->ranks);
}

/* Sends and receives involve two ranks only and are not in the digest: the link compares their
 * lengths. */
void comm_info_digest_op(comm_channel *c, const sched_request *r)
{
    if (r->kind == WEFT_SEND || r->kind == WEFT_RECV)
        return;
    uint64_t all[] = {r->kind, r->redop, r->dtype, r->count, r->root, r->chunk, r->compress};
    mix(&c->what, all, sizeof all);
    mix(&c->what, r->algorithm, strlen(r->algorithm));
}

/* --- put and get --- */

static void info_name(const comm_link *l, uint32_t rank, uint32_t meeting, char out[200])
{
    uint32_t number = 0; /* an axis with checksums and one without have links of one name */
    while (l->world->links.at[number] != l)
        number++;
    snprintf(out, 200, "comm/%u/%u/%.64s/%u", meeting, number, l->component->name, rank);
}

static info_place place_of(const comm_op *op)
{
    const sched_request *r = &op->schedule->r;
    return (info_place){op->channel->who, r->kind, r->root, op->where[op->channel->me]};
}

static uint64_t info_bytes(const comm_info *c)
{
    return sizeof *c + (uint64_t)c->channels * 2 * sizeof(uint64_t) +
           c->places * sizeof(info_place);
}

static const info_place *info_places(const comm_info *c)
{
    return (const info_place *)((const uint64_t *)(c + 1) + (size_t)c->channels * 2);
}

static comm_info *make_info(const comm_link *l, const comm_fd_passing_socket *box)
{
    comm_info head = {.magic = INFO_MAGIC,
                      .channels = l->channels.n,
                      .checked = l->checked,
                      .address_bytes = COMM_INFO_BLOB,
                      .key_bytes = COMM_INFO_BLOB,
                      .arena_bytes = l->world->arena.bytes,
                      .device_bytes = l->world->arena.stage.bytes,
                      .pass = box->at};
    (void)!gethostname(head.host, sizeof head.host - 1);
    for (uint32_t i = 0; i < l->ops.n; i++)
        head.places += l->ops.at[i]->kind == &comm_kind_imported;
    comm_info *mine = mem_alloc(info_bytes(&head));
    *mine = head;
    uint64_t *digest = (uint64_t *)(mine + 1);
    for (uint32_t i = 0; i < l->channels.n; i++) {
        *digest++ = l->channels.at[i]->who;
        *digest++ = l->channels.at[i]->what;
    }
    info_place *place = (info_place *)digest;
    for (uint32_t i = 0; i < l->ops.n; i++)
        if (l->ops.at[i]->kind == &comm_kind_imported)
            *place++ = place_of(l->ops.at[i]);
    return mine;
}

weft_status comm_info_put(comm_link *l, uint32_t meeting, const comm_fd_passing_socket *box)
{
    comm_info *mine = make_info(l, box);
    weft_status st = PLUGIN_CALL(l->table, address, l->link, mine->address, &mine->address_bytes);
    if (!l->region || !(l->table->caps & WEFT_LINK_MAP))
        mine->key_bytes = 0;
    else if (st == WEFT_OK)
        st = PLUGIN_CALL(l->table, key, l->region, mine->key, &mine->key_bytes);
    if (st == WEFT_OK && (mine->address_bytes > COMM_INFO_BLOB || mine->key_bytes > COMM_INFO_BLOB))
        st = err_fail(WEFT_INTERNAL, "link %s: its address or key is longer than 4096 bytes",
                      l->component->name);
    char name[200];
    info_name(l, l->world->who.rank, meeting, name);
    if (st == WEFT_OK)
        st = job_put(l->world->job, name, mine, info_bytes(mine));
    free(mine);
    return st;
}

weft_status comm_info_get(comm_link *l, uint32_t rank, uint32_t meeting, double seconds,
                          comm_info **out)
{
    char name[200];
    void *value = NULL;
    uint64_t bytes = 0;
    info_name(l, rank, meeting, name);
    weft_status st = job_get(l->world->job, name, seconds, &value, &bytes);
    if (st != WEFT_OK) {
        err_context("waiting for the address of rank %u on %s", rank, l->component->name);
        return st;
    }
    comm_info *c = value;
    if (bytes < sizeof *c || c->magic != INFO_MAGIC || c->address_bytes > COMM_INFO_BLOB ||
        c->key_bytes > COMM_INFO_BLOB || bytes != info_bytes(c)) {
        free(value);
        return err_fail(WEFT_DATA, "link %s: the address of rank %u is malformed",
                        l->component->name, rank);
    }
    *out = c;
    return WEFT_OK;
}

weft_status comm_info_compare(const comm_channel *c, uint32_t peer, const comm_info *theirs)
{
    const uint64_t *digest = (const uint64_t *)(theirs + 1);
    uint32_t rank = c->ranks[peer];
    if (theirs->checked != c->link->checked)
        return err_fail(WEFT_USAGE,
                        "channel %s: rank %u sends %s checksums and this rank %s: give [comm] "
                        "checksum and that of the mesh axis the same value on all ranks",
                        c->name, rank, theirs->checked ? "with" : "without",
                        c->link->checked ? "with" : "without");
    for (uint32_t i = 0; i < theirs->channels; i++, digest += 2) {
        if (digest[0] != c->who)
            continue;
        if (digest[1] == c->what)
            return WEFT_OK;
        return err_fail(WEFT_PEER,
                        "channel %s: rank %u has other operations on it (kinds, counts, types or "
                        "algorithms differ); all ranks must run the same configuration and program",
                        c->name, rank);
    }
    return err_fail(WEFT_PEER,
                    "channel %s: rank %u has no channel of this name over the same ranks", c->name,
                    rank);
}

/* The peer's k-th send to this rank is this rank's k-th receive from it; collectives are equal on
 * all ranks. */
weft_status comm_info_find_offsets(comm_op *op, uint32_t peer, const comm_info *theirs)
{
    const comm_channel *c = op->channel;
    const info_place mine = place_of(op), *at = info_places(theirs);
    const int sends = mine.kind == WEFT_SEND, pair = sends || mine.kind == WEFT_RECV;
    uint32_t before = 0, seen = 0;
    for (uint32_t i = 0; c->link->ops.at[i] != op; i++) {
        const comm_op *o = c->link->ops.at[i];
        const info_place p = place_of(o);
        before +=
            o->kind == op->kind && o->channel == c && p.kind == mine.kind && p.root == mine.root;
    }
    const uint32_t kind = !pair ? mine.kind : sends ? WEFT_RECV : WEFT_SEND;
    const uint32_t root = pair ? c->me : mine.root;
    for (uint32_t i = 0; i < theirs->places; i++)
        if (at[i].who == c->who && at[i].kind == kind && at[i].root == root && seen++ == before) {
            op->where[peer] = at[i].at;
            return WEFT_OK;
        }
    return err_fail(WEFT_PEER, "%s: rank %u has no such operation on channel %s", op->name,
                    c->ranks[peer], c->name);
}
