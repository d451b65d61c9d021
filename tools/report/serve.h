/* report/serve.h: the page of `weft report`, kept up to date for a browser. */
#ifndef REPORT_SERVE_H
#define REPORT_SERVE_H

#include "report/report.h"

/* Serve `r` at "ADDRESS:PORT" (NULL: the loopback interface, a port that is free) until one of the
 * signals that end a program comes. Says the URL on standard output. Only requests that have its
 * token are answered, and none changes anything. WEFT_USAGE: the address is wrong or taken. [setup]
 */
weft_status report_serve(report *r, const char *address);

#endif
