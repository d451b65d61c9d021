/* cli/files.c: weft data, weft key, weft flight: commands about files, without a job. */
#include "cli/cli.h"

#include "base/err.h"
#include "base/mem.h"
#include "data/data.h"
#include "job/wire/key.h"
#include "run/view/flight.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int data(int argc, char **argv)
{
    const char **texts = mem_alloc((uint64_t)argc * sizeof *texts), *out = NULL, *valid = NULL;
    uint32_t n = 0;
    for (int i = 1; i < argc; i++) {
        bool o = !strcmp(argv[i], "-o"), v = !strcmp(argv[i], "--valid");
        if ((o || v) && i + 1 < argc)
            *(o ? &out : &valid) = argv[++i];
        else if (*argv[i] == '-') {
            free(texts);
            return cli_usage(&cli_cmd_data, "option %s is unknown or lacks its value", argv[i]);
        } else
            texts[n++] = argv[i];
    }
    int status = 2;
    if (!n || !out) {
        status = cli_usage(&cli_cmd_data, n ? "name the output: -o FILE" : "name the texts");
    } else {
        uint64_t train, held = 0;
        weft_status st = data_write_bytes(texts, n, out, valid, &train, &held);
        if (st == WEFT_OK)
            printf("%s: %" PRIu64 " tokens%s\n", out, train, valid ? "" : ", one a byte");
        if (st == WEFT_OK && valid)
            printf("%s: %" PRIu64 " tokens, held out\n", valid, held);
        status = cli_fail(st);
    }
    free(texts);
    return status;
}

const command cli_cmd_data = {
    "data", "TEXT... -o FILE [--valid FILE]",
    "Write a token file of the bytes of the texts; every 20th block of 4 KiB goes to --valid.",
    data};

static int key(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "-o"))
        return cli_usage(&cli_cmd_key, "name the output: -o FILE");
    return cli_fail(job_key_write(argv[2]));
}

const command cli_cmd_key = {
    "key", "-o FILE",
    "Write a fresh job key that only you can read, for ranks that weft train -n did not start.\n"
    "Copy it to every machine and name it as [run] key.",
    key};

static int flight_command(int argc, char **argv)
{
    uint64_t count = 20;
    const char *dir = NULL;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "-c") && i + 1 < argc) {
            if (!cli_number(argv[++i], 1, FLIGHT_RECORDS, &count))
                return cli_usage(&cli_cmd_flight, "-c takes a number from 1 to %u", FLIGHT_RECORDS);
        } else if (*argv[i] == '-' || dir) {
            return cli_usage(&cli_cmd_flight, "what is %s?", argv[i]);
        } else {
            dir = argv[i];
        }
    if (!dir)
        return cli_usage(&cli_cmd_flight, "name the folder of a run, or its flight/");
    return cli_fail(run_flight_print(dir, (uint32_t)count, stdout));
}

const command cli_cmd_flight = {
    "flight", "DIR [-c COUNT]",
    "Print the last instructions of every rank of a run, also of one that was killed.\n\n"
    "  -c COUNT   how many of each (20)",
    flight_command};
