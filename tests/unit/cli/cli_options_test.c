/* Options as a table. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/options.h"

#include <test.h>

#define OPT(type, key, dflt, choices, min, max)                                                    \
    &(const weft_option)                                                                           \
    {                                                                                              \
        sizeof(weft_option), type, key, dflt, "help of " key, choices, min, max                    \
    }

static const weft_option *const two[] = {
    OPT(WEFT_OPT_CHOICE, "form", "on", "on|off", 0, 0),
    OPT(WEFT_OPT_INT, "a", NULL, NULL, 1, 8),
    NULL,
};

TEST(tables_are_printed)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    cli_print_options(f, two, 0, CLI_PLAIN);
    fclose(f);
    assert_string_equal(text, "  key   value                 default   meaning\n"
                              "  form  one of on, off        on        help of form\n"
                              "  a     whole number, 1 to 8  (needed)  help of a\n");
    free(text);
    f = open_memstream(&text, &bytes);
    cli_print_options(f, two, 1, CLI_PLAIN);
    fclose(f);
    assert_string_equal(text, "| key  | value                | default  | meaning |\n"
                              "|---|---|---|---|\n"
                              "| form | one of on, off       | on       | help of form |\n"
                              "| a    | whole number, 1 to 8 | (needed) | help of a |\n");
    free(text);
}
