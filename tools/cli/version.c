/* cli/version.c: weft --version. The build writes cli/commit.h anew when the commit has changed
 * (cmake/commit.cmake); nothing else includes it, so nothing else is compiled again. */
#include "cli/cli.h"

#include "cli/commit.h"

#include <weft/plugin.h>

#include <stdio.h>

const char *cli_commit(void)
{
    return *WEFT_COMMIT ? WEFT_COMMIT : "unknown";
}

void cli_print_version(void)
{
    printf("weft %s, plugin ABI %u.%u\n", WEFT_VERSION, WEFT_ABI_MAJOR, WEFT_ABI_MINOR);
    printf("commit %s\n", cli_commit());
    printf("build  %s, %s %s, for %s\n", WEFT_BUILD, WEFT_COMPILER, WEFT_COMPILER_VERSION,
           WEFT_PROCESSOR);
}
