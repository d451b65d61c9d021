/* cli/options.c: see options.h. */
#include "cli/options.h"

#include <string.h>

#include "config/differ.h"

static const char *column_of(cli_column column, const weft_option *o)
{
    bool binds =
        column == CLI_BIND || (column == CLI_OWN && config_option_effect(o) & CONFIG_BINDS);
    return binds ? "binds" : "free";
}

void cli_print_options(FILE *to, const weft_option *const *options, int markdown, cli_column column)
{
    size_t key_width = 3, type_width = 5, default_width = 7;
    char type[512];
    for (const weft_option *const *o = options; o && *o; o++) {
        const char *dflt = (*o)->dflt ? (*o)->dflt : "(needed)";
        config_type_text(*o, type, sizeof type);
        size_t k = strlen((*o)->key), t = strlen(type), d = strlen(dflt);
        key_width = k > key_width ? k : key_width;
        type_width = t > type_width ? t : type_width;
        default_width = d > default_width ? d : default_width;
    }
    const char *row =
        markdown ? "| %-*s | %-*s | %-*s%s%-*s | %s |\n" : "  %-*s  %-*s  %-*s%s%-*s  %s\n";
    const char *bar = column == CLI_PLAIN ? "" : markdown ? " | " : "  ";
    int width = column == CLI_PLAIN ? 0 : 6;
    fprintf(to, row, (int)key_width, "key", (int)type_width, "value", (int)default_width, "default",
            bar, width, width ? "resume" : "", "meaning");
    if (markdown)
        fprintf(to, "|---|---|---|%s---|\n", width ? "---|" : "");
    for (const weft_option *const *o = options; o && *o; o++) {
        config_type_text(*o, type, sizeof type);
        fprintf(to, row, (int)key_width, (*o)->key, (int)type_width, type, (int)default_width,
                (*o)->dflt ? (*o)->dflt : "(needed)", bar, width,
                width ? column_of(column, *o) : "", (*o)->help);
    }
}
