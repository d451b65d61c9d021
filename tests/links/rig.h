/* rig.h: what the tests of transports share. A `node` is one rank: a host of the checker's
 * (sdk/check/harness), the plugin's module, a link. Several nodes may live in one process (driven
 * by turns, or by a thread each) or in processes of their own; the tests say which. Whoever waits
 * longer than rig_patience() fails.
 */
#ifndef LINKS_RIG_H
#define LINKS_RIG_H

#define _GNU_SOURCE 1
#include <stdbool.h>

#include <test.h>
#include <weft/link.h>

#include "check/link/link.h"

typedef struct node {
    check_host host;
    const weft_conf *conf; /* after node_open() */
    void *module;
    weft_link *link;
    uint32_t rank, ranks;
    uint64_t key;              /* of the TLS */
    bool no_tls;               /* the host has no table */
    const char *options[4][2]; /* key, value; other keys have their defaults */
    const char *bind_addr;
    uint8_t address[4096];
    uint64_t address_bytes;
} node;

/* Two ends of one channel; one and the same connection for a transport of one rank. */
typedef struct pair {
    weft_conn *a, *b;
} pair;

extern const weft_manifest *rig_manifest;
extern const weft_component *rig_plugin; /* the link component under test */
extern const weft_link_table *rig_table; /* its table */

extern char **rig_settings; /* KEY=VALUE from the command line, NULL-ended */

int rig_main(int argc, char **argv); /* runs the cases of the program */
bool rig_alone(void);                /* the transport carries one rank only */
bool rig_has_option(const char *key);
bool rig_listens(void); /* the transport opens a TCP port */

/* nodes */
void node_init(node *n, uint32_t rank, uint32_t ranks); /* no link yet: options may be set */
weft_status node_open(node *n);                         /* module and link */
void node_close(node *n); /* what the module was given has been given back */
int32_t node_probe(node *n, const weft_link_group *group); /* the score; open() and close() */
void nodes_up(node *n, uint32_t ranks);                    /* init and open all */
weft_conn *node_connect(node *n, const node *peer, uint32_t channel);
weft_status node_register(node *n, void *at, uint64_t bytes, int32_t fd, weft_region **out);
void conn_ready(weft_conn *c); /* waits, alone (the other end lives elsewhere) */
pair pair_up(node *a, node *b, uint32_t channel);
void pair_down(pair p);
void pair_finish(pair p, const uint64_t want[4]); /* a sent, a received, b sent, b received */

/* one end, where the other runs by itself */
void conn_send(node *n, weft_conn *c, const void *from, uint64_t bytes);
void conn_recv(node *n, weft_conn *c, void *to, uint64_t bytes);
void conn_finish(node *n, weft_conn *c, uint64_t sent, uint64_t received);
weft_status conn_fate(node *n, weft_conn *c, double seconds); /* progress until it fails */

/* processes: the child runs fn with its end of a socket pair and exits with what it returns */
typedef int (*child_fn)(int fd, uint32_t rank, void *arg);
int child_start(child_fn fn, uint32_t rank, void *arg, int *fd);
int child_end(int pid); /* exit status, or 128 + signal */
void tell(int fd, const void *from, uint64_t bytes);
void hear(int fd, void *to, uint64_t bytes);
void swap_address(node *mine, node *theirs, int fd);

/* Threads and children cannot use cmocka's asserts: their failure ends the process with status 3.
 */
#define must(condition) ((condition) ? (void)0 : rig_must_failed(#condition, __FILE__, __LINE__))
void rig_must_failed(const char *condition, const char *file, int line);

/* the rest */
double rig_now(void);
double rig_patience(void);
uint64_t rig_share(uint64_t n); /* of n rounds; in the lab (tests/lab), which is slow, a quarter */
const char *rig_why(void);      /* the last recorded failure of this thread */

#endif
