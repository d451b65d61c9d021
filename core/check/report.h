/* check/report.h: the results of all checks, for people and programs; private to this folder. */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

#include "base/mem.h"
#include "check/page.h"

typedef struct check_result {
    const check *of;
    const check_group *group;
    check_outcome outcome;
    char text[CHECK_TEXT];
    double seconds;
    char *output; /* the end of what it printed; malloc() */
} check_result;

typedef struct check_report { /* begins as a VEC(check_result) */
    check_result *at;
    uint32_t n, cap;
    const check_request *request;
    double seconds;
    char stopped[CHECK_TEXT + 64]; /* why the others were not run (CHECK_NONE); "": all were */
} check_report;

bool check_report_failed(const check_result *r); /* neither a pass nor "not applicable" */

void check_report_progress(const check_report *r, uint32_t done); /* a line on a terminal */
int check_report_print(const check_report *r);                    /* the exit status */

#endif
