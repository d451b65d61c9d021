/* cli/plugins/info.h: the subcommand `weft plugins info`. */
#ifndef CLI_INFO_H
#define CLI_INFO_H

/* argv[0] is "plugins", argv[1] "info". Returns the exit status. */
int cli_info(int argc, char **argv);

#endif
