/* check/behaviour/behaviour.h: checks of what no call of a plugin may do; private to this folder.
 */
#ifndef CHECK_BEHAVIOUR_BEHAVIOUR_H
#define CHECK_BEHAVIOUR_BEHAVIOUR_H

#include "check/exercise/exercise.h"

/* process.c */
void check_behaviour_silent(check_run *r);
void check_behaviour_state(check_run *r);

/* calls.c */
void check_behaviour_pure(check_run *r);
void check_behaviour_threads(check_run *r);
void check_behaviour_keys(check_run *r);
void check_behaviour_log(check_run *r);

/* borrow.c */
void check_behaviour_borrow(check_run *r);
void check_behaviour_strings(check_run *r);

void check_behaviour_objects(check_run *r); /* objects.c */

/* peers.c */
void check_behaviour_blocks(check_run *r);
void check_behaviour_any(check_run *r);

void check_behaviour_options(check_run *r);    /* options.c */
void check_behaviour_step(check_run *r);       /* step.c */
void check_behaviour_exceptions(check_run *r); /* exceptions.c */

#endif
