/* base/err.c: the thread-local failure record. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static _Thread_local err_record record;
_Thread_local uint32_t err_count;

static const struct {
    const char *before, *after;
} words[ERR_SUBJECTS] = {
    [ERR_PLUGIN] = {"plugin ", ""}, [ERR_CALL] = {"", "()"}, [ERR_OP] = {"op ", ""}};

static weft_status begin_record(weft_status code, const char *fmt, va_list ap)
{
    char fresh[ERR_MAX]; /* the arguments may point into the old record */
    vsnprintf(fresh, sizeof fresh, fmt, ap);
    memcpy(record.text, fresh, sizeof fresh);
    memset(record.name, 0, sizeof record.name);
    err_count++;
    return record.code = code;
}

weft_status err_fail(weft_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)begin_record(code, fmt, ap);
    va_end(ap);
    return code;
}

weft_status err_fail_in(weft_status code, err_subject what, const char *name, const char *fmt, ...)
{
    char own[sizeof record.name[0]]; /* it may be a part of the old record */
    snprintf(own, sizeof own, "%s", name);
    va_list ap;
    va_start(ap, fmt);
    (void)begin_record(code, fmt, ap);
    va_end(ap);
    err_put_name(what, own);
    return code;
}

/* What an errno says, and what to do where a limit of the process is the cause. */
static void add_reason(int number)
{
    struct rlimit files;
    size_t used = strlen(record.text);
    used +=
        (size_t)snprintf(record.text + used, sizeof record.text - used, ": %s", strerror(number));
    if (number != EMFILE || getrlimit(RLIMIT_NOFILE, &files) || used >= sizeof record.text)
        return;
    if (files.rlim_cur < files.rlim_max)
        snprintf(record.text + used, sizeof record.text - used,
                 "; the limit is %llu, raise it: ulimit -n %llu",
                 (unsigned long long)files.rlim_cur, (unsigned long long)files.rlim_max);
    else
        snprintf(record.text + used, sizeof record.text - used,
                 "; the limit is %llu (ulimit -n), and only an administrator may raise it",
                 (unsigned long long)files.rlim_cur);
}

weft_status err_fail_errno(weft_status code, const char *fmt, ...)
{
    int number = errno;
    va_list ap;
    va_start(ap, fmt);
    (void)begin_record(code, fmt, ap);
    va_end(ap);
    add_reason(number);
    return code;
}

void err_context(const char *fmt, ...)
{
    char fresh[ERR_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(fresh, sizeof fresh, fmt, ap);
    va_end(ap);
    if (n < 0 || n >= ERR_MAX - 2)
        return;
    snprintf(fresh + n, sizeof fresh - (size_t)n, ": %.*s", ERR_MAX - n - 3, record.text);
    memcpy(record.text, fresh, sizeof fresh);
    err_count++;
}

void err_set_name(err_subject what, const char *name)
{
    snprintf(record.name[what], sizeof record.name[what], "%s", name);
}

void err_put_name(err_subject what, const char *name)
{
    if (!strncmp(err_name(what), name, sizeof record.name[what] - 1))
        return;
    err_context("%s%s%s", words[what].before ? words[what].before : "", name,
                words[what].after ? words[what].after : "");
    err_set_name(what, name);
}

const char *err_name(err_subject what)
{
    return record.name[what];
}

void err_keep(err_record *out)
{
    *out = record;
}

weft_status err_again(weft_status code, const err_record *r)
{
    record = *r;
    err_count++;
    return record.code = code;
}

const char *err_text(void)
{
    return record.text;
}

void err_clear(void)
{
    record = (err_record){.code = WEFT_OK};
}

int err_exit_code(weft_status code)
{
    switch (code) {
    case WEFT_OK: return 0;
    case WEFT_USAGE:
    case WEFT_DATA:
    case WEFT_UNSUPPORTED: return 2;
    case WEFT_ABSENT: return 77;
    default: return 1;
    }
}
