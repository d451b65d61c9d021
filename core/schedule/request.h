/* schedule/request.h: properties of the kinds of collectives, and validation of requests. */
#ifndef SCHEDULE_REQUEST_H
#define SCHEDULE_REQUEST_H

#include <stdbool.h>

#include "schedule/schedule.h"

bool sched_reduces(uint32_t kind);     /* adds up, or takes the largest or smallest */
bool sched_has_root(uint32_t kind);    /* one rank has all of in or of out */
bool sched_is_pair(uint32_t kind);     /* between two ranks */
bool sched_equal_parts(uint32_t kind); /* its parts are count / ranks elements each */

/* WEFT_USAGE, with a message, for a request that no algorithm supports. [any] */
weft_status sched_request_check(const sched_request *r);

#endif
