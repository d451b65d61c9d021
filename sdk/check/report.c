/* check/report.c: prints the results. See report.h. */
#include "check/report.h"

#include "base/clock.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REDRAW_MS 100u /* of the progress, at least */

bool check_report_failed(const check_result *r)
{
    return r->outcome != CHECK_NONE && r->outcome != CHECK_PASS &&
           r->outcome != CHECK_NOT_APPLICABLE;
}

static uint32_t count(const check_report *r, check_outcome outcome)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n; i++)
        n += r->at[i].outcome == outcome;
    return n;
}

/* JSON is UTF-8, and a path may be any bytes: each byte that begins no character becomes U+FFFD. */
static json_t *text(const char *s)
{
    static const char unknown[] = "\xef\xbf\xbd";
    json_t *whole = json_string(s);
    if (whole)
        return whole;
    const size_t n = strlen(s);
    char *out = mem_alloc(3 * n + 1), *to = out;
    for (size_t i = 0, k; i < n; i += k) {
        json_t *one = NULL;
        for (k = 1; k <= 4 && k <= n - i && !one; k++)
            one = json_stringn(s + i, k);
        k = one ? k - 1 : 1;
        const size_t bytes = one ? k : 3;
        memcpy(to, one ? s + i : unknown, bytes);
        to += bytes;
        json_decref(one);
    }
    whole = json_string(out);
    free(out);
    return whole;
}

/* A word of a command, for a shell: in quotes where it has to be. */
static size_t quote(char *out, size_t size, const char *word)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=+@%";
    if (*word && strspn(word, plain) == strlen(word))
        return (size_t)snprintf(out, size, " %s", word);
    size_t n = (size_t)snprintf(out, size, " '");
    for (; *word && n + 8 < size; word++)
        n += (size_t)snprintf(out + n, size - n, *word == '\'' ? "'\\''" : "%c", *word);
    return n + (size_t)snprintf(out + n, size - n, "'");
}

static const char *repeat(const check_report *r, const check_result *x, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "weft plugins check");
    n += quote(out + n, size - n, r->request->path);
    n += (size_t)snprintf(out + n, size - n, " --only %u --seed %llu", x->of->number,
                          (unsigned long long)r->request->seed);
    for (uint32_t i = 0; i < r->request->nset && n + 16 < size; i++) {
        n += (size_t)snprintf(out + n, size - n, " --set");
        n += quote(out + n, size - n, r->request->set[i]);
    }
    if (r->request->threads && n + 16 < size)
        snprintf(out + n, size - n, " --threads");
    return out;
}

static void print_bad(const check_report *r, const check_result *x)
{
    char again[8192];
    printf("check %u (%s): %s: %s\n  checked: %s\n  repeat: %s\n", x->of->number, x->group->name,
           check_outcome_names[x->outcome], x->text, x->of->title,
           repeat(r, x, again, sizeof again));
    if (x->output && *x->output) {
        printf("  output:\n");
        for (const char *at = x->output; *at;) {
            const size_t n = strcspn(at, "\n");
            printf("    %.*s\n", (int)n, at);
            at += n + (at[n] == '\n');
        }
    }
}

/* One that was shown and does not apply for the same reason; NULL: none. */
static const check_result *same_reason(const check_report *r, const check_result *x)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->at[i].shown && &r->at[i] != x && r->at[i].outcome == CHECK_NOT_APPLICABLE &&
            !strcmp(r->at[i].text, x->text))
            return &r->at[i];
    return NULL;
}

static void print_result(const check_report *r, const check_result *x)
{
    const check_result *same = same_reason(r, x);
    if (check_report_failed(x))
        print_bad(r, x);
    else if (x->outcome == CHECK_PASS || x->foreign)
        return;
    else if (same)
        printf("check %u (%s): not applicable, for the reason of check %u\n", x->of->number,
               x->group->name, same->of->number);
    else
        printf("check %u (%s): not applicable: %s\n", x->of->number, x->group->name, x->text);
}

void check_report_clear(check_report *r)
{
    if (r->line)
        fputs("\r\033[K", stderr);
    r->line = false;
}

void check_report_news(check_report *r)
{
    const uint64_t now = clock_ms();
    for (uint32_t i = 0; i < r->n; i++) {
        check_result *x = &r->at[i];
        if (x->outcome == CHECK_NONE || x->shown)
            continue;
        x->shown = true;
        if (r->request->json || x->outcome == CHECK_PASS)
            continue;
        check_report_clear(r);
        print_result(r, x);
        fflush(stdout);
    }
    if (now - r->drawn < REDRAW_MS || !isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%u of %u checks", r->n - count(r, CHECK_NONE), r->n);
    r->line = true;
    r->drawn = now;
}

static void print_sums(const check_report *r)
{
    const uint32_t passed = count(r, CHECK_PASS), skipped = count(r, CHECK_NOT_APPLICABLE);
    const uint32_t missing = count(r, CHECK_NONE);
    if (missing)
        printf("%u check%s not run: %s\n", missing, missing == 1 ? "" : "s", r->stopped);
    printf("%s: %u check%s passed, %u failed, %u not applicable (%.1f s)\n", r->request->path,
           passed, passed == 1 ? "" : "s", r->n - passed - skipped - missing, skipped, r->seconds);
}

static int print_json(const check_report *r)
{
    char again[8192];
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->n; i++) {
        const check_result *x = &r->at[i];
        if (x->outcome == CHECK_NONE)
            continue;
        json_t *one = json_pack("{s:I,s:s,s:s,s:s,s:f,s:o}", "number", (json_int_t)x->of->number,
                                "group", x->group->name, "title", x->of->title, "result",
                                check_outcome_names[x->outcome], "seconds", x->seconds, "repeat",
                                text(repeat(r, x, again, sizeof again)));
        json_object_set_new(one, "text", text(x->text));
        json_object_set_new(one, "output", text(x->output ? x->output : ""));
        json_array_append_new(list, one);
    }
    const uint32_t passed = count(r, CHECK_PASS), skipped = count(r, CHECK_NOT_APPLICABLE);
    const uint32_t missing = count(r, CHECK_NONE);
    json_t *all = json_pack("{s:o,s:I,s:I,s:I,s:I,s:I,s:o,s:f,s:o}", "file", text(r->request->path),
                            "seed", (json_int_t)r->request->seed, "passed", (json_int_t)passed,
                            "failed", (json_int_t)(r->n - passed - skipped - missing),
                            "not_applicable", (json_int_t)skipped, "not_run", (json_int_t)missing,
                            "stopped", text(r->stopped), "seconds", r->seconds, "checks", list);
    const int bad = json_dumpf(all, stdout, JSON_INDENT(1)) || putchar('\n') == EOF;
    json_decref(all);
    return bad;
}

int check_report_end(const check_report *r)
{
    bool bad = false;
    for (uint32_t i = 0; i < r->n; i++)
        bad = bad || check_report_failed(&r->at[i]);
    if (r->request->json)
        return print_json(r) ? 1 : bad;
    print_sums(r);
    return bad;
}
