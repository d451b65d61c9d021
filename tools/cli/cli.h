/* cli/cli.h: the weft commands, one file each, and their shared functions. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <weft/base.h>

typedef struct cli_command {
    const char *name;
    const char *usage;                 /* after "weft NAME " */
    const char *help;                  /* one line, then more after a newline */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
    bool (*more_help)(int argc, char **argv); /* prints a subcommand's help; false: it has none.
                                                 NULL allowed */
} cli_command;

extern const cli_command cli_cmd_train, cli_cmd_plan, cli_cmd_sim, cli_cmd_plugins, cli_cmd_data,
    cli_cmd_new, cli_cmd_key, cli_cmd_sample, cli_cmd_eval, cli_cmd_import, cli_cmd_export,
    cli_cmd_ckpt, cli_cmd_flight, cli_cmd_bench, cli_cmd_tune, cli_cmd_config, cli_cmd_doctor,
    cli_cmd_ops, cli_cmd_report, cli_cmd_watch;

/* NULL-ended, in the order in which `weft --help` prints them. */
extern const cli_command *const commands[];

/* Print the record of the failure and return its exit status. */
int cli_fail(weft_status st);

/* err_fail(WEFT_USAGE) with the command's usage behind the sentence; returns 2. */
int cli_usage(const cli_command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for an option that the command has not taken: where usage or help list it, its `value`,
 * the word behind it or NULL, is wrong or missing; else there is no such option. */
int cli_refuse(const cli_command *c, const char *option, const char *value);

/* What `weft --version` prints: version, ABI of plugins, commit, and how it was built. */
void cli_print_version(void);

/* The commit of the source tree that was built, "unknown" where it was none of git. */
const char *cli_commit(void);

/* --help among the arguments: prints it and returns true. */
bool cli_help(const cli_command *c, int argc, char **argv);

/* Is the word section.key=value, and not the path of a job file? A path with '=' is taken as one
 * where it begins with "/", "./" or "../", or where such a file exists and the word has a folder or
 * no key. */
bool cli_is_override(const char *word);

/* A job on the command line: [-n RANKS] JOB.ini [section.key=value ...] and the flags and options
 * named in `flags` ("--json") and `valued` ("--rank"), both NULL-ended. */
typedef struct cli_job {
    const char *ini;
    uint32_t ranks;         /* 0: not given */
    const char **overrides; /* pointers into argv; freed by the caller */
    uint32_t noverrides;
    bool flag[8];         /* by position in `flags` */
    const char *value[4]; /* by position in `valued`; NULL: not given */
} cli_job;
bool cli_parse_job(const cli_command *c, int argc, char **argv, const char *const *flags,
                   const char *const *valued, cli_job *out, int *status);

/* [NAME] [JOB.ini] [section.key=value ...]: the name, NULL if there is none, and the job that was
 * given, else NULL; the caller destroys it. */
struct config;
weft_status cli_read_words(int argc, char **argv, const char **name, struct config **cfg);

/* weft data info, a part of the command `c`; argv[0] is "info". Returns the exit status. */
int cli_data_info(const cli_command *c, int argc, char **argv);

/* The signals that end a command: SIGINT, SIGTERM and SIGHUP. */
void cli_ending_signals(sigset_t *out);

/* `word` without blanks around it; in place. */
char *cli_trimmed(char *word);

/* A whole number in [min, max]; false when it is none. */
bool cli_number(const char *text, uint64_t min, uint64_t max, uint64_t *out);

#endif
