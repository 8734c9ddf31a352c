/* How many CPUs this process may keep busy: its affinity mask, capped by the quota of its control
 * group. The public face is pool_usable_cpus(); what reads the quota is apart so that tests can
 * point it at a folder of their own. */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

/* The quota in whole CPUs (rounded down, at least 1) of the control group that `self_cgroup` (the
 * text of /proc/self/cgroup) names below `root` (/sys/fs/cgroup), or of the nearest ancestor that
 * grants less; 0 = no quota. Knows version 2 (cpu.max) and version 1 (cpu.cfs_quota_us). */
int cgroup_cpus(const char *root, const char *self_cgroup);

/* n_cpus, or what the quota of this process's own group grants if that is less. */
int cpus_within_quota(int n_cpus);

/* The ids in the calling thread's affinity mask, rising, to free(); gives how many, at least
 * one. */
int cpus_allowed(int **out);

#endif
