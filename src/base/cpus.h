/* How many CPUs this process may keep busy: its affinity mask, capped by the quota of its control
 * group. The public function is pool_usable_cpus(). The quota reader is separate so that tests can
 * run it on their own folder. */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

/* The quota in whole CPUs (rounded down, at least 1) of a control group below `root`
 * (/sys/fs/cgroup), or of its nearest ancestor with a smaller quota; 0 = no quota. The group is
 * read from `self_cgroup`, the text of /proc/self/cgroup. Supports version 2 (cpu.max) and version
 * 1 (cpu.cfs_quota_us). */
int cgroup_cpus(const char *root, const char *self_cgroup);

/* n_cpus, capped by the quota of this process's own group. */
int cpus_within_quota(int n_cpus);

/* The ids in the calling thread's affinity mask, ascending; the caller frees *out. Returns their
 * number, at least one. */
int cpus_allowed(int **out);

#endif
