/* base/err.c: the thread-local failure record. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define ERR_MAX 2048

static _Thread_local char record[ERR_MAX];
static _Thread_local weft_status first;
_Thread_local uint32_t err_count;

static void write_record(const char *fmt, va_list ap)
{
    char fresh[ERR_MAX]; /* the arguments may point into the old record */
    vsnprintf(fresh, sizeof fresh, fmt, ap);
    memcpy(record, fresh, sizeof record);
}

weft_status err_fail(weft_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_record(fmt, ap);
    va_end(ap);
    first = code;
    err_count++;
    return code;
}

/* What an errno says, and what to do where a limit of the process is the cause. */
static void add_reason(int number)
{
    struct rlimit files;
    size_t used = strlen(record);
    used += (size_t)snprintf(record + used, sizeof record - used, ": %s", strerror(number));
    if (number != EMFILE || getrlimit(RLIMIT_NOFILE, &files) || used >= sizeof record)
        return;
    if (files.rlim_cur < files.rlim_max)
        snprintf(record + used, sizeof record - used,
                 "; the limit is %llu, raise it: ulimit -n %llu",
                 (unsigned long long)files.rlim_cur, (unsigned long long)files.rlim_max);
    else
        snprintf(record + used, sizeof record - used,
                 "; the limit is %llu (ulimit -n), and only an administrator may raise it",
                 (unsigned long long)files.rlim_cur);
}

weft_status err_fail_errno(weft_status code, const char *fmt, ...)
{
    int number = errno;
    va_list ap;
    va_start(ap, fmt);
    write_record(fmt, ap);
    va_end(ap);
    add_reason(number);
    first = code;
    err_count++;
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
    snprintf(fresh + n, sizeof fresh - (size_t)n, ": %.*s", ERR_MAX - n - 3, record);
    memcpy(record, fresh, sizeof record);
    err_count++;
}

weft_status err_status(void)
{
    return record[0] ? first : WEFT_OK;
}

const char *err_text(void)
{
    return record;
}

void err_clear(void)
{
    record[0] = 0;
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
