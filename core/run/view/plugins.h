/* run/view/plugins.h: which plugins a job uses, for the log, and whether its tokenizer is that of
 * its data. */
#ifndef RUN_VIEW_PLUGINS_H
#define RUN_VIEW_PLUGINS_H

#include "run/prepare.h"

/* Log the files in use in one line, and what `auto` chose; for rank 0. Warns where the tokenizer
 * that the job names has another vocabulary than the data: another one has written it. [setup] */
void run_log_plugins(run_prepared *j);

#endif
