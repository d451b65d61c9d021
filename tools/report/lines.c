/* report/lines.c: lines of foreign files, and sentences about them (see report.h). */
#include "report/report.h"

#include <stdarg.h>
#include <stdio.h>

json_t *report_text(const char *s)
{
    json_t *x = s ? json_string(s) : json_null();
    return x ? x : json_string("(not UTF-8)");
}

void report_note(json_t *notes, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    json_t *x = json_string(text);
    if (x)
        json_array_append_new(notes, x);
}

bool report_next_line(FILE *f, char line[REPORT_LINE], size_t *length, bool *whole)
{
    size_t n = 0;
    int c;
    while ((c = getc_unlocked(f)) != EOF) {
        if (c != '\n') {
            line[n] = (char)c;
            n += n < REPORT_LINE - 1;
        } else if (n < REPORT_LINE - 1) {
            break;
        } else {
            n = 0; /* it was too long */
        }
    }
    *whole = c == '\n';
    *length = n;
    return *whole || (n && n < REPORT_LINE - 1);
}
