/* check/main.c: the program weft-check, which `weft plugins check` starts. The checks are in the
 * folders beside this file; check.h says how one is added. */
#include "check/check.h"

#include "base/log.h"
#include "base/standard.h"
#include "host/call.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE                                                                                      \
    "usage: weft plugins check FILE.so [--only N[,N-M...]] [--seed S] [--json] [--in-process]\n"   \
    "                               [--set KEY=VALUE]... [--threads]\n"                            \
    "       weft plugins check FILE.so --reproduce SEED\n"                                         \
    "       weft plugins check --list\n"

static const char help[] = USAGE
    "\nTest a plugin against the SDK's rules: docs/CHECKS.md. The program weft-check, which this\n"
    "command starts, takes the same words.\n\n"
    "  --only N,N-M     these checks alone\n"
    "  --seed S         of what the checks draw (1)\n"
    "  --reproduce S    the sequence of calls that a failed check 53 has named\n"
    "  --set KEY=VALUE  an option of the plugin; at most 16 times\n"
    "  --threads        ranks of a transport are threads of one process: for hardware, or a "
    "double\n"
    "                   of it, that reaches no other process\n"
    "  --json           every check with its result\n"
    "  --in-process     run one (--only N) without a process of its own, for a debugger\n"
    "  --list           the checks\n"
    "  --page           the same as docs/CHECKS.md has them\n";

static int refuse(const char *what, const char *word)
{
    fprintf(stderr, "weft plugins check: %s%s\n" USAGE, what, word);
    return 2;
}

static bool number(const char *text, uint64_t max, uint64_t *out)
{
    char *end = NULL;
    if (!text || !*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 19)
        return false;
    *out = strtoull(text, &end, 10);
    return *out <= max;
}

/* --set KEY=VALUE: an option of the plugin's components. */
static bool set_option(check_request *q, const char *value)
{
    const char *sign = value ? strchr(value, '=') : NULL;
    if (!sign || sign == value || strpbrk(value, "\n\r") || q->nset == CHECK_SETS)
        return false;
    q->set[q->nset++] = value;
    return true;
}

static int run(int argc, char **argv)
{
    check_request q = {.seed = 1, .result = -1};
    uint64_t fd;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(word, "--list") || !strcmp(word, "--page")) {
            (!strcmp(word, "--list") ? check_print_list : check_print_page)();
            return 0;
        }
        if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
            fputs(help, stdout);
            return 0;
        }
        if (!strcmp(word, "--json")) {
            q.json = true;
        } else if (!strcmp(word, "--in-process")) {
            q.in_process = true;
        } else if (!strcmp(word, "--threads")) {
            q.threads = true;
        } else if (!strcmp(word, "--set")) {
            if (!set_option(&q, value))
                return refuse("--set takes KEY=VALUE, and stands at most 16 times", "");
            i++;
        } else if (!strcmp(word, "--only")) {
            q.only = value;
            if (!value || !*value)
                return refuse("--only takes the numbers of checks, as 1-14,53", "");
            i++;
        } else if (!strcmp(word, "--seed") || !strcmp(word, "--reproduce")) {
            if (!number(value, INT64_MAX, &q.seed))
                return refuse(word, " takes a whole number");
            if (!strcmp(word, "--reproduce")) /* the sequence of calls with that seed */
                q.only = CHECK_SEQUENCES;
            i++;
        } else if (!strcmp(word, "--of")) { /* of the process of one check: the result's memory */
            if (!number(value, 1u << 20, &fd))
                return refuse("--of is for weft itself", "");
            q.result = (int)fd;
            i++;
        } else if (*word == '-') {
            return refuse("there is no option ", word);
        } else if (q.path) {
            return refuse("one file at a time: ", word);
        } else {
            q.path = word;
        }
    }
    return q.path ? check_command(&q) : refuse("name the plugin's file", "");
}

int main(int argc, char **argv)
{
    standard_fill();
    log_setup(WEFT_LOG_INFO, -1);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    host_crash_watch();
    const int status = standard_answered(run(argc, argv));
    host_crash_main_returns();
    return status;
}
