/* double.h: a libibverbs without a kernel behind it: devices, ports and addresses as a test says,
 * and a NIC that is a thread of this process. It executes what is posted in order on each queue
 * pair and in a random order among them, checks every key and range as a NIC would, and fails when
 * told to. What a correct program never does it counts as an offence: a send that finds no receive
 * request, a completion queue that overflows, more requests than a queue holds, an object that is
 * destroyed before what depends on it. */
#ifndef TESTS_VERBS_DOUBLE_H
#define TESTS_VERBS_DOUBLE_H

#include <infiniband/verbs.h>
#include <stdint.h>

enum { DOUBLE_DEVICES = 4, DOUBLE_GIDS = 8 };

typedef struct double_device {
    const char *name;
    int port_state;   /* enum ibv_port_state; 0: active */
    int infiniband;   /* its link layer; else Ethernet */
    uint32_t longest; /* bytes of a request; 0: 1 MiB + 4096 */
    uint32_t inlined; /* bytes that a request can hold; 0: 256 */
    struct ibv_gid_entry gid[DOUBLE_GIDS];
    int gids;
} double_device;

/* As if nothing had happened: one device "double0" with 10.0.0.1 as RoCE v1 and v2; none when the
 * environment has DOUBLE_DEVICES=none. */
void double_reset(void);

/* In place of it, or beside the others. */
void double_devices(const double_device *list, int n);
struct ibv_gid_entry double_gid(const char *text, int index, int type); /* text: an IP address */

/* Send requests of this kind end with `status`, from the next on; IBV_WC_SUCCESS: no longer. */
void double_fail_sends(enum ibv_wr_opcode opcode, enum ibv_wc_status status);

/* The n-th call from now of a function that makes something ("reg_mr", ...) fails with `why`. */
void double_fail_call(const char *name, int n, int why);

/* Bytes that may be registered in all; 0: any number. Descriptors of dmabuf are accepted when
 * `dmabuf`. */
void double_limit(uint64_t bytes);
void double_dmabuf(int accepted);

/* An event of the device that was opened last, or of all queue pairs. */
void double_event(enum ibv_event_type type);

/* Lost: nothing that is sent arrives, and each request ends in IBV_WC_RETRY_EXC_ERR. */
void double_unplug(int lost);

/* What the queue pair that was connected last was told, how many have been, and its device. */
struct ibv_qp_attr double_joined(int *count, const char **device);

int double_objects(void);                            /* that exist now */
int double_offences(void);                           /* see above */
const char *double_offence(void);                    /* the last of them, in words */
uint64_t double_requests(enum ibv_wr_opcode opcode); /* executed since the reset */

#endif
