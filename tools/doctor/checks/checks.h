/* doctor/checks/checks.h: the checks, one function each.
 *
 * A check reads files (sysfs.h), adds a summary and facts to the report, and a finding for each bad
 * setting (report.h). It may use the facts of earlier checks in the table of doctor.c. [setup]
 *
 * `weft doctor --list` has the checks, docs/DOCTOR.md their findings: search there first. A
 * further setting of a subject that has a check is a finding of that check. To add a finding: an
 * assess_...() in its file, with a reason and a command, and a case in CASES of
 * tests/doctor/doctor_test.py. To add a check: its function, declared here; a row in the table of
 * doctor.c, before the last; a row in docs/DOCTOR.md; cases; the files that it reads, in the
 * healthy machine of tests/doctor/machine.py. A fact that should be equal on all ranks needs a row
 * in compare.c. */
#ifndef DOCTOR_CHECKS_CHECKS_H
#define DOCTOR_CHECKS_CHECKS_H

#include "doctor/report.h"
#include "doctor/sandbox.h"
#include "doctor/sysfs.h"

/* checks/job.c */
void doctor_check_job(doctor *d);
void doctor_check_fit(doctor *d);
/* checks/cpu.c */
void doctor_check_system(doctor *d);
void doctor_check_processor(doctor *d);
void doctor_check_frequency(doctor *d);
void doctor_check_clock(doctor *d);
/* checks/topology.c */
void doctor_check_topology(doctor *d);
/* checks/memory.c */
void doctor_check_memory(doctor *d);
void doctor_check_huge_pages(doctor *d);
void doctor_check_shared(doctor *d);
/* checks/limits.c */
void doctor_check_limits(doctor *d);
void doctor_check_container(doctor *d);
/* checks/net.c */
void doctor_check_network(doctor *d);
void doctor_check_sockets(doctor *d);
/* checks/rdma.c */
void doctor_check_rdma(doctor *d);
/* checks/gpu.c */
void doctor_check_gpus(doctor *d);
void doctor_check_libcuda(doctor *d);
void doctor_check_libnccl(doctor *d);
/* checks/ucp.c */
void doctor_check_libucp(doctor *d);
/* checks/plugin.c */
void doctor_check_plugins(doctor *d);
void doctor_check_peers(doctor *d);

#endif
