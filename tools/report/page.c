/* report/page.c: the HTML file (see report.h). Its parts are in the program: the assembler includes
 * them, so the file needs nothing that is installed. */
#include "report/report.h"

#include <string.h>

/* NAME and NAME_end are the first byte of files and the one behind their last. */
#define FILE_OF(path) ".incbin \"" path "\"\n"
#define SCRIPT(name) FILE_OF(REPORT_PAGE "/" name ".js")
#define PART(name, files)                                                                          \
    __asm__(".pushsection .rodata\n" #name ":\n" files #name "_end:\n.popsection");                \
    extern const char name[] __attribute__((visibility("hidden")));                                \
    extern const char name##_end[] __attribute__((visibility("hidden")))

PART(report_html, FILE_OF(REPORT_PAGE "/page.html"));
PART(report_css, FILE_OF(REPORT_PAGE "/page.css"));
PART(report_js, SCRIPT("page") SCRIPT("charts") SCRIPT("draw") SCRIPT("runs") SCRIPT("sweeps"));
PART(report_chart, FILE_OF(REPORT_CHART));

/* JSON inside HTML: no "<" may end the element. It stands in strings alone. */
static int put_json(const char *text, size_t n, void *to)
{
    for (const char *end = text + n; text < end;) {
        const char *bracket = memchr(text, '<', (size_t)(end - text));
        const char *stop = bracket ? bracket : end;
        fwrite(text, 1, (size_t)(stop - text), to);
        if (bracket)
            fputs("\\u003c", to);
        text = stop + (bracket != NULL);
    }
    return 0;
}

typedef struct part {
    const char *mark, *from, *end; /* `from` NULL: the data */
} part;

static const part parts[] = {{"/*CSS*/", report_css, report_css_end},
                             {"/*CHART*/", report_chart, report_chart_end},
                             {"/*PAGE*/", report_js, report_js_end},
                             {"/*DATA*/", NULL, NULL}};

/* The next mark of the template; NULL: there is none. */
static const part *next_mark(const char *at, const char **where)
{
    const part *next = NULL;
    for (const part *p = parts; p < parts + sizeof parts / sizeof *parts; p++) {
        const char *found = memmem(at, (size_t)(report_html_end - at), p->mark, strlen(p->mark));
        if (!found || (next && found > *where))
            continue;
        next = p;
        *where = found;
    }
    return next;
}

void report_write_page(const json_t *data, FILE *to)
{
    const part *p;
    const char *at = report_html, *where = NULL;
    while ((p = next_mark(at, &where))) {
        fwrite(at, 1, (size_t)(where - at), to);
        if (p->from)
            fwrite(p->from, 1, (size_t)(p->end - p->from), to);
        else
            json_dump_callback(data, put_json, to, JSON_COMPACT | JSON_REAL_PRECISION(7));
        at = where + strlen(p->mark);
    }
    fwrite(at, 1, (size_t)(report_html_end - at), to);
}
