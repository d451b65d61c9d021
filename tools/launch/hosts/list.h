/* launch/hosts/list.h: the file of `weft train --hosts`: the machines of a job.
 *
 * A line is `NAME [slots=N] [addr=ADDRESS]`; `#` begins a comment. NAME is what ssh takes: a host,
 * USER@HOST or a name of ssh's configuration. A host has one slot, for one rank, if nothing is
 * said. ADDRESS is where the other hosts reach this one; it matters for the host of rank 0, and is
 * the address that ssh has reached if nothing is said.
 *
 * Ranks fill the slots in the order of the file. Slots that are left over are spares: when a host
 * is lost, a restarted job uses them. */
#ifndef LAUNCH_HOSTS_LIST_H
#define LAUNCH_HOSTS_LIST_H

#include <stdbool.h>
#include <weft/base.h>

#define HOSTS_MAX 4096u
#define HOST_NAME_MAX_BYTES 256u

typedef struct launch_host {
    char name[HOST_NAME_MAX_BYTES]; /* not empty, does not begin with '-' */
    char addr[HOST_NAME_MAX_BYTES]; /* "": not said */
    uint32_t slots;                 /* 1 to 1024 */
    uint32_t line;                  /* of the file */
    bool lost;                      /* gets no ranks */
    uint32_t first, count;          /* its ranks, by launch_host_list_assign(); count 0: none */
} launch_host;

typedef struct launch_host_list {
    uint32_t n;
    launch_host *at; /* [n] */
} launch_host_list;

/* Parse `bytes` of `text` from the file `path`, which is for messages. WEFT_USAGE: it is not such a
 * list; *out is empty. Free *out with launch_host_list_free(). [setup] */
weft_status launch_host_list_parse(const char *path, const char *text, size_t bytes,
                                   launch_host_list *out);

/* The same of a file of at most 1 MiB. */
weft_status launch_host_list_read(const char *path, launch_host_list *out);

/* Slots of the hosts that are not lost. */
uint32_t launch_host_list_slots(const launch_host_list *l);

/* Give `ranks` ranks to the hosts that are not lost, which have slots enough. */
void launch_host_list_assign(launch_host_list *l, uint32_t ranks);

void launch_host_list_free(launch_host_list *l);

#endif
