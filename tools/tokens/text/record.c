/* tokens/text/record.c: see record.h. */
#include "tokens/text/record.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 2048u /* of brackets, as jansson's */

typedef struct span { /* what is left of the line; at == end: nothing */
    const char *at, *end;
} span;

static bool skip_blanks(span *s)
{
    while (s->at < s->end && strchr(" \t\r\n", *s->at) && *s->at)
        s->at++;
    return s->at < s->end;
}

static bool skip_char(span *s, char c)
{
    const bool there = skip_blanks(s) && *s->at == c;
    s->at += there;
    return there;
}

static bool skip_string(span *s)
{
    if (!skip_char(s, '"'))
        return false;
    while (s->at < s->end && *s->at != '"')
        s->at += *s->at == '\\' && s->end - s->at > 1 ? 2 : 1;
    return skip_char(s, '"');
}

/* Up to the comma or bracket that ends a value. */
static bool skip_value(span *s)
{
    char closing[DEPTH_MAX];
    for (uint32_t depth = 0; skip_blanks(s);) {
        const char c = *s->at;
        if (!depth && (c == ',' || c == '}'))
            return true;
        if ((c == '{' || c == '[') && depth == DEPTH_MAX)
            return false;
        if (c == '{' || c == '[')
            closing[depth++] = c == '{' ? '}' : ']';
        else if ((c == '}' || c == ']') && (!depth || closing[--depth] != c))
            return false;
        if (c != '"')
            s->at++;
        else if (!skip_string(s))
            return false;
    }
    return false;
}

/* A number may be larger than an integer of C. */
static json_t *read(const char *from, const char *to, json_error_t *error)
{
    return json_loadb(from, (size_t)(to - from),
                      JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, error);
}

/* The key with its quotes is that of the field. */
static bool is_named(const char *from, const char *to, const char *field)
{
    const size_t n = (size_t)(to - from) - 2;
    if (!memchr(from, '\\', n + 1))
        return n == strlen(field) && !memcmp(from + 1, field, n);
    json_t *key = read(from, to, NULL);
    const bool same = key && json_string_length(key) == strlen(field) &&
                      !memcmp(json_string_value(key), field, strlen(field));
    json_decref(key);
    return same;
}

/* The value of the field; {NULL, NULL}: there is none. False: the line is not JSON. */
static bool find(span s, const char *field, span *out)
{
    bool more = skip_char(&s, '{') && skip_blanks(&s) && *s.at != '}';
    while (more) {
        const char *key = s.at;
        if (!skip_string(&s))
            return false;
        const bool named = is_named(key, s.at, field);
        if (!skip_char(&s, ':') || !skip_blanks(&s))
            return false;
        const char *value = s.at;
        if (!skip_value(&s) || s.at == value)
            return false;
        if (named)
            *out = (span){value, s.at};
        more = *s.at == ',';
        s.at += more;
        if (more && !skip_blanks(&s))
            return false;
    }
    return skip_char(&s, '}') && !skip_blanks(&s);
}

json_t *tokens_record_text(const char *line, uint64_t n, const char *field, char why[256])
{
    span s = {line, line + n}, value = {NULL, NULL};
    json_t *text = NULL;
    json_error_t error = {.text = ""};
    if (!skip_blanks(&s) || *s.at != '{')
        snprintf(why, 256, "the line is no record: it is not an object");
    else if (!find(s, field, &value))
        snprintf(why, 256, "the line is not JSON: its strings, commas or brackets do not agree");
    else if (!value.at)
        snprintf(why, 256, "the record has no such field (--field NAME): %.180s", field);
    else if (!(text = read(value.at, value.end, &error)))
        snprintf(why, 256, "the line is not JSON: %s", error.text);
    else if (!json_is_string(text))
        snprintf(why, 256, "this field of the record is no text: %.180s", field);
    else
        return text;
    json_decref(text);
    return NULL;
}
