/* check/conduct/conduct.h: checks of what no call of a plugin may do; private to this folder. */
#ifndef CHECK_CONDUCT_CONDUCT_H
#define CHECK_CONDUCT_CONDUCT_H

#include "check/drive/drive.h"

/* process.c */
void check_conduct_silent(check_run *r);
void check_conduct_state(check_run *r);

/* calls.c */
void check_conduct_pure(check_run *r);
void check_conduct_threads(check_run *r);
void check_conduct_keys(check_run *r);
void check_conduct_log(check_run *r);

/* borrow.c */
void check_conduct_borrow(check_run *r);
void check_conduct_strings(check_run *r);

void check_conduct_objects(check_run *r); /* objects.c */

/* peers.c */
void check_conduct_blocks(check_run *r);
void check_conduct_any(check_run *r);

void check_conduct_options(check_run *r);    /* options.c */
void check_conduct_step(check_run *r);       /* step.c */
void check_conduct_exceptions(check_run *r); /* exceptions.c */

#endif
