/* check/child.h: the process of one check; private to this folder. */
#ifndef CHECK_CHILD_H
#define CHECK_CHILD_H

#include "check/page.h"

/* The deadline of a check; NULL: of the process that lists the interfaces. */
static inline uint32_t check_seconds(const check *c)
{
    return c && c->seconds ? c->seconds : 10;
}

/* Run check `number` here, in a process without another thread. Its result goes to q->result, or to
 * standard output with q->in_process. Number 0 writes the interfaces of the plugin, separated by
 * blanks. Returns the exit status. */
int check_child_run(const check_request *q, uint32_t number);

#endif
