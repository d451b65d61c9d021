/* check/page.h: the result of one check, in memory that its processes and the parent share; private
 * to this folder. */
#ifndef CHECK_PAGE_H
#define CHECK_PAGE_H

#include "check/check.h"

#include <stdatomic.h>

#define CHECK_TEXT 3000
#define CHECK_CALL 256

typedef struct check_page {
    _Atomic uint32_t outcome; /* check_outcome, once the text is complete */
    _Atomic uint32_t taken;   /* 1: somebody writes */
    _Atomic uint32_t lacks;   /* 1: somebody writes `absent` */
    _Atomic uint32_t foreign; /* 1: the check does not concern the plugin */
    char text[CHECK_TEXT];    /* the sentence */
    char call[CHECK_CALL];    /* "step() of the plugin acme.lion", in which it ended; "": none */
    char absent[CHECK_TEXT];  /* what the machine lacks; "": nothing */
} check_page;

int check_page_create(check_page **out); /* a descriptor that a child inherits; -1: none */
check_page *check_page_map(int fd);      /* NULL: not possible */

/* The page of this process. Without one, results go to standard output. */
void check_page_use(check_page *p);

/* Write a result unless there is one; afterwards there is one, unless the process that writes it
 * was killed. `call`: of the plugin, in which the process was, or "". Safe in a signal handler:
 * `text` is complete. */
void check_page_write(check_outcome outcome, const char *text, const char *call);

/* The check does not concern the plugin, which lacks these interfaces: it is counted, not printed.
 */
_Noreturn void check_page_foreign(const char *ifaces);
#define CHECK_FOREIGN "it has no component of %s"

bool check_page_is_written(void);

/* The check has returned: it passes, or is not applicable after check_absent(). */
void check_page_end(void);

extern const char *const check_outcome_names[]; /* [CHECK_OUTCOMES] */

#endif
