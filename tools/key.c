/* key.c: weft key. */
#include "job/wire/key.h"
#include "cli/cli.h"

#include <string.h>

static int key(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "-o"))
        return cli_usage(&cli_cmd_key, "name the output: -o FILE");
    return cli_fail(job_key_write(argv[2]));
}

const cli_command cli_cmd_key = {
    "key", "-o FILE",
    "Write a fresh job key that only you can read, for ranks that weft train -n did not start.\n"
    "Copy it to every machine and name it as [run] key.",
    key, NULL};
