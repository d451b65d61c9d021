/* ckpt.c: weft ckpt info|verify. */
#include "cli/cli.h"

#include "ckpt/ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_tensors(const ckpt *c)
{
    const ckpt_piece *p;
    uint32_t n = ckpt_tensors(c, &p);
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t count = 1;
        printf("%-32s", p[i].name);
        for (uint32_t k = 0; k < p[i].rank; k++) {
            printf("%s%" PRId64, k ? " x " : " ", p[i].shape[k]);
            count *= (uint64_t)p[i].shape[k];
        }
        printf("\n");
        total += count * weft_dtype_size(p[i].dtype);
    }
    printf("%u tensors, %" PRIu64 " bytes\n", n, total);
}

/* A job of somebody else: nothing in it reaches the terminal as a command. */
static void print_job(const char *text)
{
    for (const char *at = text; *at; at++)
        putchar((unsigned char)*at < 32 && *at != '\n' && *at != '\t' ? '?'
                : *at == 127                                          ? '?'
                                                                      : *at);
}

static int run(int argc, char **argv)
{
    bool info = argc == 3 && !strcmp(argv[1], "info"),
         verify = argc == 3 && !strcmp(argv[1], "verify");
    if (!info && !verify)
        return cli_usage(&cli_cmd_ckpt, "give info or verify, and a folder");
    ckpt *c;
    weft_status st = ckpt_open(argv[2], &c);
    if (st != WEFT_OK)
        return cli_fail(st);
    printf("%s: step %" PRIu64 ", every sum agrees\n", ckpt_dir(c), ckpt_step(c));
    if (info) {
        print_tensors(c);
        printf("\n");
        print_job(ckpt_job_text(c));
    }
    ckpt_close(c);
    return 0;
}

const cli_command cli_cmd_ckpt = {
    "ckpt", "info|verify DIR",
    "Verify all of a checkpoint; info also prints its tensors and the job that wrote it.", run,
    NULL};
