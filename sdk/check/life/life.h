/* check/life/life.h: checks of modules and objects from open to close; private to this folder. */
#ifndef CHECK_LIFE_LIFE_H
#define CHECK_LIFE_LIFE_H

#include "check/drive/drive.h"

/* module.c */
void check_life_repeat(check_run *r);
void check_life_two_hosts(check_run *r);
void check_life_threads(check_run *r);
void check_life_memory(check_run *r);
void check_life_fork(check_run *r);

void check_life_null(check_run *r);  /* null.c */
void check_life_paper(check_run *r); /* paper.c */

/* failure.c */
void check_life_no_memory(check_run *r);
void check_life_sentence(check_run *r);
void check_life_no_record(check_run *r);
void check_life_untouched(check_run *r);

#endif
