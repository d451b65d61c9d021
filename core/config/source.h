/* config/source.h: the text of a job file, also from a pipe.
 *
 * A command may read its job several times, and the ranks that it starts read it again. A regular
 * file is opened each time. Anything else (standard input, a FIFO, /dev/fd/63 of a shell) gives its
 * bytes once: they are kept in a sealed memory file, which later reads and the ranks use instead.
 */
#ifndef CONFIG_SOURCE_H
#define CONFIG_SOURCE_H

#include <stdbool.h>
#include <weft/base.h>

/* In a rank that a launcher started: the descriptor of the launcher's copy (base/sealed.h). */
#define CONFIG_SOURCE_ENV "WEFT_JOB_FD"

/* Read the job `path`; "-" is standard input. The caller frees *out, which has `*bytes` bytes and
 * no zero behind them. A job from a pipe that has no bytes is refused, because the defaults alone
 * would be trained. One thread. [setup] */
weft_status config_source_read(const char *path, char **out, size_t *bytes);

/* All bytes of `fd`, from its begin where it is a `file`: at most those of a job. `what` ("job
 * file") and `path` are for messages. The caller frees *out. [setup] */
weft_status config_read_all(int fd, bool file, const char *what, const char *path, char **out,
                            size_t *bytes);

/* What messages call it: "standard input" for "-", else the path itself. [any] */
const char *config_source_name(const char *path);

/* The kept copy for a launcher to hand to its ranks; -1: there is none, and ranks open the path.
 * The descriptor stays ours. [setup] */
int config_source_descriptor(void);

#endif
