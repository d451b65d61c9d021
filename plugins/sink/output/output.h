/* plugins/sink/output: a file of whole records, one a step or an event, that a thread writes. Who
 * adds a record does not wait for a disk or a network folder, however long that takes. */
#ifndef PLUGINS_SINK_OUTPUT_H
#define PLUGINS_SINK_OUTPUT_H

#include <weft/sink.h>

#include <sys/types.h>

typedef struct output output; /* opaque */

/* What `fd`, which becomes the output's also after a failure, gets behind its first `end` bytes.
 * Messages call the file `name` and its records `records`, "lines"; both are kept as pointers.
 * *st is WEFT_IO, with a record of why, where NULL is returned. [setup] */
output *output_open(const weft_host *host, int fd, off_t end, const char *name, const char *records,
                    weft_status *st);

/* The file gets these bytes of `step` whole, some 50 ms later, or nothing of them: a full disk, or
 * one that is so far behind that there is no room for more, costs records, and the log says so,
 * once until records are written again. `bytes` NULL: there was no memory for them. [compute] */
void output_add(output *o, uint64_t step, const void *bytes, size_t n);

/* Wait until everything is in the file, for a second at most. After a wait that was too short no
 * call waits any more until everything has been written. [compute] */
void output_settle(output *o);

/* Wait likewise, for four seconds; the log says how many records are lost. NULL allowed. [setup] */
void output_close(output *o);

#endif
