/* check/link/channels.c: several connections of one pair at once. */
#include "check/link/link.h"

#include <weft/device.h>

/* How many channels may have operations in flight; 0: any number. */
static uint32_t channels_of(const check_end *e)
{
    uint64_t caps = e->t->caps;
    uint32_t channels = e->t->channels;
    if (WEFT_HAS(e->t, features))
        (void)!CHECK_LINK(e, features, e->module, e->conf, &caps, &channels);
    return channels;
}

/* --- one is blocked --- */

#define SENDS 16u
#define PART ((uint64_t)512 << 10)
#define ROUNDS 50u

static void blocked(check_end *e)
{
    uint64_t done = 0, sent, received, state = e->run->seed;
    if (channels_of(e) == 1)
        check_not_applicable("'%s' allows operations on one channel at a time", e->c->name);
    weft_conn *full = check_end_connect(e, e->peer, 0), *other = check_end_connect(e, e->peer, 1);
    unsigned char *at = e->memory + 2000;
    if (!e->rank)
        for (uint32_t i = 0; i < SENDS; i++)
            check_end_send(e, full, at, PART);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        check_end_rounds(e, other, 1, check_end_size(e, &state, 1000), &done,
                         "while another channel is blocked");
        if (!e->rank)
            check_end_progress(e, full, &sent, &received);
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
    for (uint32_t i = 0; e->rank && i < SENDS; i++)
        check_end_recv(e, full, at, PART);
    check_end_finish(e, full, e->rank ? 0 : SENDS, e->rank ? SENDS : 0);
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_blocked(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 3, .memory = 2000 + PART, .others_only = true, .run = blocked};
    check_link_run(r, &job);
}

/* --- as many as declared --- */

#define CHANNELS 6u
#define BYTES ((uint64_t)1 << 20)
#define CAPACITY (BYTES + 4)

/* The two ranks begin and post in opposite orders: what waits for one channel before it serves
 * another waits for ever. */
static void together(check_end *e)
{
    const uint32_t max = channels_of(e), n = max && max < CHANNELS ? max : CHANNELS;
    weft_conn *c[CHANNELS];
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t ch = e->rank ? n - 1 - i : i;
        c[ch] = check_end_begin(e, e->peer, ch);
    }
    for (uint32_t ch = 0; ch < n; ch++)
        check_end_ready(e, c[ch]);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t ch = e->rank ? n - 1 - i : i;
        const uint64_t bytes = BYTES + 1 - ch;
        check_pattern(e->memory + ch * CAPACITY, bytes, ch + 1);
        check_end_send(e, c[ch], e->memory + ch * CAPACITY, bytes);
        check_end_recv(e, c[ch], e->memory + (CHANNELS + ch) * CAPACITY, bytes);
    }
    for (uint32_t left = n; left;) {
        left = 0;
        for (uint32_t ch = 0; ch < n; ch++) {
            uint64_t sent = 0, received = 0;
            check_end_progress(e, c[ch], &sent, &received);
            left += !sent || !received;
        }
        check_end_wait(e, "messages on all channels that it allows at once, which the two ranks "
                          "posted in opposite orders");
    }
    for (uint32_t ch = 0; ch < n; ch++)
        if (!check_pattern_holds(e->memory + (CHANNELS + ch) * CAPACITY, BYTES + 1 - ch, ch + 1))
            check_fail("with %u channels at once, '%s' delivered other bytes on channel %u than "
                       "were sent there",
                       n, e->c->name, ch);
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_together(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 3, .memory = 2 * CHANNELS * CAPACITY, .run = together};
    check_link_run(r, &job);
}
