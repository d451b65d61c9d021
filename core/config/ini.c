/* config/ini.c: INI text to entries.
 *
 * libinih splits the lines. It silently truncates long names and lines, drops text after a
 * section's bracket, and treats an indented line as a continuation of the value above. So our
 * reader passes it one line at a time, counts lines, strips the indent, and first refuses what inih
 * would change silently. */
#include <ctype.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "config/store.h"

/* The length limit is a variable in builds that let it be one; elsewhere the reader obeys the size
 * of the buffer that it is given. */
extern int ini_max_line __attribute__((weak));

typedef struct cursor {
    config *c;
    const char *at, *end;
    uint32_t line;
    weft_status st;
} cursor;

static weft_status refuse(cursor *in, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static weft_status refuse(cursor *in, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    in->st = err_fail(WEFT_USAGE, "%s:%u: %s", in->c->name, in->line, text);
    return in->st;
}

/* Bytes of a line before its comment: " ;" to the end, as inih sees it. */
static size_t before_comment(const char *s, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (s[i] == ';' && isspace((unsigned char)s[i - 1])) {
            n = i;
            break;
        }
    while (n && isspace((unsigned char)s[n - 1]))
        n--;
    return n;
}

static bool has_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isspace((unsigned char)s[i]))
            return true;
    return false;
}

/* "[train]" */
static weft_status check_section(cursor *in, const char *s, size_t n)
{
    const char *end = memchr(s, ']', n);
    if (!end)
        return refuse(in, "'%.*s' has no closing ']'", (int)n, s);
    size_t len = (size_t)(end - s) - 1;
    if (end + 1 != s + n)
        return refuse(in, "'%.*s' follows the section name; start a new line",
                      (int)n - (int)len - 2, end + 1);
    if (!len || has_blank(s + 1, len))
        return refuse(in, "'%.*s' is not a section; write [name] without blanks", (int)n, s);
    if (len > CONFIG_MAX_NAME)
        return refuse(in, "a section name of %zu bytes; %d is the limit", len, CONFIG_MAX_NAME);
    char name[CONFIG_MAX_NAME + 1];
    memcpy(name, s + 1, len);
    name[len] = 0;
    config_note_section(in->c, name, in->line);
    return WEFT_OK;
}

/* "batch = 32" */
static weft_status check_key(cursor *in, const char *s, size_t n)
{
    const char *equals = memchr(s, '=', n), *colon = memchr(s, ':', n);
    if (colon && (!equals || colon < equals))
        return refuse(in, "'%.*s' has ':' before any '='; write key = value", (int)n, s);
    if (!equals)
        return refuse(in, "'%.*s' has no '='; write key = value, on one line", (int)n, s);
    size_t len = (size_t)(equals - s);
    while (len && isspace((unsigned char)s[len - 1]))
        len--;
    if (!len || has_blank(s, len))
        return refuse(in, "'%.*s' is not a key; write key = value", (int)len, s);
    if (len > CONFIG_MAX_NAME)
        return refuse(in, "a key of %zu bytes; %d is the limit", len, CONFIG_MAX_NAME);
    return WEFT_OK;
}

static weft_status check_line(cursor *in, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char b = (unsigned char)s[i];
        if ((b < 32 && b != '\t') || b == 127)
            return refuse(in, "byte %zu is the control character 0x%02x; the file must be text",
                          i + 1, b);
    }
    size_t whole = config_utf8(s, n);
    if (whole < n)
        return refuse(in, "byte %zu does not start a UTF-8 character; save the file as UTF-8",
                      whole + 1);
    if (!n || s[0] == ';' || s[0] == '#')
        return WEFT_OK;
    n = before_comment(s, n);
    return s[0] == '[' ? check_section(in, s, n) : check_key(in, s, n);
}

/* fgets for inih: the next line, stripped and checked; NULL ends the text. */
static char *read_line(char *out, int capacity, void *stream)
{
    cursor *in = stream;
    if (in->st != WEFT_OK || in->at == in->end)
        return NULL;
    const char *s = in->at, *newline = memchr(s, '\n', (size_t)(in->end - s));
    const char *stop = newline ? newline : in->end;
    in->at = newline ? newline + 1 : in->end;
    in->line++;
    if (stop > s && stop[-1] == '\r')
        stop--;
    while (s < stop && (*s == ' ' || *s == '\t'))
        s++;
    size_t n = (size_t)(stop - s), limit = (size_t)capacity - 3;
    if (limit > CONFIG_MAX_LINE)
        limit = CONFIG_MAX_LINE;
    if (n > limit) {
        in->st = refuse(in, "a line of %zu bytes; %zu is the limit", n, limit);
        return NULL;
    }
    if (check_line(in, s, n) != WEFT_OK)
        return NULL;
    memcpy(out, s, n);
    memcpy(out + n, "\n", 2);
    return out;
}

static int keep_entry(void *user, const char *section, const char *key, const char *text)
{
    cursor *in = user;
    config *c = in->c;
    if (in->st != WEFT_OK)
        return 0;
    if (!section[0])
        return refuse(in, "key '%s' is before any [section]", key) == WEFT_OK;
    if (text[0] == ';')
        return refuse(in, "the value of '%s' begins with ';'; put a blank before a comment", key) ==
               WEFT_OK;
    const config_setting *before = config_entry(c, section, key);
    if (before)
        return refuse(in, "key '%s' of [%s] was given in line %u already; keep one of the two", key,
                      section, before->line) == WEFT_OK;
    if (c->entries.n >= CONFIG_MAX_KEYS)
        return refuse(in, "more than %d keys", CONFIG_MAX_KEYS) == WEFT_OK;
    config_put(c, (config_setting){section, key, text, in->line, NULL, false, NULL});
    return 1;
}

weft_status config_read_ini(config *c, const char *text, size_t bytes)
{
    if (bytes >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3))
        text += 3, bytes -= 3;
    cursor in = {c, text, text + bytes, 0, WEFT_OK};
    if (&ini_max_line)
        ini_max_line = CONFIG_MAX_LINE + 8;
    int wrong = ini_parse_stream(read_line, &in, keep_entry, &in);
    if (in.st == WEFT_OK && wrong) {
        in.line = wrong > 0 ? (uint32_t)wrong : 0;
        return refuse(&in, "the INI parser does not understand this line");
    }
    return in.st;
}
