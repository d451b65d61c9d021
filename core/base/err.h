/* base/err.h: one record of why the current call fails, per thread.
 *
 * The function that first detects a failure calls err_fail() with a sentence for the user: what was
 * asked, what is wrong, where, what to do. Functions above return the status unchanged; they may
 * add where it happened with err_context(). The record is printed once, at the top. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <weft/base.h>

/* Record `fmt` and return `code`. Replaces an existing record: call it only where a failure is
 * first detected. [any] */
weft_status err_fail(weft_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As err_fail(), with ": " and the text of errno appended. [any] */
weft_status err_fail_errno(weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Put "`fmt`: " before the current record. [any] */
void err_context(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The record of this thread; "" when there is none. Valid until the next call of this header. */
const char *err_text(void);
void err_clear(void);

/* The status of the record; WEFT_OK without one. [any] */
weft_status err_status(void);

/* Number of records written by this thread: equal before and after a call that recorded nothing.
 * Read only. */
extern _Thread_local uint32_t err_count;

/* Exit status of a status: 0 success, 1 failure, 2 usage error, 77 not available here. */
int err_exit_code(weft_status code);

#endif
