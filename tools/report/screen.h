/* report/screen.h: a run on a terminal. */
#ifndef REPORT_SCREEN_H
#define REPORT_SCREEN_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* Draw one of the runs of report_json() on lines of at most `width` columns; returns how many
 * lines. `blocks`: with characters of Unicode beyond ASCII. [any] */
uint32_t report_screen(const json_t *run, uint32_t width, int blocks, FILE *to);

#define REPORT_SCREEN_LINES 15u /* that a run has, unless there are many notes */

/* The same in a line of at most `width` columns; returns 1. */
uint32_t report_screen_line(const json_t *run, uint32_t width, FILE *to);

/* The last step of the run, 0: none yet. */
uint64_t report_screen_step(const json_t *run);

#endif
