/* config/value.c: parses the text of one value by its option.
 *
 * Parsing is strict: the whole text must be of the option's type. Trailing text, hexadecimal, inf,
 * nan and numbers that a wider type would have rounded are refused. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/number/check.h"
#include "config/store.h"

#define REALS_MAX 64
#define CHOICES_MAX 32

static bool no(char why[VALUE_WHY], const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool no(char why[VALUE_WHY], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, VALUE_WHY, fmt, ap);
    va_end(ap);
    return false;
}

static bool is_bounded(const weft_option *o)
{
    return o->min != 0 || o->max != 0;
}

/* "1 to 64", "at least 1", "at most 64" */
static void range_text(const weft_option *o, char *out, size_t size)
{
    if (o->max >= 1e18)
        snprintf(out, size, "at least %.15g", o->min);
    else if (o->min <= -1e18)
        snprintf(out, size, "at most %.15g", o->max);
    else
        snprintf(out, size, "%.15g to %.15g", o->min, o->max);
}

static bool in_range(const weft_option *o, double v, const char *text, char why[VALUE_WHY])
{
    if (!is_bounded(o) || (v >= o->min && v <= o->max))
        return true;
    char range[96];
    range_text(o, range, sizeof range);
    return no(why, "'%.100s' is out of range; write %s", text, range);
}

static bool read_bool(const char *text, config_parsed *out, char why[VALUE_WHY])
{
    static const char *const words[] = {"off", "on", "false", "true", "no", "yes", "0", "1"};
    for (int i = 0; i < 8; i++)
        if (!strcmp(text, words[i])) {
            out->i = i & 1;
            return true;
        }
    return no(why, "'%.100s' is neither on nor off", text);
}

static bool read_int(const weft_option *o, const char *text, config_parsed *out,
                     char why[VALUE_WHY])
{
    const char *digits = text + (text[0] == '-');
    if (!digits[0] || digits[strspn(digits, "0123456789")])
        return no(why, "'%.100s' is not a whole number%s", text,
                  o->type == WEFT_OPT_AUTO_INT ? ", nor auto" : "");
    errno = 0;
    out->i = strtoll(text, NULL, 10);
    if (errno)
        return no(why, "'%.100s' does not fit into 64 bits", text);
    return in_range(o, (double)out->i, text, why);
}

static bool read_bytes(const weft_option *o, const char *text, config_parsed *out,
                       char why[VALUE_WHY])
{
    size_t n = strspn(text, "0123456789");
    const char *unit = text + n, *units = "KMG";
    const char *power = unit[0] ? strchr(units, unit[0]) : NULL;
    if (!n || (unit[0] && (!power || unit[1])))
        return no(
            why,
            "'%.100s' is not a number of bytes; write a whole number, optionally with K, M or G",
            text);
    errno = 0;
    uint64_t v = strtoull(text, NULL, 10), bytes;
    int shift = power ? 10 * (int)(power - units + 1) : 0;
    if (errno || !check_mul(v, (uint64_t)1 << shift, &bytes) || bytes > INT64_MAX)
        return no(why, "'%.100s' does not fit into 63 bits", text);
    out->i = (int64_t)bytes;
    return in_range(o, (double)out->i, text, why);
}

static bool read_real(const weft_option *o, const char *text, double *out, char why[VALUE_WHY])
{
    char *end;
    errno = 0;
    if (!text[0] || text[strspn(text, "0123456789+-.eE")])
        return no(why, "'%.100s' is not a number", text);
    double v = strtod(text, &end);
    if (*end || end == text)
        return no(why, "'%.100s' is not a number", text);
    if (!isfinite(v) || (errno && v == 0))
        return no(why, "'%.100s' does not fit into a double", text);
    *out = v;
    return in_range(o, v, text, why);
}

/* The numbers between commas. With `o`, each is checked by it; `out` receives up to `cap`. */
static bool walk_reals(const weft_option *o, const char *text, double *out, uint32_t cap,
                       uint32_t *n, char why[VALUE_WHY])
{
    *n = 0;
    for (const char *at = text;;) {
        size_t len = strcspn(at, ",");
        const char *next = at[len] ? at + len + 1 : NULL;
        while (len && (*at == ' ' || *at == '\t'))
            at++, len--;
        while (len && (at[len - 1] == ' ' || at[len - 1] == '\t'))
            len--;
        char one[64];
        double v;
        if (len >= sizeof one || *n >= REALS_MAX)
            return no(why, "'%.100s' is not a list of at most %d numbers", text, REALS_MAX);
        memcpy(one, at, len);
        one[len] = 0;
        if (!read_real(o, one, &v, why))
            return false;
        if (*n < cap)
            out[*n] = v;
        ++*n;
        if (!next)
            return true;
        at = next;
    }
}

uint32_t config_read_reals(const char *text, double *reals, uint32_t cap)
{
    static const weft_option any = {sizeof any, WEFT_OPT_REALS, "", NULL, "", NULL, 0, 0};
    char why[VALUE_WHY];
    uint32_t n;
    if (!walk_reals(&any, text, reals, cap, &n, why))
        return 0;
    return n;
}

/* "a|b|c" to words; the count, or 0 if there are too many or one is empty. */
static uint32_t split_choices(const char *choices, char copy[256], const char *words[CHOICES_MAX])
{
    uint32_t n = 0;
    size_t len = strlen(choices);
    if (!len || len > 255)
        return 0;
    memcpy(copy, choices, len + 1);
    for (char *at = copy; at;) {
        char *bar = strchr(at, '|');
        if (bar)
            *bar = 0;
        if (!at[0] || n == CHOICES_MAX)
            return 0;
        words[n++] = at;
        at = bar ? bar + 1 : NULL;
    }
    return n;
}

/* "a, b, c" */
static void list_words(const char *const *words, uint32_t n, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < n && used < size; i++) {
        int m = snprintf(out + used, size - used, "%s%s", i ? ", " : "", words[i]);
        used += m < 0 ? 0 : (size_t)m;
    }
}

static bool read_choice(const weft_option *o, const char *text, char why[VALUE_WHY])
{
    char copy[256], list[320];
    const char *words[CHOICES_MAX];
    uint32_t n = split_choices(o->choices, copy, words);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(text, words[i]))
            return true;
    list_words(words, n, list, sizeof list);
    const char *near = config_nearest(text, words, n);
    if (near)
        return no(why, "'%.60s' is none of %s; did you mean '%s'?", text, list, near);
    return no(why, "'%.60s' is none of %s", text, list);
}

bool config_read_value(const weft_option *o, const char *text, config_parsed *out,
                       char why[VALUE_WHY])
{
    *out = (config_parsed){0};
    if (!text[0] && o->type != WEFT_OPT_STRING)
        return no(why, "the value is empty");
    switch (o->type) {
    case WEFT_OPT_BOOL: return read_bool(text, out, why);
    case WEFT_OPT_INT: return read_int(o, text, out, why);
    case WEFT_OPT_AUTO_INT: return !strcmp(text, "auto") || read_int(o, text, out, why);
    case WEFT_OPT_BYTES: return read_bytes(o, text, out, why);
    case WEFT_OPT_REAL:
    case WEFT_OPT_SECONDS: return read_real(o, text, &out->r, why);
    case WEFT_OPT_REALS: return walk_reals(o, text, NULL, 0, &(uint32_t){0}, why);
    case WEFT_OPT_CHOICE: return read_choice(o, text, why);
    default: return true;
    }
}

static bool same_reals(const char *a, const char *b)
{
    double x[REALS_MAX], y[REALS_MAX];
    uint32_t n = config_read_reals(a, x, REALS_MAX);
    if (config_read_reals(b, y, REALS_MAX) != n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return false;
    return true;
}

bool config_same_value(const weft_option *o, const char *a, const char *b)
{
    config_parsed x, y;
    char why[VALUE_WHY];
    if (!strcmp(a, b))
        return true;
    if (o->type == WEFT_OPT_STRING || o->type == WEFT_OPT_CHOICE ||
        !config_read_value(o, a, &x, why) || !config_read_value(o, b, &y, why))
        return false;
    if (o->type == WEFT_OPT_REALS)
        return same_reals(a, b);
    return x.i == y.i && x.r == y.r;
}

void config_type_text(const weft_option *o, char *out, size_t size)
{
    static const char *const names[] = {
        "",        "on or off",     "whole number", "number",  "text",
        "one of ", "bytes (K M G)", "seconds",      "numbers", "auto or whole number",
    };
    char range[96] = "", copy[256];
    const char *words[CHOICES_MAX];
    if (o->type == WEFT_OPT_CHOICE) {
        int n = snprintf(out, size, "one of ");
        list_words(words, split_choices(o->choices, copy, words), out + n, size - (size_t)n);
        return;
    }
    if (is_bounded(o))
        range_text(o, range, sizeof range);
    const char *name = o->type < sizeof names / sizeof *names ? names[o->type] : "";
    snprintf(out, size, "%s%s%s", name, range[0] ? ", " : "", range);
}

static bool key_well_formed(const char *key)
{
    size_t n = key ? strnlen(key, CONFIG_MAX_NAME + 1) : 0;
    return n && n <= CONFIG_MAX_NAME && key[0] != '_' &&
           strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

weft_status config_option_check(const weft_option *o)
{
    if (!key_well_formed(o->key))
        return err_fail(WEFT_USAGE,
                        "an option whose key is not made of a-z, 0-9 and '_', 1 to %d bytes",
                        CONFIG_MAX_NAME);
    if (o->type < WEFT_OPT_BOOL || o->type > WEFT_OPT_AUTO_INT)
        return err_fail(WEFT_USAGE, "option '%s' has the unknown type %u", o->key, o->type);
    if (!o->help)
        return err_fail(WEFT_USAGE, "option '%s' has no line of help", o->key);
    char copy[256], why[VALUE_WHY];
    const char *words[CHOICES_MAX];
    if (o->type == WEFT_OPT_CHOICE && (!o->choices || !split_choices(o->choices, copy, words)))
        return err_fail(WEFT_USAGE, "option '%s' has no list of choices \"a|b\" (at most %d)",
                        o->key, CHOICES_MAX);
    if (!(o->min <= o->max))
        return err_fail(WEFT_USAGE, "option '%s' has bounds that do not form a range", o->key);
    config_parsed v;
    if (o->dflt && !config_read_value(o, o->dflt, &v, why))
        return err_fail(WEFT_USAGE, "the default of option '%s' is invalid: %s", o->key, why);
    if (o->dflt && !config_text_lawful(o->dflt))
        return err_fail(WEFT_USAGE, "the default of option '%s' cannot be written in an INI file",
                        o->key);
    return WEFT_OK;
}
