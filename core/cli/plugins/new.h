/* cli/plugins/new.h: the subcommand `weft plugins new`. */
#ifndef CLI_NEW_H
#define CLI_NEW_H

/* argv[0] is "plugins", argv[1] "new". Returns the exit status. */
int cli_new(int argc, char **argv);

/* Print its help: the kinds, with the header and the page of each. */
void cli_new_help(void);

#endif
