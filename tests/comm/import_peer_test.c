/* Which operations do devices by themselves that map each other's arenas, and on what places? Do
 * descriptors come through sockets, and only from those who were told? */
#define _GNU_SOURCE
#include <stdbool.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <test.h>
#include <unistd.h>

#include "comm/fd_passing.h"
#include "schedule/algorithm.h"

static const sched_request whole = {.kind = WEFT_ALL_REDUCE,
                                    .redop = WEFT_SUM,
                                    .dtype = WEFT_F32,
                                    .count = 1,
                                    .ranks = 4,
                                    .in_place = 1,
                                    .link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP,
                                    .staged = 1,
                                    .algorithm = "auto"};

static const char *algorithm_of(const sched_request *r, uint64_t *scratch)
{
    static char name[32];
    sched_schedule *s;
    assert_int_equal(sched_make(r, &s), WEFT_OK);
    snprintf(name, sizeof name, "%s", s->r.algorithm);
    *scratch = s->scratch;
    sched_free(s);
    return name;
}

TEST(test_who_does_it)
{
    sched_request r = whole;
    uint64_t scratch;
    assert_string_equal(algorithm_of(&r, &scratch), "mapped");
    assert_int_equal(scratch, 0); /* no mirror */
    r.ranks = WEFT_MAX_OPERANDS + 1;
    assert_string_not_equal(algorithm_of(&r, &scratch), "mapped");
    assert_true(scratch > 0);
    r.kind = WEFT_BROADCAST;
    assert_string_equal(algorithm_of(&r, &scratch), "mapped");
    r = whole;
    r.dtype = WEFT_I32;
    assert_string_not_equal(algorithm_of(&r, &scratch), "mapped");
    r = whole;
    r.kind = WEFT_REDUCE_SCATTER;
    r.count = 4 * 16;
    assert_string_equal(algorithm_of(&r, &scratch), "mapped");
    r.count = 4 * 15; /* parts that do not begin at lines */
    assert_string_not_equal(algorithm_of(&r, &scratch), "mapped");
    r.algorithm = "mapped";
    sched_schedule *s;
    assert_int_equal(sched_make(&r, &s), WEFT_USAGE);
    r = whole;
    r.link_caps = WEFT_LINK_HOST;
    assert_string_not_equal(algorithm_of(&r, &scratch), "mapped");
}

/* Between the flags: one reduction at most, of whole lines but for the end; each element once. */
static void walk(const sched_request *r, unsigned char *sums)
{
    sched_schedule *s;
    sched_program p;
    uint32_t go = SCHED_NO_STEP, done = SCHED_NO_STEP;
    assert_int_equal(sched_make(r, &s), WEFT_OK);
    sched_program_make(s, &p);
    for (uint32_t i = 0; i < p.steps; i++) {
        const sched_step *x = &p.step[i];
        go = x->what == SCHED_STORE ? i : go;
        done = x->what == SCHED_FETCH ? i : done;
        if (x->what == SCHED_RECV && x->bytes)
            assert_true(go == SCHED_NO_STEP);
        if (x->what == SCHED_SEND && !x->bytes)
            assert_true(done != SCHED_NO_STEP && x->need > 0);
        if (x->what != SCHED_REDUCE)
            continue;
        assert_true(go != SCHED_NO_STEP && done == SCHED_NO_STEP);
        assert_int_equal(x->nfrom, r->ranks);
        for (uint32_t k = 0; k < x->nfrom + x->nto; k++)
            assert_int_equal(p.place[x->place + k].at % 64, 0);
        for (uint64_t k = 0; k < x->bytes; k++)
            sums[p.place[x->place].at + k]++;
    }
    assert_true(go != SCHED_NO_STEP && done != SCHED_NO_STEP);
    assert_int_equal(p.step[done].need, 0); /* the device says when */
    sched_program_free(&p);
    sched_free(s);
}

TEST(test_places)
{
    static const uint64_t counts[] = {1, 15, 16, 17, 63, 64, 65, 1000, 4096, 5001};
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (uint32_t size = 2; size <= 4; size += 2) {
            unsigned char sums[4 * 5001] = {0};
            sched_request r = whole;
            r.count = counts[i];
            r.dtype = size == 2 ? WEFT_BF16 : WEFT_F32;
            for (r.me = 0; r.me < r.ranks; r.me++)
                walk(&r, sums);
            for (uint64_t k = 0; k < sizeof sums; k++)
                assert_int_equal(sums[k], k < counts[i] * size);
        }
}

TEST(test_descriptors)
{
    comm_fd_passing_socket a, b;
    uint32_t from;
    int fd, ends[2], nothing;
    char byte = 0;
    assert_int_equal(comm_fd_passing_open(&a), WEFT_OK);
    assert_int_equal(comm_fd_passing_open(&b), WEFT_OK);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(comm_fd_passing_receive(&b, &from, &fd), WEFT_BUSY);

    comm_fd_passing_address guessed = b.at; /* its name is no secret */
    guessed.secret[1]++;
    assert_int_equal(comm_fd_passing_send(&a, 7, &guessed, ends[1]), WEFT_OK);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    memcpy(un.sun_path + 1, b.at.name, strlen(b.at.name));
    assert_int_equal(
        sendto(a.fd, "noise", 5, 0, (void *)&un,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(b.at.name))),
        5);
    assert_int_equal(comm_fd_passing_send(&a, 3, &b.at, ends[1]), WEFT_OK);
    nothing = dup(0);
    close(nothing);
    assert_int_equal(comm_fd_passing_receive(&b, &from, &fd), WEFT_OK);
    assert_int_equal(from, 3);
    assert_true(fd >= nothing && fd <= nothing + 1);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(fd);
    assert_int_equal(comm_fd_passing_receive(&b, &from, &fd), WEFT_BUSY);
    assert_int_equal(dup(0), nothing); /* what the stranger sent is closed */
    close(nothing);

    comm_fd_passing_address gone = b.at;
    comm_fd_passing_close(&b);
    assert_int_equal(comm_fd_passing_send(&a, 3, &gone, ends[1]), WEFT_PEER);
    comm_fd_passing_close(&a);
    close(ends[0]);
    close(ends[1]);
}

/* `n` descriptors in one datagram, with the right secret or a wrong one. */
static void send_several(const comm_fd_passing_address *to, bool knows, int fd, uint32_t n,
                         bool many_bytes)
{
    struct {
        uint64_t secret[2];
        uint32_t from, reserved;
        char more[64];
    } note = {.secret = {to->secret[0], to->secret[1] + !knows}, .from = 5};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(8 * sizeof(int))];
    } c = {0};
    struct iovec io = {&note, offsetof(typeof(note), more) + (many_bytes ? sizeof note.more : 0)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    memcpy(un.sun_path + 1, to->name, strlen(to->name));
    struct msghdr m = {
        .msg_name = &un,
        .msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(to->name)),
        .msg_iov = &io,
        .msg_iovlen = 1,
        .msg_control = n ? &c : NULL,
        .msg_controllen = n ? CMSG_SPACE(n * sizeof fd) : 0};
    c.head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(n * sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    for (uint32_t i = 0; i < n; i++)
        memcpy(CMSG_DATA(&c.head) + i * sizeof fd, &fd, sizeof fd);
    int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(sendmsg(from, &m, 0) > 0);
    close(from);
}

static uint32_t open_descriptors(void)
{
    uint32_t n = 0;
    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* 500 datagrams with 0 to 8 descriptors, which are no messages of a rank, leave nothing open. */
TEST(test_hostile_descriptors)
{
    comm_fd_passing_socket b;
    uint32_t from;
    int fd;
    assert_int_equal(comm_fd_passing_open(&b), WEFT_OK);
    const uint32_t before = open_descriptors();
    for (uint32_t i = 0; i < 500; i++) {
        const uint32_t n = i % 9; /* one alone comes with a wrong secret, or with too many bytes */
        send_several(&b.at, n != 1 || i % 2, 0, n, n == 1);
        assert_int_equal(comm_fd_passing_receive(&b, &from, &fd), WEFT_BUSY);
    }
    assert_int_equal(open_descriptors(), before);
    comm_fd_passing_close(&b);
}

/* Another user's process knows the secret, and still gives nothing. Needs root to become one. */
TEST(test_other_user)
{
    comm_fd_passing_socket b;
    uint32_t from;
    int fd, status;
    if (geteuid())
        skip();
    assert_int_equal(comm_fd_passing_open(&b), WEFT_OK);
    const uint32_t before = open_descriptors();
    for (uint32_t user = 0; user < 2; user++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (user && setuid(65534))
                _exit(1);
            send_several(&b.at, true, 0, 1, false);
            _exit(0);
        }
        waitpid(pid, &status, 0);
        assert_int_equal(status, 0);
        assert_int_equal(comm_fd_passing_receive(&b, &from, &fd), user ? WEFT_BUSY : WEFT_OK);
        if (!user)
            close(fd);
    }
    assert_int_equal(open_descriptors(), before);
    comm_fd_passing_close(&b);
}
