/* cli/cli.c: functions shared by the commands. */
#include "cli/cli.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int cli_fail(weft_status st)
{
    if (st != WEFT_OK && *err_text())
        log_line(WEFT_LOG_ERROR, "%s", err_text());
    else if (st != WEFT_OK)
        log_line(WEFT_LOG_ERROR, "failed with status %d and without a message", (int)st);
    return err_exit_code(st);
}

int cli_usage(const cli_command *c, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_line(WEFT_LOG_ERROR, "weft %s: %s\nusage: weft %s %s", c->name, text, c->name, c->usage);
    return 2;
}

/* Where the whole word stands in the text; NULL: nowhere. */
static const char *find_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + n, word))
        if (!at[n] || strchr(" ]|\n[=,;.", at[n]))
            return at;
    return NULL;
}

int cli_refuse(const cli_command *c, const char *option, const char *value)
{
    const char *texts[] = {c->usage, c->help};
    const size_t n = strlen(option);
    for (size_t i = 0; i < 2; i++)
        for (const char *at = strstr(texts[i], option); at; at = strstr(at + n, option)) {
            const size_t word = at[n] == ' ' ? strspn(at + n + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") : 0;
            if (!word || (at > texts[i] && !strchr(" [|", at[-1])))
                continue;
            if (!value)
                return cli_usage(c, "the value of %s is missing: %s %.*s", option, option,
                                 (int)word, at + n + 1);
            return cli_usage(c, "%s '%s': weft %s --help says which values it takes", option, value,
                             c->name);
        }
    return find_word(c->usage, option)
               ? cli_usage(c, "%s does not belong here; weft %s --help says where it does", option,
                           c->name)
               : cli_usage(c, "there is no option %s; weft %s --help lists them", option, c->name);
}

bool cli_help(const cli_command *c, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            if (c->more_help && c->more_help(argc, argv))
                return true;
            printf("usage: weft %s %s\n\n%s\n", c->name, c->usage, c->help);
            return true;
        }
    return false;
}

bool cli_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || *end || v < min || v > max)
        return false;
    *out = v;
    return true;
}

static int position(const char *const *list, const char *word)
{
    for (int i = 0; list && list[i]; i++)
        if (!strcmp(list[i], word))
            return i;
    return -1;
}

bool cli_is_override(const char *word)
{
    struct stat st;
    const char *equals = strchr(word, '=');
    if (!equals || *word == '/' || !strncmp(word, "./", 2) || !strncmp(word, "../", 3))
        return false;
    const bool has_key = memchr(word, '.', (size_t)(equals - word)), has_folder = strchr(word, '/');
    return (has_key && !has_folder) || stat(word, &st) || !S_ISREG(st.st_mode);
}

/* One argument; returns how many were used, 0 after an error. */
static int take(const cli_command *c, int argc, char **argv, int i, const char *const *flags,
                const char *const *valued, cli_job *out, int *status)
{
    const char *a = argv[i];
    uint64_t ranks;
    int at;
    if (!strncmp(a, "-n", 2)) { /* "-n 2" or "-n2" */
        const char *number = a[2] ? a + 2 : i + 1 < argc ? argv[i + 1] : "";
        if (!cli_number(number, 1, 1048576, &ranks)) {
            *status = cli_usage(c, "-n takes a number of ranks from 1 to 1048576");
            return 0;
        }
        out->ranks = (uint32_t)ranks;
        return a[2] ? 1 : 2;
    }
    if ((at = position(flags, a)) >= 0) {
        out->flag[at] = true;
        return 1;
    }
    if ((at = position(valued, a)) >= 0) {
        if (i + 1 == argc) {
            *status = cli_usage(c, "%s takes a value", a);
            return 0;
        }
        out->value[at] = argv[i + 1];
        return 2;
    }
    if (*a == '-' && a[1]) {
        *status = cli_refuse(c, a, NULL);
        return 0;
    }
    if (cli_is_override(a)) {
        out->overrides[out->noverrides++] = a;
    } else if (!out->ini) {
        out->ini = a;
    } else {
        *status = cli_usage(c,
                            "'%s' is neither an option nor section.key=value, and the job file is "
                            "%s already",
                            a, out->ini);
        return 0;
    }
    return 1;
}

bool cli_parse_job(const cli_command *c, int argc, char **argv, const char *const *flags,
                   const char *const *valued, cli_job *out, int *status)
{
    *out = (cli_job){0};
    out->overrides = mem_alloc((uint64_t)argc * sizeof *out->overrides);
    for (int i = 1; i < argc;) {
        int used = take(c, argc, argv, i, flags, valued, out, status);
        if (!used)
            return false;
        i += used;
    }
    return true;
}

void cli_ending_signals(sigset_t *out)
{
    sigemptyset(out);
    sigaddset(out, SIGINT);
    sigaddset(out, SIGTERM);
    sigaddset(out, SIGHUP);
}
