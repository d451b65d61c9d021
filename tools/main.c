/* main.c: start reading here. `weft train job.ini` goes to train.c, which reads the INI (config/)
 * and starts the ranks; each goes to core/run/train.c, which finds the plugins (host/), builds the
 * model (graph/), plans the step (plan/), and walks the plan (run/exec/walk.c). */
#include "cli/cli.h"

#include "base/log.h"
#include "base/standard.h"
#include "config/config.h"
#include "host/call.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

const cli_command *const commands[] = {&cli_cmd_new,    &cli_cmd_train,  &cli_cmd_plan,
                                       &cli_cmd_sim,    &cli_cmd_bench,  &cli_cmd_report,
                                       &cli_cmd_watch,  &cli_cmd_tune,   &cli_cmd_doctor,
                                       &cli_cmd_data,   &cli_cmd_sample, &cli_cmd_eval,
                                       &cli_cmd_import, &cli_cmd_export, &cli_cmd_ckpt,
                                       &cli_cmd_flight, &cli_cmd_key,    &cli_cmd_plugins,
                                       &cli_cmd_config, &cli_cmd_ops,    NULL};

static int help(void)
{
    printf("usage: weft COMMAND ...\n\n");
    for (uint32_t i = 0; commands[i]; i++)
        printf("  %-8s %.*s\n", commands[i]->name, (int)strcspn(commands[i]->help, "\n"),
               commands[i]->help);
    printf("\nweft COMMAND --help says more; weft --version prints the version.\n");
    return 0;
}

static int unknown(const char *name)
{
    if (!strcmp(name, "version")) {
        log_line(WEFT_LOG_ERROR, "unknown command 'version'; weft --version prints the version");
        return 2;
    }
    const char *names[32];
    uint32_t n = 0;
    for (; commands[n]; n++)
        names[n] = commands[n]->name;
    const char *near = config_nearest(name, names, n);
    log_line(WEFT_LOG_ERROR, "unknown command '%s'%s%s%s; weft --help lists them", name,
             near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return 2;
}

static int run(int argc, char **argv)
{
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        help();
        return standard_answered(argc < 2 ? 2 : 0);
    }
    if (!strcmp(argv[1], "--version")) {
        cli_print_version();
        return standard_answered(0);
    }
    for (uint32_t i = 0; commands[i]; i++)
        if (!strcmp(argv[1], commands[i]->name)) {
            bool help = cli_help(commands[i], argc - 1, argv + 1);
            int status = help ? 0 : commands[i]->run(argc - 1, argv + 1);
            /* a training's results are files; its progress lines may be lost */
            return commands[i] == &cli_cmd_train && !help ? status : standard_answered(status);
        }
    return unknown(argv[1]);
}

int main(int argc, char **argv)
{
    prctl(PR_SET_NAME, "weft"); /* ranks are started by way of /proc/self/exe */
    standard_fill();
    log_setup(WEFT_LOG_INFO, -1);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a sentence, not a death */
    signal(SIGPIPE, SIG_IGN);
    /* hwloc, which tells devices and MPI about cores, loads all of its plugins wherever it is used.
     * Those that look for displays bring X11 along, and take a part of a start. */
    setenv("HWLOC_PLUGINS_BLACKLIST", "hwloc_gl.so,hwloc_opencl.so", 0);
    host_crash_watch();
    int status = run(argc, argv);
    host_crash_main_returns();
    return status;
}
