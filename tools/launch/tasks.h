/* launch/tasks.h: is `weft train` started where it would train something else than is meant: once
 * for each task of a launcher, or once instead of for each? */
#ifndef LAUNCH_TASKS_H
#define LAUNCH_TASKS_H

#include <stdbool.h>
#include <stdint.h>
#include <weft/base.h>

/* WEFT_USAGE where a launcher has started `weft train -n` or `--hosts` once for each of its tasks,
 * or where a batch script or shell of several tasks or nodes would train on one rank or node.
 * `ranks`: of -n, 0 without; `command`: what the right command starts, for the message. [setup] */
weft_status launch_check_tasks(uint32_t ranks, bool hosts, const char *command);

#endif
