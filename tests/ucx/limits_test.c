/* A process that has too few threads or descriptors for UCX, which would end it with an assertion:
 * probe() finds nothing and says why, so that the other transports go on. */
#include "rig.h"
#include <test.h>

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <weft/device.h>

typedef struct limited {
    int what; /* RLIMIT_...; -1: no limit */
    rlim_t most;
    const char *said; /* a part of the sentence; NULL: something is found */
} limited;

/* RLIMIT_NPROC does not hold for root: the child becomes this user, and a bit. */
#define NOBODY 1061234u

static int probing(int fd, uint32_t rank, void *arg)
{
    const limited *x = arg;
    const struct rlimit limit = {x->most, x->most};
    const weft_link_group group = {sizeof group, 0, true, WEFT_DEV_HOST_MEMORY, NULL};
    node n;
    (void)fd, (void)rank;
    node_init(&n, 0, 2);
    if (geteuid() == 0 && setuid(NOBODY + (uid_t)(getpid() % 1000)) != 0)
        return 77;
    must(x->what < 0 || setrlimit((__rlimit_resource_t)x->what, &limit) == 0);
    const int32_t score = node_probe(&n, &group);
    if (!x->said)
        return score > 0 ? 0 : 1;
    if (score == 0 && strstr(rig_why(), x->said))
        return 0;
    fprintf(stderr, "score %d: %s\n", score, rig_why());
    return 2;
}

static void probe(limited x)
{
    int fd;
    const int pid = child_start(probing, 0, &x, &fd);
    const int status = child_end(pid);
    close(fd);
    if (status == 77)
        skip();
    assert_int_equal(status, 0);
}

TEST(enough)
{
    probe((limited){-1, 0, NULL});
}

TEST(no_thread)
{
    probe((limited){RLIMIT_NPROC, 1,
                    "cannot start one (Resource temporarily unavailable): see "
                    "ulimit -u, and pids.max of its control group"});
}

TEST(few_descriptors)
{
    probe((limited){RLIMIT_NOFILE, 16, "its limit is 16: raise it with ulimit -n"});
}

int main(int argc, char **argv)
{
    return rig_main(argc, argv);
}
