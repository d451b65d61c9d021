/* run/plugins_log.h: which plugins a job uses, for the log. */
#ifndef RUN_PLUGINS_LOG_H
#define RUN_PLUGINS_LOG_H

#include "resolve/spec.h"

/* Log the files in use in one line, and what `auto` chose; for rank 0. [setup] */
void run_log_plugins(const spec *s);

#endif
