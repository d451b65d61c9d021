/* Which memory of a rank holds the job key and the pre-shared keys of its connections once the
 * ranks have met? Each rank searches all of its own memory, by /proc/self/mem. The job key may lie
 * in one page, which core dumps leave out; pre-shared keys nowhere.
 *
 * This file is linked so that job_tls_start() is its own function, which notes each key that a
 * session begins with. What is looked for is kept inverted, so that it is not found here. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <test.h>

#include <sys/mman.h>
#include <weft/host.h>

#include "job/wire/tls.h"
#include "ranks.h"
/* after ranks.h */
#include "pair.h"

#define NEEDLES 16
#define CHUNK (1u << 20)

typedef struct needle {
    const char *name;
    uint8_t inverted[32];
} needle;

static needle needles[NEEDLES];
static uint32_t nneedles;

static void note(const char *name, const uint8_t *secret)
{
    needle *n = &needles[nneedles++ % NEEDLES];
    n->name = name;
    for (int i = 0; i < 32; i++)
        n->inverted[i] = (uint8_t)~secret[i];
}

weft_status __real_job_tls_start(job_tls_context *c, int fd, bool server, const uint8_t psk[32],
                                 weft_tls **out);
weft_status __wrap_job_tls_start(job_tls_context *c, int fd, bool server, const uint8_t psk[32],
                                 weft_tls **out);

weft_status __wrap_job_tls_start(job_tls_context *c, int fd, bool server, const uint8_t psk[32],
                                 weft_tls **out)
{
    note("a pre-shared key", psk);
    return __real_job_tls_start(c, fd, server, psk, out);
}

static bool is_needle(const uint8_t *at, const needle *n)
{
    for (int i = 0; i < 32; i++)
        if ((at[i] ^ n->inverted[i]) != 0xff)
            return false;
    return true;
}

/* One mapping. The buffer for it is a mapping of its own, which the caller leaves out. */
static void search(int mem, unsigned long from, unsigned long to, uint8_t *room, uint32_t *found)
{
    for (unsigned long at = from; at < to; at += CHUNK - 32) {
        ssize_t n = pread(mem, room, to - at < CHUNK ? to - at : CHUNK, (off_t)at);
        for (ssize_t i = 0; i + 32 <= n; i++)
            for (uint32_t k = 0; k < nneedles; k++)
                found[k] += is_needle(room + i, &needles[k]);
    }
    explicit_bzero(room, CHUNK);
}

/* Count the copies of each needle in memory that a core dump has, and in memory that it has not. */
static void search_all(uint32_t *dumped, uint32_t *kept)
{
    char line[512];
    unsigned long from = 0, to = 0, a, b;
    char mode[8] = "", next[8];
    uint8_t *room = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(room, CHUNK, MADV_DONTDUMP); /* so that it joins no other mapping of ours */
    int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    FILE *f = fopen("/proc/self/smaps", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx %7s", &a, &b, next) == 3) {
            from = a;
            to = b;
            memcpy(mode, next, sizeof mode);
        } else if (!strncmp(line, "VmFlags:", 8) && mode[0] == 'r' &&
                   !((uintptr_t)room >= from && (uintptr_t)room < to)) {
            search(mem, from, to, room, strstr(line, " dd") ? kept : dumped);
        }
    }
    fclose(f);
    close(mem);
    munmap(room, CHUNK);
}

/* A connection under a label of its own, as links make them: rank 0 accepts. */
static weft_status link_up(job *j, uint32_t me, int *out, weft_tls **session)
{
    const weft_host_tls *tls = job_tls_table(j);
    weft_status st = pair_connect(j, me, "address", out);
    if (st == WEFT_OK)
        st = tls->start(tls->ctx, *out, me == 0, "a link", session);
    return st == WEFT_OK ? pair_shake(tls, *session, *out) : st;
}

/* The store's connections and a link are up. */
static weft_status look(job *j, uint32_t me, uint32_t n)
{
    uint32_t dumped[NEEDLES] = {0}, kept[NEEDLES] = {0};
    int fd = -1;
    weft_tls *session = NULL;
    weft_status st = me < 2 ? link_up(j, me, &fd, &session) : WEFT_OK;
    if (st == WEFT_OK)
        st = job_exchange(j, "linked", NULL, 0, NULL);
    search_all(dumped, kept);
    for (uint32_t k = 0; st == WEFT_OK && k < nneedles; k++) {
        const bool own = !strcmp(needles[k].name, "the job key");
        if (dumped[k] || kept[k] != own)
            st = (err_fail)(WEFT_INTERNAL,
                            "%s (%u of %u) is found %u times in memory that a core dump has, and "
                            "%u times in memory that it has not",
                            needles[k].name, k, nneedles, dumped[k], kept[k]);
    }
    if (st == WEFT_OK && nneedles < 2 + (me < 2) + (me ? 0 : n - 2))
        st = (err_fail)(WEFT_INTERNAL, "only %u keys were noted", nneedles);
    job_tls_end(session);
    if (fd >= 0)
        close(fd);
    weft_status end = job_exchange(j, "end", NULL, 0, NULL);
    return st != WEFT_OK ? st : end;
}

TEST(keys_are_wiped)
{
    if (getenv("WEFT_SANITIZED"))
        skip(); /* a sanitizer's shadow is too large to be searched */
    ranks r;
    ranks_prepare(&r, 3);
    uint8_t *key = job_key_alloc();
    job_identity who = {.rank = 1, .ranks = 2};
    assert_int_equal(job_key_obtain(&who, r.key, key), WEFT_OK);
    note("the job key", key);
    job_key_free(key);
    ranks_start(&r, look);
    for (uint32_t i = 0; i < 3; i++) {
        int status = ranks_wait(&r, i, 60000);
        const rank_report *p = &r.report[i];
        if (status || p->join || p->body || !p->left_well)
            print_error("rank %u: wait %d, join %d, body %d: %s\n", i, status, p->join, p->body,
                        p->text);
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(r.report[i].body, WEFT_OK);
    ranks_end(&r);
}

int main(void)
{
    log_setup(-1, -1);
    unsetenv(KEY_FD_ENV);
    return test_run(NULL, NULL);
}
