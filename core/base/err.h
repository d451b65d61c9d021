/* base/err.h: one record of why the current call fails, per thread.
 *
 * The function that first detects a failure calls err_fail() with a sentence for the user: what was
 * asked, what is wrong, where, what to do. Functions above return the status unchanged; they may
 * add where it happened with err_context(). The record is printed once, at the top. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <weft/base.h>

/* What a sentence names at its beginning, for functions above that would put the same name before
 * it. Text itself is searched only if it is from outside: of the loader, a plugin, a process. */
typedef enum err_subject {
    ERR_PLUGIN, /* "plugin tcp: ..." */
    ERR_OWNER,  /* whose edits are made, "strategy dp: ..." */
    ERR_CALL,   /* a function of the ABI, "split(): ..." */
    ERR_OP,     /* "op gelu: ..." */
    ERR_FOLDER, /* of a plugin, "its folder /opt/plugins ..." */
    ERR_ENTRY,  /* an instruction of the plan */
    ERR_KEY,    /* a key of the INI, "data.train: ..." */
    ERR_SUBJECTS
} err_subject;

/* Record `fmt` and return `code`. Replaces an existing record: call it only where a failure is
 * first detected. [any] */
weft_status err_fail(weft_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As err_fail(), of a sentence that begins with a name, which this function writes. [any] */
weft_status err_fail_in(weft_status code, err_subject what, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* As err_fail(), with ": " and the text of errno appended. [any] */
weft_status err_fail_errno(weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Put "`fmt`: " before the current record. [any] */
void err_context(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Put "`name`: " before the current record, unless that is the name it has. [any] */
void err_put_name(err_subject what, const char *name);

/* Say that the sentence of the current record has this name. [any] */
void err_set_name(err_subject what, const char *name);

/* The name that the current record has; "" for none. Valid as err_text() is. [any] */
const char *err_name(err_subject what);

/* A record of its own: to pass a failure to another thread, or past calls that may fail, too. */
#define ERR_MAX 2048
typedef struct err_record {
    weft_status code;             /* WEFT_OK: none */
    char name[ERR_SUBJECTS][128]; /* cut where one is longer */
    char text[ERR_MAX];
} err_record;

void err_keep(err_record *out); /* a copy of the current record. [any] */
/* Make it the current one, with status `code`, which is returned. [any] */
weft_status err_again(weft_status code, const err_record *r);

/* The record of this thread; "" when there is none. Valid until the next call of this header. */
const char *err_text(void);
void err_clear(void);

/* Number of records written by this thread: equal before and after a call that recorded nothing.
 * Read only. */
extern _Thread_local uint32_t err_count;

/* Exit status of a status: 0 success, 1 failure, 2 usage error, 77 not available here. */
int err_exit_code(weft_status code);

#endif
