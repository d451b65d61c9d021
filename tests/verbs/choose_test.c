/* Which device, port and address are taken, what do options change, and in which words is refused
 * what cannot be? */
#include "double.h"
#include "rig.h"
#include <test.h>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/device.h>

static double_device device(const char *name, const char *address)
{
    double_device d = {.name = name};
    d.gid[d.gids++] = double_gid("fe80::1", 0, IBV_GID_TYPE_ROCE_V1);
    d.gid[d.gids++] = double_gid("fe80::1", 1, IBV_GID_TYPE_ROCE_V2);
    d.gid[d.gids++] = double_gid("2001:db8::7", 2, IBV_GID_TYPE_ROCE_V2);
    d.gid[d.gids++] = double_gid("10.9.9.9", 3, IBV_GID_TYPE_ROCE_V1);
    d.gid[d.gids++] = double_gid("10.9.9.9", 4, IBV_GID_TYPE_ROCE_V2);
    d.gid[d.gids++] = double_gid(address, 5, IBV_GID_TYPE_ROCE_V1);
    d.gid[d.gids++] = double_gid(address, 6, IBV_GID_TYPE_ROCE_V2);
    return d;
}

typedef struct option {
    const char *key, *value;
} option;

static void set(node *n, uint32_t rank, const option *o, const char *address)
{
    node_init(n, rank, 2);
    n->bind_addr = address;
    for (int i = 0; i < 4 && o && o[i].key; i++) {
        n->options[i][0] = o[i].key;
        n->options[i][1] = o[i].value;
    }
}

/* Two ends with these options; what the last of their queue pairs was told. */
static struct ibv_qp_attr joined_with(const option *o, const char *address, const char **device)
{
    node n[2];
    int count;
    for (uint32_t r = 0; r < 2; r++) {
        set(&n[r], r, o, address);
        assert_int_equal(node_open(&n[r]), WEFT_OK);
    }
    pair p = pair_up(&n[0], &n[1], 0);
    struct ibv_qp_attr a = double_joined(&count, device);
    assert_true(count >= 2);
    pair_down(p);
    node_close(&n[0]);
    node_close(&n[1]);
    return a;
}

static void refused(const option *o, const char *address, weft_status code, const char *const *say)
{
    node n;
    set(&n, 0, o, address);
    weft_status st = node_open(&n);
    if (st != code)
        fprintf(stderr, "status %d: %s\n", (int)st, rig_why());
    assert_int_equal(st, code);
    for (int i = 0; say[i]; i++)
        if (!strstr(rig_why(), say[i])) {
            fprintf(stderr, "'%s' is not in: %s\n", say[i], rig_why());
            assert_true(false);
        }
    n.link = NULL;
    node_close(&n);
    assert_int_equal(double_objects(), 0);
}

TEST(test_address_decides)
{
    const char *on;
    double_device two[] = {device("a0", "127.0.0.5"), device("b0", "127.0.0.6")};
    double_devices(two, 2);
    assert_int_equal(joined_with(NULL, "127.0.0.6", &on).ah_attr.grh.sgid_index, 6);
    assert_string_equal(on, "b0");
    joined_with(NULL, "127.0.0.5", &on);
    assert_string_equal(on, "a0");
    /* a loopback address is nobody's: the first, and of its addresses IPv4 by v2 */
    assert_int_equal(joined_with(NULL, "127.0.0.1", &on).ah_attr.grh.sgid_index, 4);
    assert_string_equal(on, "a0");
    two[0].port_state = IBV_PORT_DOWN;
    double_devices(two, 2);
    joined_with(NULL, "127.0.0.1", &on);
    assert_string_equal(on, "b0");
}

/* v2 before v1, IPv4 before global before link-local, whatever the order of the table. */
TEST(test_order_of_addresses)
{
    static const struct {
        const char *text;
        int type;
    } worse_first[] = {{"fe80::2", IBV_GID_TYPE_ROCE_V1},     {"2001:db8::2", IBV_GID_TYPE_ROCE_V1},
                       {"10.1.1.1", IBV_GID_TYPE_ROCE_V1},    {"fe80::2", IBV_GID_TYPE_ROCE_V2},
                       {"2001:db8::2", IBV_GID_TYPE_ROCE_V2}, {"10.1.1.1", IBV_GID_TYPE_ROCE_V2},
                       {"127.0.0.1", IBV_GID_TYPE_ROCE_V1},   {"127.0.0.1", IBV_GID_TYPE_ROCE_V2}};
    const char *on;
    for (int n = 1; n <= 8; n++)
        for (int turn = 0; turn < n; turn++) {
            double_device d = {.name = "a0"};
            for (int i = 0; i < n; i++) {
                int at = (i + turn) % n;
                d.gid[d.gids++] = double_gid(worse_first[at].text, at, worse_first[at].type);
            }
            double_devices(&d, 1);
            assert_int_equal(joined_with(NULL, "127.0.0.1", &on).ah_attr.grh.sgid_index, n - 1);
        }
}

TEST(test_options_reach_the_queue_pair)
{
    const char *on;
    double_device two[] = {device("a0", "127.0.0.5"), device("b0", "127.0.0.6")};
    double_devices(two, 2);
    const option some[] = {{"gid", "2"}, {"traffic_class", "104"}, {"mtu", "1024"}, {"retry", "3"}};
    const option more[] = {
        {"devices", "b0:1"}, {"timeout", "0.0001"}, {"service_level", "5"}, {NULL, NULL}};
    struct ibv_qp_attr a = joined_with(some, "127.0.0.5", &on);
    assert_int_equal(a.ah_attr.grh.sgid_index, 2);
    assert_int_equal(a.ah_attr.grh.traffic_class, 104);
    assert_int_equal(a.path_mtu, IBV_MTU_1024);
    assert_int_equal(a.retry_cnt, 3);
    assert_int_equal(a.timeout, 17); /* half a second */
    assert_true(a.ah_attr.is_global);
    a = joined_with(more, "127.0.0.1", &on);
    assert_string_equal(on, "b0");
    assert_int_equal(a.timeout, 5); /* 131 us */
    assert_int_equal(a.ah_attr.sl, 5);
    assert_int_equal(a.path_mtu, IBV_MTU_4096);
}

/* All devices of a list carry: a message is cut over two, channels begin on different ones. */
TEST(test_list_of_devices)
{
    const char *on, *seen[2] = {"", ""};
    double_device two[] = {device("a0", "127.0.0.5"), device("b0", "127.0.0.6")};
    node n[2];
    int count = 0, before = 0;
    static uint8_t out[200000], in[200000];
    uint64_t want[4] = {1, 0, 0, 1};
    weft_region *r[2];
    double_devices(two, 2);
    for (uint32_t i = 0; i < 2; i++) {
        node_init(&n[i], i, 2);
        n[i].options[0][0] = "devices";
        n[i].options[0][1] = "b0, a0";
        assert_int_equal(node_open(&n[i]), WEFT_OK);
        assert_int_equal(node_register(&n[i], i ? in : out, sizeof in, -1, &r[i]), WEFT_OK);
    }
    (void)double_joined(&before, &on);
    for (uint32_t c = 0; c < 2; c++) {
        pair p = pair_up(&n[0], &n[1], c);
        (void)double_joined(&count, &on);
        seen[c] = on;
        check_pattern(out, sizeof out, c);
        uint64_t requests = double_requests(IBV_WR_RDMA_WRITE_WITH_IMM);
        assert_int_equal(rig_table->send(p.a, out, sizeof out, r[0], 0), WEFT_OK);
        assert_int_equal(rig_table->recv(p.b, in, sizeof in, r[1], 0), WEFT_OK);
        pair_finish(p, want);
        assert_memory_equal(in, out, sizeof in);
        assert_int_equal(double_requests(IBV_WR_RDMA_WRITE_WITH_IMM) - requests, 2);
        pair_down(p);
    }
    assert_string_not_equal(seen[0], seen[1]);
    assert_int_equal(count - before, 8); /* two queue pairs an end and channel */
    node_close(&n[0]);
    node_close(&n[1]);
}

/* Ports of InfiniBand have no IP address, and take LIDs within a subnet. */
TEST(test_infiniband)
{
    const char *on;
    double_device d = {.name = "ib0", .infiniband = 1, .gids = 1};
    d.gid[0] = double_gid("fe80::5", 0, IBV_GID_TYPE_IB);
    double_devices(&d, 1);
    struct ibv_qp_attr a = joined_with(NULL, "127.0.0.9", &on);
    assert_int_equal(a.ah_attr.dlid, 7);
    assert_int_equal(a.ah_attr.is_global, 0);
}

/* An IPv4 address of this machine that is not a loopback one, where there is any. */
static bool far_address(char *out, socklen_t room)
{
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all) != 0)
        return false;
    for (struct ifaddrs *i = all; i && !found; i = i->ifa_next)
        found = i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
                (i->ifa_flags & IFF_LOOPBACK) == 0 && (i->ifa_flags & IFF_UP) != 0 &&
                getnameinfo(i->ifa_addr, sizeof(struct sockaddr_in), out, room, NULL, 0,
                            NI_NUMERICHOST) == 0;
    freeifaddrs(all);
    return found;
}

TEST(test_refusals)
{
    double_device two[] = {device("a0", "127.0.0.5"), device("b0", "127.0.0.6")};
    char far[64] = "";
    double_devices(two, 2);
#define REFUSED(code, key, value, ...)                                                             \
    refused((option[]){{key, value}, {NULL, NULL}}, "127.0.0.1", code,                             \
            (const char *[]){__VA_ARGS__, NULL})
    REFUSED(WEFT_ABSENT, "devices", "c0", "c0", "a0, b0");
    REFUSED(WEFT_ABSENT, "devices", "a0:2", "a0", "no port 2");
    REFUSED(WEFT_USAGE, "devices", ",", "names none");
    REFUSED(WEFT_USAGE, "devices", "a0,a0,a0,a0,a0", "up to 4");
    REFUSED(WEFT_USAGE, "devices", "a0:x", "NAME:PORT");
    REFUSED(WEFT_ABSENT, "port", "3", "no port 3");
    REFUSED(WEFT_USAGE, "gid", "7", "gid = 7", "b0", "6: 127.0.0.6 RoCE v2");
    REFUSED(WEFT_USAGE, "gid", "first", "first", "0 to 255");
    REFUSED(WEFT_USAGE, "gid", "256", "0 to 255");
    two[0].port_state = two[1].port_state = IBV_PORT_DOWN;
    double_devices(two, 2);
    REFUSED(WEFT_ABSENT, "devices", "a0", "port 1", "a0", "down");
    REFUSED(WEFT_ABSENT, "devices", "auto", "b0", "down");
    two[0].port_state = two[1].port_state = two[0].gids = two[1].gids = 0;
    double_devices(two, 2);
    REFUSED(WEFT_ABSENT, "devices", "auto", "no address");
    double_devices(two, 0);
    REFUSED(WEFT_ABSENT, "devices", "auto", "no RDMA device");
    two[0] = device("a0", "10.0.0.5");
    double_devices(two, 1);
    if (far_address(far, sizeof far))
        refused(NULL, far, WEFT_ABSENT,
                (const char *[]){far, "a0 port 1", "6: 10.0.0.5 RoCE v2", "devices", NULL});
}

static int32_t probed_at(const char *address, const option *o, bool same_machine, uint32_t caps)
{
    node n;
    const weft_link_group group = {sizeof group, 0, same_machine, caps, address};
    node_init(&n, 0, 2);
    for (int i = 0; o && o[i].key; i++) {
        n.options[i][0] = o[i].key;
        n.options[i][1] = o[i].value;
    }
    const int32_t score = node_probe(&n, &group);
    assert_int_equal(double_objects(), 0);
    return score;
}

static int32_t probed(const option *o, bool same_machine, uint32_t caps)
{
    return probed_at(NULL, o, same_machine, caps);
}

/* A port that is active in another network carries nothing, unless somebody names it. */
TEST(test_probe_asks_for_the_address)
{
    double_device one = device("a0", "10.0.0.5");
    const option named[] = {{"devices", "a0"}, {NULL, NULL}};
    double_devices(&one, 1);
    assert_int_equal(probed_at("10.0.0.5", NULL, false, WEFT_DEV_HOST_MEMORY), 80);
    assert_int_equal(probed_at("10.1.0.5", NULL, false, WEFT_DEV_HOST_MEMORY), 0);
    assert_non_null(strstr(rig_why(), "10.1.0.5"));
    assert_non_null(strstr(rig_why(), "a0 port 1"));
    assert_int_equal(probed_at("10.1.0.5", named, false, WEFT_DEV_HOST_MEMORY), 80);
    assert_int_equal(probed_at("127.0.0.1", NULL, true, WEFT_DEV_HOST_MEMORY), 40);
    one.infiniband = 1; /* has no IP address */
    double_devices(&one, 1);
    assert_int_equal(probed_at("10.1.0.5", NULL, false, WEFT_DEV_HOST_MEMORY), 80);
    double_reset();
}

TEST(test_probe)
{
    double_reset();
    assert_int_equal(probed(NULL, false, WEFT_DEV_HOST_MEMORY), 80);
    assert_int_equal(probed(NULL, true, WEFT_DEV_HOST_MEMORY), 40);
    assert_int_equal(probed(NULL, false, 0), 0);
    assert_non_null(strstr(rig_why(), "memory"));
    assert_int_equal(
        probed((option[]){{"devices", "x9"}, {NULL, NULL}}, false, WEFT_DEV_HOST_MEMORY), 0);
    assert_non_null(strstr(rig_why(), "double0"));
    double_devices(NULL, 0);
    assert_int_equal(probed(NULL, false, WEFT_DEV_HOST_MEMORY), 0);
    assert_non_null(strstr(rig_why(), "no RDMA device"));
    double_reset();
}

/* A GPU's memory itself: by dmabuf where both drivers know it (no such module is loaded here). */
TEST(test_probe_of_a_gpu)
{
    const uint32_t gpu = WEFT_DEV_CUDA_MEMORY, exports = gpu | WEFT_DEV_EXPORT_DMABUF;
    double_reset();
    double_dmabuf(1);
    assert_int_equal(probed(NULL, false, exports), 80);
    assert_int_equal(probed(NULL, false, gpu), 0);
    assert_non_null(strstr(rig_why(), "the GPU's driver does not export"));
    double_dmabuf(0);
    assert_int_equal(probed(NULL, false, exports), 0);
    assert_non_null(strstr(rig_why(), "double0 port 1"));
    assert_non_null(strstr(rig_why(), "its driver does not support"));
    assert_int_equal(probed(NULL, false, exports | WEFT_DEV_HOST_MEMORY), 80); /* staged */
    double_reset();
}

/* In a child, which gives up the right to lock without limit. */
static int poor_child(int fd, uint32_t rank, void *arg)
{
    struct rlimit little = {.rlim_cur = 65536, .rlim_max = 65536};
    (void)fd, (void)rank, (void)arg;
    if (setrlimit(RLIMIT_MEMLOCK, &little) != 0 || (geteuid() == 0 && setuid(65534) != 0))
        return 1;
    int32_t score = probed(NULL, false, WEFT_DEV_HOST_MEMORY);
    bool said = strstr(rig_why(), "64 KiB") && strstr(rig_why(), "ulimit -l");
    return score == 0 && said ? 0 : 2;
}

TEST(test_memory_lock_limit)
{
    int fd;
    int pid = child_start(poor_child, 0, NULL, &fd);
    assert_int_equal(child_end(pid), 0);
    close(fd);
}

int main(int argc, char **argv)
{
    return rig_main(argc, argv);
}
