/* check/lifecycle/lifecycle.h: checks of modules and objects from open to close; private to this
 * folder. */
#ifndef CHECK_LIFECYCLE_LIFECYCLE_H
#define CHECK_LIFECYCLE_LIFECYCLE_H

#include "check/exercise/exercise.h"

/* module.c */
void check_lifecycle_repeat(check_run *r);
void check_lifecycle_two_hosts(check_run *r);
void check_lifecycle_threads(check_run *r);
void check_lifecycle_memory(check_run *r);
void check_lifecycle_fork(check_run *r);

void check_lifecycle_null(check_run *r);      /* null.c */
void check_lifecycle_plan_only(check_run *r); /* paper.c */

/* failure.c */
void check_lifecycle_no_memory(check_run *r);
void check_lifecycle_sentence(check_run *r);
void check_lifecycle_no_record(check_run *r);
void check_lifecycle_untouched(check_run *r);

#endif
