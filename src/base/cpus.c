/* CPU affinity and CPU quota. A quota is rounded down: when spinning threads exceed the quota, the
 * kernel stops them for the rest of the period, which costs more than one thread less. */
#include "base/cpus.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cgroup.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"

enum {
    CPUS_MAX = 1 << 20,        /* upper limit for growing the affinity mask */
    QUOTA_FILE_BYTES_MAX = 256 /* one or two numbers */
};

/* The calling thread's mask, to be freed with CPU_FREE(); NULL when the system does not report
 * it. */
static cpu_set_t *affinity_mask(int *n_max)
{
    for (*n_max = CPU_SETSIZE; *n_max <= CPUS_MAX; *n_max *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)*n_max);
        bool is_read;

        if (!set)
            return NULL;
        is_read = sched_getaffinity(0, CPU_ALLOC_SIZE((size_t)*n_max), set) == 0;
        if (is_read && CPU_COUNT_S(CPU_ALLOC_SIZE((size_t)*n_max), set) > 0)
            return set;
        CPU_FREE(set);
        if (is_read || errno != EINVAL) /* EINVAL: the kernel's mask is larger than ours */
            return NULL;
    }
    return NULL;
}

int cpus_allowed(int **out)
{
    int n_max, n = 0;
    cpu_set_t *set = affinity_mask(&n_max);
    const size_t size_bytes = set ? CPU_ALLOC_SIZE((size_t)n_max) : 0;

    *out = mem_new((set ? (size_t)CPU_COUNT_S(size_bytes, set) : 1) * sizeof **out);
    for (int id = 0; set && id < n_max; id++)
        if (CPU_ISSET_S((size_t)id, size_bytes, set))
            (*out)[n++] = id;
    CPU_FREE(set);
    return n > 0 ? n : 1; /* CPU 0 when nothing is known */
}

static bool read_small(char **out, const char *folder, const char *name)
{
    char *path = path_join(folder, name);
    size_t size_bytes;
    bool ok = file_read(out, &size_bytes, path, QUOTA_FILE_BYTES_MAX) == OSP_OK;

    free(path);
    return ok;
}

static int whole_cpus(long long quota_us, long long period_us)
{
    long long n;

    if (quota_us <= 0 || period_us <= 0)
        return 0;
    n = quota_us / period_us;
    return n < 1 ? 1 : n > INT_MAX ? INT_MAX : (int)n;
}

/* cgroup version 2: "150000 100000", or "max 100000". */
static int quota_v2(const char *folder)
{
    long long quota_us = 0, period_us = 0;
    char *text;
    int n = 0;

    if (!read_small(&text, folder, "cpu.max"))
        return 0;
    if (sscanf(text, "%lld %lld", &quota_us, &period_us) == 2)
        n = whole_cpus(quota_us, period_us);
    free(text);
    return n;
}

/* cgroup version 1: two files with one number each; -1 = no quota. */
static int quota_v1(const char *folder)
{
    char *quota = NULL, *period = NULL;
    int n = 0;

    if (read_small(&quota, folder, "cpu.cfs_quota_us") &&
        read_small(&period, folder, "cpu.cfs_period_us"))
        n = whole_cpus(atoll(quota), atoll(period));
    free(quota);
    free(period);
    return n;
}

static int64_t quota_of_group(const char *folder, int version)
{
    const int n = version == CGROUP_V2 ? quota_v2(folder) : quota_v1(folder);

    return n > 0 ? n : INT64_MAX;
}

int cgroup_cpus(const char *root, const char *self_cgroup)
{
    const int64_t least = cgroup_least(root, self_cgroup, "cpu", quota_of_group);

    return least == INT64_MAX ? 0 : (int)least;
}

static int quota_cpus(void)
{
    char *self_cgroup = cgroup_read_self("");
    const int n = self_cgroup != NULL ? cgroup_cpus("/sys/fs/cgroup", self_cgroup) : 0;

    free(self_cgroup);
    return n;
}

int cpus_within_quota(int n_cpus)
{
    const int quota = quota_cpus();

    return quota > 0 && quota < n_cpus ? quota : n_cpus;
}

int pool_usable_cpus(void)
{
    int *ids;
    const int n = cpus_allowed(&ids);

    free(ids);
    return cpus_within_quota(n);
}
