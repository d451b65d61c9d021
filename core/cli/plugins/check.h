/* cli/plugins/check.h: the subcommand `weft plugins check`. */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

/* argv[0] is "plugins", argv[1] "check". Returns the exit status. */
int cli_check(int argc, char **argv);

#endif
