/* check/report.h: the results of all checks, for people and programs; private to this folder. */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

#include "base/mem.h"
#include "check/page.h"

typedef struct check_result {
    const check *of;
    const check_group *group;
    check_outcome outcome;
    bool foreign;                            /* it does not concern the plugin */
    char text[CHECK_TEXT], call[CHECK_CALL]; /* as in check_page */
    double seconds;
    char *output; /* the end of what it printed; malloc() */
    bool shown;
} check_result;

typedef struct check_report { /* begins as a VEC(check_result) */
    check_result *at;
    uint32_t n, cap;
    const check_request *request;
    double seconds;
    char stopped[CHECK_TEXT + 128]; /* why the others were not run (CHECK_NONE); "": all were */
    bool line;                      /* the terminal shows the progress */
    uint64_t drawn;                 /* when it was drawn last, ms */
} check_report;

bool check_report_failed(const check_result *r); /* neither a pass nor "not applicable" */

/* Print the results that have come since the last call, unless the report is JSON, and the progress
 * on a terminal. check_report_clear() takes that line away. */
void check_report_news(check_report *r);
void check_report_clear(check_report *r);

/* What is printed when all checks have ended. Returns the exit status. */
int check_report_end(const check_report *r);

#endif
