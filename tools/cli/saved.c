/* cli/saved.c: see saved.h. */
#include "cli/saved.h"

#include "base/mem.h"
#include "cli/cli.h"
#include "launch/launch.h"

#include <stdlib.h>
#include <string.h>

int cli_saved_word(cli_saved *s, int argc, char **argv, int i)
{
    const char *a = argv[i];
    uint64_t ranks;
    if (!strcmp(a, "-n") && i + 1 < argc && cli_number(argv[i + 1], 1, LAUNCH_MAX, &ranks)) {
        s->ranks = (uint32_t)ranks;
        return 2;
    }
    if (*a == '-')
        return 0;
    if (!s->dir) {
        s->dir = a;
        return 1;
    }
    if (!strchr(a, '=') || s->noverrides == CLI_SAVED_OVERRIDES)
        return 0;
    s->overrides[s->noverrides++] = a;
    return 1;
}

int cli_saved_launch(const cli_saved *s, int argc, char **argv, const char *replaced,
                     const char *name, const char *value)
{
    char **words = mem_alloc(((uint64_t)argc + 3) * sizeof *words);
    uint32_t n = 0;
    words[n++] = "weft";
    for (int i = 0; i < argc; i++) {
        if (!strcmp(argv[i], "-n")) {
            i++;
        } else if (replaced && !strcmp(argv[i], replaced)) {
            words[n++] = (char *)name;
            words[n++] = (char *)value;
            i++;
        } else {
            words[n++] = argv[i];
        }
    }
    const int status = launch_ranks(s->ranks, words, false);
    free(words);
    return status;
}
