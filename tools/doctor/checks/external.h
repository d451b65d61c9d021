/* doctor/checks/external.h: plugins from outside the installation, as a part of the check
 * `plugins`: those in the folders of [run] plugins and of WEFT_PLUGIN_PATH. [setup] */
#ifndef DOCTOR_CHECKS_EXTERNAL_H
#define DOCTOR_CHECKS_EXTERNAL_H

#include "doctor/report.h"
#include "host/host.h"

/* Is this a file from outside? [any] */
bool doctor_is_external(const host *h, const host_component *c);

/* A line for each such file of the list of host_list(): components, interfaces, ABI. A file that
 * cannot be used is a problem, one that hides another plugin a note. */
void doctor_add_external(doctor *d, const host *h, const host_component *const *all, uint32_t n);

#endif
