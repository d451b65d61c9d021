/* group.h: the CPU quota of control groups. */
#ifndef CPU_GROUP_H
#define CPU_GROUP_H

/* CPU quota of this process in CPUs: the smallest of its control groups and their ancestors
 * (cpu.max, or cpu.cfs_quota_us in version 1); 0: no limit. Files are read below `root`, which is
 * "" except in tests. [setup] */
double cpu_group_limit(const char *root);

#endif
