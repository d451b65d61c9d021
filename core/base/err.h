/* base/err.h: one record of why the current call fails, per thread.
 *
 * The function that first detects a failure calls err_fail() with a sentence for the user: what was
 * asked, what is wrong, where, what to do. Functions above return the status unchanged; they may
 * add where it happened with err_context(). The record is printed once, at the top. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <weft/base.h>

/* Record `fmt` and return `code`. If a record stands already it is replaced: call it only where a
 * failure is first seen. [any] */
weft_status err_fail(weft_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As err_fail(), with ": " and the text of errno appended. [any] */
weft_status err_fail_errno(weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Put "`fmt`: " before the record that stands. [any] */
void err_context(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The record of this thread; "" when there is none. Valid until the next call of this header. */
const char *err_text(void);
void err_clear(void);

/* With which status it was recorded; WEFT_OK: there is none. [any] */
weft_status err_status(void);

/* How often this thread has written its record: equal before and after a call that recorded
 * nothing. To be read only. */
extern _Thread_local uint32_t err_count;

/* Exit status that the design gives to a status: 0 done, 1 failed, 2 request wrong, 77 absent. */
int err_exit_code(weft_status code);

#endif
