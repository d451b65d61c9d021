/* flight.c: weft flight. */
#include "run/view/flight.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static int run(int argc, char **argv)
{
    uint64_t count = 20;
    const char *dir = NULL;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "-c") && i + 1 < argc) {
            if (!cli_number(argv[++i], 1, FLIGHT_RECORDS, &count))
                return cli_usage(&cli_cmd_flight, "-c takes a number from 1 to %u", FLIGHT_RECORDS);
        } else if (*argv[i] == '-') {
            return cli_refuse(&cli_cmd_flight, argv[i], argv[i + 1]);
        } else if (dir) {
            return cli_usage(&cli_cmd_flight, "'%s' is one name too many", argv[i]);
        } else {
            dir = argv[i];
        }
    if (!dir)
        return cli_usage(&cli_cmd_flight, "name the folder of a run, or its flight/");
    return cli_fail(run_flight_print(dir, (uint32_t)count, stdout));
}

const cli_command cli_cmd_flight = {
    "flight", "DIR [-c COUNT]",
    "Print the last instructions of every rank of a run, also of one that was killed.\n\n"
    "  -c COUNT   how many of each (20)",
    run, NULL};
