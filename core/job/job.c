/* job/job.c: the calls of job.h but job_leave(): join, requests.
 *
 * All ranks make requests in the same way: a request is left under the lock, and the answer arrives
 * in the mailbox, from the store in this process or over the wire. Every wait here ends when a rank
 * fails, and has a timeout whose error says what was missing. */
#define _GNU_SOURCE
#include "job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <weft/host.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "job/control/control.h"
#include "job/mailbox.h"
#include "job/roles.h"
#include "job/store/gather.h"
#include "job/store/parts.h"
#include "job/wire/address.h"
#include "job/wire/endpoint.h"
#include "job/wire/key.h"

#define FROZEN_DEFAULT 2.5
#define FROZEN_LEAST 1.0
#define JOIN_DEFAULT 60.0
#define MISSING_MS 5000 /* until rank 0 first logs who is missing */
#define LATE_MS 5000    /* extra time for an answer beyond the timeout given to the store */

static uint64_t milliseconds(double seconds)
{
    return seconds > 0 ? seconds < 4e6 ? (uint64_t)(seconds * 1000) : 4000000000u : 0;
}

/* --- the TLS table --- */

static weft_status table_start(void *ctx, int32_t fd, int32_t accepts, const char *label,
                               weft_tls **out)
{
    const job *j = ctx;
    uint8_t psk[KEY_BYTES];
    weft_status st = job_key_derive(j->key, j->meeting, "tls link", label, psk);
    if (st == WEFT_OK)
        st = job_tls_start(j->tls, fd, accepts != 0, psk, out);
    explicit_bzero(psk, sizeof psk);
    return st;
}

const void *job_tls_table(job *j)
{
    return j ? &j->table : NULL;
}

weft_status job_address(const job *j, char *out, size_t capacity)
{
    return job_address_local(&j->who, out, capacity);
}

weft_status job_subkey(job *j, const char *label, uint8_t out[32])
{
    if (!j)
        return err_fail(WEFT_USAGE, "no job to derive a key from");
    return job_key_derive(j->key, j->meeting, "sub-key", label, out);
}

/* --- creation and destruction --- */

static weft_status make_lock(job *j)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr))
        return err_fail(WEFT_NO_MEMORY, "no memory for a condition variable");
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    j->ready = !pthread_cond_init(&j->moved, &attr) && !pthread_mutex_init(&j->lock, NULL) &&
               !pthread_mutex_init(&j->asking, NULL);
    pthread_condattr_destroy(&attr);
    return j->ready ? WEFT_OK : err_fail(WEFT_NO_MEMORY, "no memory for a lock");
}

static job *make(const job_identity *who, const job_options *opt)
{
    job *j = mem_alloc(sizeof *j);
    double frozen = opt->frozen_after > 0 ? opt->frozen_after : FROZEN_DEFAULT;
    frozen = frozen > FROZEN_LEAST ? frozen : FROZEN_LEAST;
    j->who = *who;
    j->silence_ms = (uint32_t)milliseconds(frozen * 0.9); /* the rest is time for exiting */
    j->clock.max = j->silence_ms / 4 < 1000 ? j->silence_ms / 4 : 1000;
    j->beat_ms = j->silence_ms / 10 < 250 ? j->silence_ms / 10 : 250;
    j->join_ms = milliseconds(opt->join_timeout > 0 ? opt->join_timeout : JOIN_DEFAULT);
    j->wake_fd = j->control_fd = -1;
    j->halt.last = UINT64_MAX;
    j->table = (weft_host_tls){
        sizeof j->table, 0,          j, table_start, job_tls_handshake, job_tls_wants, job_tls_read,
        job_tls_write,   job_tls_end};
    return j;
}

/* In a Slurm step rank 0 makes the key and hands it to the others. */
static weft_status share_key(job *j)
{
    j->key_comes = j->who.rank != 0;
    if (j->key_comes)
        return WEFT_OK;
    weft_status st = job_key_random(j->key, KEY_BYTES);
    if (st == WEFT_OK && (st = job_munge_seal(j->key, j->sealed)) != WEFT_OK)
        err_context("the ranks of a Slurm step get their key by munge unless [run] key names a "
                    "file (`weft key -o FILE` makes one)");
    return st;
}

static weft_status key_of_mpirun(const uint8_t secret[MPIRUN_SECRET], uint8_t *key)
{
    static const uint8_t salt[16];
    uint8_t wide[KEY_BYTES] = {0};
    memcpy(wide, secret, MPIRUN_SECRET);
    const weft_status st = job_key_derive(wide, salt, "mpirun", "job key", key);
    explicit_bzero(wide, sizeof wide);
    return st;
}

static weft_status take_addresses(job_identity *who, const job_options *opt)
{
    const char *listen = opt->listen ? opt->listen : "";
    if (strlen(listen) >= sizeof who->listen)
        return err_fail(WEFT_USAGE, "[run] listen = %.80s... has more than %zu bytes", listen,
                        sizeof who->listen - 1);
    snprintf(who->listen, sizeof who->listen, "%s", listen);
    who->address_said = opt->address && *opt->address;
    return who->address_said
               ? job_endpoint_find_own(opt->address, who->address, sizeof who->address)
               : WEFT_OK;
}

static weft_status open_parts(job *j, const job_options *opt)
{
    j->key = job_key_alloc();
    if (!j->key)
        return err_fail(WEFT_NO_MEMORY, "no memory for the job key");
    weft_status st = make_lock(j);
    if (st == WEFT_OK)
        st = job_tls_context_open(&j->tls);
    if (st == WEFT_OK)
        st = job_key_random(j->meeting, sizeof j->meeting);
    if (st != WEFT_OK)
        return st;
    if (j->who.ranks == 1)
        return job_key_random(j->key, KEY_BYTES);
    if ((st = take_addresses(&j->who, opt)) != WEFT_OK)
        return st;
    j->control_fd = job_control_descriptor();
    j->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (j->wake_fd < 0)
        return err_fail_errno(WEFT_IO, "no descriptor to wake threads with");
    if (j->who.slurm && !job_key_given(opt->key_file))
        return share_key(j);
    uint8_t secret[MPIRUN_SECRET];
    if (j->who.mpirun && !job_key_given(opt->key_file) && job_key_of_mpirun(secret))
        return key_of_mpirun(secret, j->key);
    return job_key_obtain(&j->who, opt->key_file, j->key);
}

void job_free(job *j)
{
    if (!j)
        return;
    job_forget(j); /* before its locks go */
    job_part(j);
    if (j->ready) {
        pthread_mutex_destroy(&j->asking);
        pthread_mutex_destroy(&j->lock);
        pthread_cond_destroy(&j->moved);
    }
    if (j->wake_fd >= 0)
        close(j->wake_fd);
    job_tls_context_close(j->tls);
    job_key_free(j->key);
    free(j->box.bytes);
    free(j);
}

/* --- join --- */

/* Rank 0 logs which ranks are missing, and that a peer came with another key: after 5 s, or a
 * quarter of the timeout if that is less, then with doubling intervals. Returns when to log next.
 */
static uint64_t tell_missing(job *j, uint64_t began, uint64_t next)
{
    const uint64_t now = awake_ms();
    if (!j->server || now < next)
        return next;
    char missing[512];
    job_server_missing(j, missing, sizeof missing);
    log_line(WEFT_LOG_WARN, "after %.0f s the job still waits for %s", (double)(now - began) / 1000,
             missing);
    return now + (now - began);
}

static weft_status wait_joined(job *j)
{
    weft_status st = WEFT_OK;
    const uint64_t began = awake_ms(), until = began + j->join_ms;
    uint64_t next = began + (j->join_ms / 4 < MISSING_MS ? j->join_ms / 4 : MISSING_MS);
    pthread_mutex_lock(&j->lock);
    while (!j->joined && !atomic_load(&j->failed) && awake_ms() < until) {
        (void)job_wait_moved(j, next < until && j->server ? next : until);
        next = j->joined ? next : tell_missing(j, began, next);
    }
    if (atomic_load(&j->failed)) {
        st = job_fail_here(j);
    } else if (!j->joined && j->server) {
        char missing[512];
        job_server_missing(j, missing, sizeof missing);
        st = err_fail(WEFT_PEER,
                      "the job cannot start: after %.0f s these ranks have not joined: %s",
                      (double)j->join_ms / 1000, missing);
    } else if (!j->joined) {
        st = err_fail(WEFT_PEER,
                      "the job cannot start: after %.0f s not all of its %u ranks have joined",
                      (double)j->join_ms / 1000, j->who.ranks);
    }
    pthread_mutex_unlock(&j->lock);
    return st;
}

weft_status job_join(const job_identity *who, const job_options *opt, job **out)
{
    static const job_options defaults;
    job *j = make(who, opt ? opt : &defaults);
    weft_status st = open_parts(j, opt ? opt : &defaults);
    if (st == WEFT_OK)
        st = who->rank == 0 ? job_server_start(j) : job_client_start(j);
    if (st == WEFT_OK)
        st = wait_joined(j);
    if (st == WEFT_OK) {
        *out = j;
        job_remember(j);
        return WEFT_OK;
    }
    err_record why;
    err_keep(&why);
    if (j->ready)
        job_leave(j, st, why.text);
    job_free(j);
    return err_again(st, &why);
}

/* --- asking --- */

/* The answer's bytes are the caller's on WEFT_OK. */
static weft_status take_answer(job *j, void **bytes, uint64_t *n)
{
    job_mailbox *b = &j->box;
    weft_status st = b->status;
    if (!b->done) {
        st = atomic_load(&j->failed) ? job_fail_here(j)
                                     : err_fail(WEFT_PEER, "rank 0 did not answer in time");
    } else if (st != WEFT_OK) {
        st = err_fail(st, "%.*s", (int)b->n, (const char *)b->bytes);
    } else if (bytes) {
        *bytes = b->bytes;
        *n = b->n;
        b->bytes = NULL;
    }
    free(b->bytes);
    b->bytes = NULL;
    b->waits = false;
    return st;
}

static weft_status ask(job *j, uint32_t type, const char *key, const void *value, uint64_t bytes,
                       uint64_t wait_ms, void **answer, uint64_t *n)
{
    if (strlen(key) > WIRE_KEY_MAX || bytes > WIRE_VALUE_MAX)
        return err_fail(WEFT_USAGE,
                        "the job's store takes keys up to %u bytes and values up to %u; "
                        "'%.40s...' has %zu and %llu",
                        WIRE_KEY_MAX, WIRE_VALUE_MAX, key, strlen(key), (unsigned long long)bytes);
    pthread_mutex_lock(&j->asking);
    pthread_mutex_lock(&j->lock);
    job_mailbox *b = &j->box;
    *b = (job_mailbox){.waits = true, .seq = b->seq + 1};
    if (!atomic_load(&j->failed)) {
        if (j->server)
            job_server_ask(j, type, key, value, bytes, wait_ms);
        else
            job_client_ask(j, type, key, value, bytes, wait_ms);
    }
    uint64_t until = awake_ms() + wait_ms + LATE_MS;
    if (j->who.ranks == 1 && !b->done)
        job_server_give_up(j);
    while (!b->done && !atomic_load(&j->failed) && job_wait_moved(j, until))
        continue;
    weft_status st = take_answer(j, answer, n);
    pthread_mutex_unlock(&j->lock);
    pthread_mutex_unlock(&j->asking);
    return st;
}

weft_status job_put(job *j, const char *key, const void *value, uint64_t bytes)
{
    if (!j)
        return err_fail(WEFT_USAGE, "no job has been joined, so '%s' cannot be stored", key);
    return ask(j, WIRE_PUT, key, value, bytes, j->join_ms, NULL, NULL);
}

weft_status job_get(job *j, const char *key, double deadline, void **value, uint64_t *bytes)
{
    if (!j)
        return err_fail(WEFT_USAGE, "no job has been joined, so '%s' cannot be read", key);
    return ask(j, WIRE_GET, key, NULL, 0, milliseconds(deadline), value, bytes);
}

weft_status job_add(job *j, const char *key, const void *value, uint64_t bytes)
{
    return ask(j, WIRE_ADD, key, value, bytes, j->join_ms, NULL, NULL);
}

weft_status job_find(job *j, const char *key, void **value, uint64_t *bytes)
{
    const weft_status st = ask(j, WIRE_FIND, key, NULL, 0, j->join_ms, value, bytes);
    if (st == WEFT_BUSY)
        err_clear();
    return st;
}

/* Send one fragment and take those of `n` ranks, each at its place in values of `stride` bytes. */
static weft_status collect(job *j, uint32_t type, const char *key, const void *request,
                           uint64_t request_bytes, uint64_t wait_ms, uint32_t n, uint64_t bytes,
                           uint8_t *all, uint64_t stride)
{
    void *answer = NULL;
    uint64_t got = 0;
    weft_status st = ask(j, type, key, request, request_bytes, wait_ms, &answer, &got);
    if (st == WEFT_OK && (st = job_parts_spread(answer, got, n, bytes, all, stride)) != WEFT_OK)
        err_context(type == WIRE_GATHER ? "gathering '%s'" : "the exchange '%s'", key);
    free(answer);
    return st;
}

weft_status job_gather(job *j, const char *key, const uint32_t *members, uint32_t n,
                       const void *mine, uint64_t bytes, void *all)
{
    const uint64_t max = job_gather_fragment(j->who.ranks, 1), until = awake_ms() + j->join_ms;
    job_gather_request r = {.total = bytes, .n = members ? n : j->who.ranks, .member = members};
    uint64_t at = 0;
    do {
        const uint64_t now = awake_ms();
        r.bytes = bytes - at < max ? bytes - at : max;
        r.fragment = r.bytes ? (const uint8_t *)mine + at : NULL;
        uint64_t request_bytes;
        uint8_t *request = job_gather_pack(&r, &request_bytes);
        const weft_status st =
            collect(j, WIRE_GATHER, key, request, request_bytes, now < until ? until - now : 0, r.n,
                    r.bytes, r.bytes ? (uint8_t *)all + at : NULL, bytes);
        free(request);
        if (st != WEFT_OK)
            return st;
        at += r.bytes;
    } while (at < bytes);
    return WEFT_OK;
}

/* A value larger than the store accepts is exchanged in fragments, each by all ranks. If too many
 * parts differ, all ranks get the same answer and continue with smaller fragments. */
static weft_status exchange(job *j, const char *name, const void *mine, uint64_t bytes,
                            uint64_t wait_ms, void *all)
{
    if (!j) {
        if (bytes)
            memcpy(all, mine, bytes);
        return WEFT_OK;
    }
    const uint64_t small = job_gather_fragment(j->who.ranks, 1);
    uint64_t at = 0, max = job_gather_fragment(j->who.ranks, 0);
    do {
        const uint64_t fragment = bytes - at < max ? bytes - at : max;
        weft_status st =
            collect(j, WIRE_EXCHANGE, name, fragment ? (const uint8_t *)mine + at : NULL, fragment,
                    wait_ms, j->who.ranks, fragment, fragment ? (uint8_t *)all + at : NULL, bytes);
        if (st == WEFT_BUSY && max > small) {
            err_clear();
            max = small;
            continue;
        }
        if (st != WEFT_OK)
            return st;
        at += fragment;
    } while (at < bytes);
    return WEFT_OK;
}

weft_status job_exchange(job *j, const char *name, const void *mine, uint64_t bytes, void *all)
{
    return exchange(j, name, mine, bytes, j ? j->join_ms : 0, all);
}

weft_status job_exchange_for(job *j, const char *name, const void *mine, uint64_t bytes,
                             double seconds, void *all)
{
    return exchange(j, name, mine, bytes, milliseconds(seconds), all);
}

/* --- while running --- */

void job_mark(job *j, uint64_t step, uint64_t place)
{
    if (!j)
        return;
    atomic_store_explicit(&j->step, step, memory_order_relaxed);
    atomic_store_explicit(&j->place, place, memory_order_relaxed);
}

weft_status job_failure(job *j)
{
    if (!j || !atomic_load_explicit(&j->failed, memory_order_acquire))
        return WEFT_OK;
    return job_fail_here(j);
}
