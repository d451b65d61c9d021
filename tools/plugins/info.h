/* plugins/info.h: the subcommand `weft plugins info`. */
#ifndef PLUGINS_INFO_H
#define PLUGINS_INFO_H

/* argv[0] is "plugins", argv[1] "info". Returns the exit status. */
int plugins_info(int argc, char **argv);

#endif
