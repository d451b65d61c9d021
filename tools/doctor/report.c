/* doctor/report.c: see report.h. */
#include "doctor/report.h"

#include <stdarg.h>
#include <string.h>

#define COLUMNS 100
#define INDENT 21
#define DEEPEST 8

const char *const doctor_levels[DOCTOR_LEVELS] = {"ok", "unknown", "note", "warning", "problem"};

/* --- writing --- */

/* Text from the machine is untrusted; replaces what is not printable ASCII. */
static json_t *clean(const char *fmt, va_list ap)
{
    char text[1024];
    vsnprintf(text, sizeof text, fmt, ap);
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return json_string(text);
}

json_t *doctor_json_text(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    json_t *text = clean(fmt, ap);
    va_end(ap);
    return text;
}

void doctor_begin_check(doctor *d, const char *id, const char *title)
{
    d->check = json_pack("{s:s, s:s, s:s, s:[], s:{}, s:[]}", "id", id, "title", title, "level",
                         doctor_levels[DOCTOR_OK], "summary", "facts", "findings");
    d->finding = NULL;
}

static enum doctor_level level_of(const json_t *x)
{
    for (int i = 0; i < DOCTOR_LEVELS; i++)
        if (!strcmp(doctor_report_text(x, "level"), doctor_levels[i]))
            return (enum doctor_level)i;
    return DOCTOR_OK;
}

static enum doctor_level worst_of(const json_t *list)
{
    enum doctor_level worst = DOCTOR_OK;
    size_t i;
    const json_t *x;
    json_array_foreach (list, i, x)
        worst = level_of(x) > worst ? level_of(x) : worst;
    return worst;
}

void doctor_end_check(doctor *d)
{
    const enum doctor_level worst = worst_of(json_object_get(d->check, "findings"));
    if (worst > level_of(d->check))
        json_object_set_new(d->check, "level", json_string(doctor_levels[worst]));
    json_array_append_new(d->done, d->check);
    d->check = d->finding = NULL;
}

void doctor_add_line(doctor *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    json_array_append_new(json_object_get(d->check, "summary"), clean(fmt, ap));
    va_end(ap);
}

void doctor_set_unknown(doctor *d)
{
    json_object_set_new(d->check, "level", json_string(doctor_levels[DOCTOR_UNKNOWN]));
}

void doctor_add_unknown(doctor *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    json_array_append_new(json_object_get(d->check, "summary"), clean(fmt, ap));
    va_end(ap);
    doctor_set_unknown(d);
}

/* A fact's name may contain a device's name, so it is cleaned as well. */
static void set_fact(doctor *d, const char *name, json_t *value)
{
    char key[128];
    snprintf(key, sizeof key, "%s", name);
    for (char *c = key; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    json_object_set_new(json_object_get(d->check, "facts"), key, value);
}

void doctor_add_text(doctor *d, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set_fact(d, name, clean(fmt, ap));
    va_end(ap);
}

void doctor_add_number(doctor *d, const char *name, int64_t value)
{
    set_fact(d, name, json_integer(value));
}

void doctor_add_finding(doctor *d, enum doctor_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    d->finding = json_pack("{s:s, s:o}", "level", doctor_levels[level], "what", clean(fmt, ap));
    va_end(ap);
    json_array_append_new(json_object_get(d->check, "findings"), d->finding);
}

void doctor_add_reason(doctor *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    json_object_set_new(d->finding, "why", clean(fmt, ap));
    va_end(ap);
}

void doctor_add_command(doctor *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    json_object_set_new(d->finding, "type", clean(fmt, ap));
    va_end(ap);
}

/* --- facts --- */

static json_t *facts_of(const json_t *checks, const char *check)
{
    size_t i;
    const json_t *c;
    json_array_foreach (checks, i, c)
        if (!strcmp(doctor_report_text(c, "id"), check))
            return json_object_get(c, "facts");
    return NULL;
}

json_t *doctor_report_facts(const json_t *report, const char *check)
{
    return facts_of(json_object_get(report, "checks"), check);
}

static int64_t number_or(const json_t *v, int64_t otherwise)
{
    return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

int64_t doctor_fact_number(const doctor *d, const char *check, const char *name, int64_t otherwise)
{
    return number_or(json_object_get(facts_of(d->done, check), name), otherwise);
}

const char *doctor_fact_text(const doctor *d, const char *check, const char *name)
{
    const char *text = json_string_value(json_object_get(facts_of(d->done, check), name));
    return text ? text : "";
}

int64_t doctor_report_number(const json_t *report, const char *check, const char *fact,
                             int64_t otherwise)
{
    return number_or(json_object_get(doctor_report_facts(report, check), fact), otherwise);
}

/* --- parsing and printing, also of reports that other ranks sent --- */

static bool is_printable(const char *text)
{
    for (; text && *text; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

/* Whether all text is printable, and the depth is that of a report. */
static bool is_valid_json(json_t *x, int depth)
{
    size_t i;
    const char *key;
    json_t *part;
    if (depth > DEEPEST || !is_printable(json_string_value(x)))
        return false;
    json_array_foreach (x, i, part)
        if (!is_valid_json(part, depth + 1))
            return false;
    json_object_foreach (x, key, part)
        if (!is_printable(key) || !is_valid_json(part, depth + 1))
            return false;
    return true;
}

json_t *doctor_report_read(const void *text, uint64_t bytes)
{
    json_t *x = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(x) && is_valid_json(x, 0))
        return x;
    json_decref(x);
    return NULL;
}

const char *doctor_report_text(const json_t *of, const char *key)
{
    const char *text = json_string_value(json_object_get(of, key));
    return text ? text : "";
}

enum doctor_level doctor_worst(const json_t *report)
{
    return worst_of(json_object_get(report, "checks"));
}

/* `text` wrapped at words: the first line after `first`, the others aligned below it. */
static void print_wrapped(FILE *to, const char *first, const char *text)
{
    int at = fprintf(to, "%*s%s", INDENT, "", first);
    const int begin = at;
    while (*text) {
        size_t n = strcspn(text, " ");
        if (at > begin && (size_t)at + 1 + n > COLUMNS)
            at = fprintf(to, "\n%*s", begin, "") - 1;
        else if (at > begin)
            at += fprintf(to, " ");
        at += fprintf(to, "%.*s", (int)n, text);
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

void doctor_print_finding(const json_t *finding, const char *prefix, FILE *to)
{
    char what[2048];
    snprintf(what, sizeof what, "%s%s", prefix, doctor_report_text(finding, "what"));
    print_wrapped(to, "- ", what);
    if (*doctor_report_text(finding, "why"))
        print_wrapped(to, "  why:  ", doctor_report_text(finding, "why"));
    if (*doctor_report_text(finding, "type")) /* on one line, for copying */
        fprintf(to, "%*s  type: %s\n", INDENT, "", doctor_report_text(finding, "type"));
}

void doctor_print_check(const json_t *check, FILE *to)
{
    const json_t *summary = json_object_get(check, "summary"), *x;
    const char *first = json_string_value(json_array_get(summary, 0));
    size_t i;
    fprintf(to, "%-11.11s %-8.8s %s\n", doctor_report_text(check, "id"),
            doctor_report_text(check, "level"), first ? first : "");
    json_array_foreach (summary, i, x)
        if (i && json_string_value(x))
            fprintf(to, "%*s%s\n", INDENT, "", json_string_value(x));
    json_array_foreach (json_object_get(check, "findings"), i, x)
        doctor_print_finding(x, "", to);
}

void doctor_print(const json_t *report, FILE *to)
{
    const json_t *checks = json_object_get(report, "checks"), *c, *x;
    uint32_t count[DOCTOR_LEVELS] = {0};
    size_t i, k;
    json_array_foreach (checks, i, c) {
        doctor_print_check(c, to);
        count[DOCTOR_UNKNOWN] += level_of(c) == DOCTOR_UNKNOWN;
        json_array_foreach (json_object_get(c, "findings"), k, x)
            count[level_of(x)]++;
    }
    fprintf(to, "\n%s: %zu checks, %u problem%s, %u warning%s, %u note%s, %u unknown\n",
            doctor_report_text(report, "host"), json_array_size(checks), count[DOCTOR_PROBLEM],
            count[DOCTOR_PROBLEM] == 1 ? "" : "s", count[DOCTOR_WARNING],
            count[DOCTOR_WARNING] == 1 ? "" : "s", count[DOCTOR_NOTE],
            count[DOCTOR_NOTE] == 1 ? "" : "s", count[DOCTOR_UNKNOWN]);
}
