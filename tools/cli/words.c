/* cli/words.c: the words of commands that take a name, a job, or both. */
#include "cli/cli.h"

#include "base/err.h"
#include "config/config.h"

#include <ctype.h>
#include <string.h>

/* A word that is no override: a job file ends in .ini, another one is a name. */
static bool is_job(const char *word)
{
    size_t n = strlen(word);
    return n > 4 && !strcmp(word + n - 4, ".ini");
}

weft_status cli_read_words(int argc, char **argv, const char **name, config **cfg)
{
    const char *overrides[64], *ini = NULL;
    uint32_t n = 0;
    for (int i = 1; i < argc; i++) {
        const bool is_override = cli_is_override(argv[i]);
        const char **word = is_job(argv[i]) ? &ini : name;
        if (is_override && n == sizeof overrides / sizeof *overrides)
            return err_fail(WEFT_USAGE, "more than %u overrides", n);
        if (!is_override && *word)
            return err_fail(WEFT_USAGE, "one name at a time, and one job: '%s' is too many",
                            argv[i]);
        if (is_override)
            overrides[n++] = argv[i];
        else
            *word = argv[i];
    }
    return ini || n ? config_load(ini, overrides, n, cfg) : WEFT_OK;
}

char *cli_trimmed(char *word)
{
    while (isspace((unsigned char)*word))
        word++;
    size_t n = strlen(word);
    while (n && isspace((unsigned char)word[n - 1]))
        word[--n] = 0;
    return word;
}
