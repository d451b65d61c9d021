/* pattern.c: patterns, which tokenizer.json writes for Oniguruma, run by PCRE2.
 *
 * Both agree on most of what tokenizers use. Where they differ the pattern is rewritten: \s and \w
 * become the sets that Oniguruma means, \uHHHH becomes \x{HHHH}, and scripts are asked for without
 * extensions. What means something else in Oniguruma, or is not known here, is refused. */
#include <stdio.h>
#include <stdlib.h>

#include "read.h"
#include "utf8.h"

#define MAX_PATTERN 65536

#define SPACE                                                                                      \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"             \
    "\\x{202f}\\x{205f}\\x{3000}"
#define WORD                                                                                       \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"                    \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                            "|\\s+(?!\\S)|\\s+";

/* Patterns of which more is known than their text says. */
#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BLANKS "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const struct {
    const char *text;
    int sync;
} known[] = {
    {gpt2_pattern, HF_SYNC_ENDS},
    {ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" BLANKS,
     HF_SYNC_ENDS},
    {ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" BLANKS,
     HF_SYNC_ENDS},
    {"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" ENDINGS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER
     "*" ENDINGS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" BLANKS,
     HF_SYNC_ENDS},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"
     "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" BLANKS,
     HF_SYNC_ENDS},
    {"\\p{N}{1,3}", HF_SYNC_APART},
    {"\\p{N}", HF_SYNC_APART},
    {"[0-9][0-9][0-9]", HF_SYNC_APART},
    {"\\d", HF_SYNC_APART},
    {"[0-9]", HF_SYNC_APART},
    {"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", HF_SYNC_APART},
    {" {2,}", HF_SYNC_RUNS},
};

typedef struct rewriter {
    const reader *r;
    const char *field, *at; /* what is left of the pattern */
    bool set;               /* within [] */
    char *out;
    uint32_t n;
    weft_status st;
} rewriter;

static void refuse(rewriter *w, const char *what)
{
    if (w->st == WEFT_OK)
        w->st =
            read_bad(w->r, w->field,
                     "the pattern has %s at \"%.40s\", which is not known to mean the same here "
                     "as in Oniguruma",
                     what, w->at);
}

static void put(rewriter *w, const char *s, uint64_t n)
{
    if (w->n + n > MAX_PATTERN)
        refuse(w, "too many characters");
    if (w->st != WEFT_OK)
        return;
    memcpy(w->out + w->n, s, n);
    w->n += (uint32_t)n;
}

static void put_text(rewriter *w, const char *s)
{
    put(w, s, strlen(s));
}

/* A class of characters: as it is within a set, else as a set. */
static void put_class(rewriter *w, const char *members, bool negated)
{
    if (w->set && negated) {
        refuse(w, "a negated class within a set");
        return;
    }
    put_text(w, w->set ? "" : negated ? "[^" : "[");
    put_text(w, members);
    put_text(w, w->set ? "" : "]");
    w->at += 2;
}

/* \p{L}, \p{Lu}, \p{Han}: a name of more than two letters is that of a script. */
static void put_property(rewriter *w)
{
    const char *end = w->at[2] == '{' ? strchr(w->at, '}') : NULL;
    const char *name = w->at + 3 + (end && w->at[3] == '^');
    char text[64];
    if (!end || end == name || end - name > 30 ||
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") !=
            (size_t)(end - name)) {
        refuse(w, "a property");
        return;
    }
    snprintf(text, sizeof text, "\\%c{%s%s%.*s}", w->at[1], name > w->at + 3 ? "^" : "",
             end - name > 2 ? "sc:" : "", (int)(end - name), name);
    put_text(w, text);
    w->at = end + 1;
}

/* \uHHHH, \xHH, \x{H...} */
static void put_code(rewriter *w)
{
    const bool braces = w->at[1] == 'x' && w->at[2] == '{';
    const char *digits = w->at + 2 + braces;
    const size_t n = strspn(digits, "0123456789abcdefABCDEF");
    const size_t want = w->at[1] == 'u' ? 4 : 2;
    char text[32];
    if (braces ? n < 1 || n > 6 || digits[n] != '}' : n < want) {
        refuse(w, "a number of a character");
        return;
    }
    snprintf(text, sizeof text, "\\x{%.*s}", (int)(braces ? n : want), digits);
    put_text(w, text);
    w->at = digits + (braces ? n + 1 : want);
}

static void put_escape(rewriter *w)
{
    const char c = w->at[1];
    if (c == 's' || c == 'S')
        put_class(w, SPACE, c == 'S');
    else if (c == 'w' || c == 'W')
        put_class(w, WORD, c == 'W');
    else if (c == 'd' || c == 'D')
        put_class(w, "\\p{Nd}", c == 'D');
    else if (c == 'v')
        put_class(w, "\\x{b}", false);
    else if (c == 'p' || c == 'P')
        put_property(w);
    else if (c == 'u' || c == 'x')
        put_code(w);
    else if (strchr("nrtfae", c) || strchr(".^$*+?()[]{}|\\/-!\"#%&',:;<=>@_`~ ", c)) {
        put(w, w->at, c ? 2 : 1);
        w->at += c ? 2 : 1;
    } else {
        refuse(w, "an escape");
    }
}

/* (?: (?i: (?= (?! (?> and plain groups */
static void put_group(rewriter *w)
{
    static const char *const may[] = {"(?:", "(?i:", "(?=", "(?!", "(?>", "(?i)", "(?<=", "(?<!"};
    if (w->at[1] != '?') {
        put(w, w->at++, 1);
        return;
    }
    for (size_t i = 0; i < sizeof may / sizeof *may; i++)
        if (!strncmp(w->at, may[i], strlen(may[i]))) {
            put_text(w, may[i]);
            w->at += strlen(may[i]);
            return;
        }
    refuse(w, "a group");
}

/* {n}, {n,}, {n,m}, not followed by what both read differently. */
static void put_count(rewriter *w)
{
    const size_t first = strspn(w->at + 1, "0123456789");
    const char *end = w->at + 1 + first;
    if (*end == ',')
        end += 1 + strspn(end + 1, "0123456789");
    if (!first || *end != '}' || end[1] == '+') {
        refuse(w, "a count");
        return;
    }
    put(w, w->at, (uint64_t)(end + 1 - w->at));
    w->at = end + 1;
}

static void put_in_set(rewriter *w)
{
    if (*w->at == '[' || !strncmp(w->at, "&&", 2)) {
        refuse(w, "a set within a set");
        return;
    }
    if (*w->at == ']')
        w->set = false;
    put(w, w->at++, 1);
}

static void put_open_set(rewriter *w)
{
    w->set = true;
    put(w, w->at++, 1);
    if (*w->at == '^')
        put(w, w->at++, 1);
    if (*w->at == ']')
        refuse(w, "a set that begins with ]");
}

static weft_status rewrite(rewriter *w)
{
    while (*w->at && w->st == WEFT_OK) {
        if (*w->at == '\\')
            put_escape(w);
        else if (w->set)
            put_in_set(w);
        else if (*w->at == '[')
            put_open_set(w);
        else if (*w->at == '(')
            put_group(w);
        else if (*w->at == '{')
            put_count(w);
        else if (*w->at == '^' || *w->at == '$')
            refuse(w, "an anchor");
        else
            put(w, w->at++, 1);
    }
    put(w, "", 1);
    return w->st;
}

static weft_status compile(const reader *r, const char *field, const char *text, hf_pattern *out)
{
    int error;
    size_t place;
    uint32_t empty = 0;
    char why[160] = "";
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return read_no_memory(r);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 50);
    out->code =
        pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &place, context);
    pcre2_compile_context_free(context);
    if (!out->code) {
        pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
        return read_bad(r, field, "PCRE2 does not take the pattern \"%.80s\": %s at byte %zu", text,
                        why, place);
    }
    pcre2_pattern_info(out->code, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty)
        return read_bad(r, field, "the pattern matches an empty text");
    pcre2_jit_compile(out->code, PCRE2_JIT_COMPLETE); /* without it matching is slower */
    return WEFT_OK;
}

weft_status read_regex(const reader *r, const char *field, const char *regex, hf_pattern *out)
{
    rewriter w = {.r = r, .field = field, .at = regex, .out = malloc(MAX_PATTERN + 2)};
    if (!w.out)
        return read_no_memory(r);
    weft_status st = rewrite(&w);
    if (st == WEFT_OK)
        st = compile(r, field, w.out, out);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(regex, known[i].text))
            out->sync = known[i].sync;
    free(w.out);
    return st;
}

weft_status read_pattern(const reader *r, const json_t *object, const char *name, hf_pattern *out)
{
    const json_t *p = json_object_get(object, name);
    const json_t *literal = json_object_get(p, "String"), *regex = json_object_get(p, "Regex");
    if (json_is_string(regex) && json_object_size(p) == 1) {
        if (strlen(json_string_value(regex)) != json_string_length(regex))
            return read_bad(r, name, "the pattern has a character 0");
        return read_regex(r, name, json_string_value(regex), out);
    }
    if (!json_is_string(literal) || json_object_size(p) != 1)
        return read_bad(r, name, "a pattern is {\"String\": text} or {\"Regex\": pattern}");
    if (!json_string_length(literal) || json_string_length(literal) > MAX_PATTERN)
        return read_bad(r, name, "the text has no character, or too many");
    out->n = (uint32_t)json_string_length(literal);
    out->literal = read_copy(json_string_value(literal), out->n);
    return out->literal ? WEFT_OK : read_no_memory(r);
}

void hf_pattern_free(hf_pattern *p)
{
    pcre2_code_free(p->code);
    free(p->literal);
    *p = (hf_pattern){0};
}

/* --- matching --- */

static bool find_literal(const hf_pattern *p, const char *s, uint64_t n, uint64_t *start,
                         uint64_t *end, uint64_t from)
{
    for (; n >= p->n && from <= n - p->n; from++) {
        const char *at = memchr(s + from, *p->literal, n - p->n + 1 - from);
        if (!at)
            return false;
        from = (uint64_t)(at - s);
        if (!memcmp(at, p->literal, p->n)) {
            *start = from;
            *end = from + p->n;
            return true;
        }
    }
    return false;
}

int hf_find(hf_work *w, const hf_pattern *p, const char *s, uint64_t n, uint64_t from,
            uint64_t *start, uint64_t *end)
{
    if (!p->code)
        return find_literal(p, s, n, start, end, from);
    int rc = pcre2_match(p->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, w->match, w->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(p->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         w->match, w->context);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    const size_t *place = pcre2_get_ovector_pointer(w->match);
    if (rc < 0 || place[1] <= place[0] || place[0] < from) {
        if (rc == PCRE2_ERROR_NOMEMORY)
            w->failed = true;
        else
            w->limit = true;
        return -1;
    }
    *start = place[0];
    *end = place[1];
    return 1;
}
