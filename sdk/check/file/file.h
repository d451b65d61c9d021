/* check/file/file.h: checks of the file and of loading; private to this folder. */
#ifndef CHECK_FILE_FILE_H
#define CHECK_FILE_FILE_H

#include "check/harness/harness.h"

/* static.c: what the file says. */
void check_file_exports(check_run *r);
void check_file_own_entry(check_run *r);
void check_file_undefined(check_run *r);
void check_file_text_relocations(check_run *r);
void check_file_stack(check_run *r);
void check_file_run_path(check_run *r);
void check_file_tls(check_run *r);
void check_file_owner(check_run *r);

/* loading.c: what dlopen() and dlclose() do. */
void check_file_constructors(check_run *r);
void check_file_load_time(check_run *r);
void check_file_reload(check_run *r);
void check_file_exit(check_run *r);

void check_file_absent(check_run *r);   /* absent.c */
void check_file_baseline(check_run *r); /* baseline.c */

#endif
