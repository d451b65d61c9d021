/* plugins/new.h: the subcommand `weft plugins new`. */
#ifndef PLUGINS_NEW_H
#define PLUGINS_NEW_H

/* argv[0] is "plugins", argv[1] "new". Returns the exit status. */
int plugins_new(int argc, char **argv);

/* Print its help: the kinds, with the header and the page of each. */
void plugins_new_help(void);

#endif
