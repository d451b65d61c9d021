/* group.h: CPU time that control groups allow. */
#ifndef CPU_GROUP_H
#define CPU_GROUP_H

/* CPUs whose time this process may use, by its control groups and all above them (cpu.max, or
 * cpu.cfs_quota_us in version 1); 0: no limit. Files are read below `root`, which is "" but in
 * tests. [setup] */
double cpu_group_limit(const char *root);

#endif
