/* CPU affinity and CPU quota. A quota is rounded down: when spinning threads exceed the quota, the
 * kernel stops them for the rest of the period, which costs more than one thread less. */
#include "base/cpus.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"

enum {
    CPUS_MAX = 1 << 20,                /* upper limit for growing the affinity mask */
    CGROUP_FILE_BYTES_MAX = 16 * 1024, /* /proc/self/cgroup has one line for each hierarchy */
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
    bool ok = file_read(out, &size_bytes, path, CGROUP_FILE_BYTES_MAX) == OSP_OK;

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

/* The smallest quota of the group and its ancestors. `path` is shortened from its end on the way
 * up. Inside a container the path may not exist below root; the walk then ends at root, which is
 * the container's own group. */
static int quota_up_to_root(const char *root, char *path, int (*quota)(const char *folder))
{
    int least = 0;

    for (;;) {
        char *folder = mem_printf("%s%s", root, path);
        char *slash = strrchr(path, '/');
        int n = quota(folder);

        free(folder);
        if (n > 0 && (least == 0 || n < least))
            least = n;
        if (!slash)
            return least;
        *slash = '\0';
    }
}

static bool lists_cpu(const char *controllers, size_t n_bytes)
{
    char *list = mem_strndup(controllers, n_bytes);
    char *rest = list, *name;
    bool found = false;

    while (!found && (name = strsep(&rest, ",")))
        found = strcmp(name, "cpu") == 0;
    free(list);
    return found;
}

/* One line "ID:CONTROLLERS:/PATH"; an empty list of controllers means version 2. */
static int quota_of_line(const char *root, char *line)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    char *root_v1;
    int n;

    if (!path)
        return 0;
    controllers++;
    path++;
    if (controllers + 1 == path)
        return quota_up_to_root(root, path, quota_v2);
    if (!lists_cpu(controllers, (size_t)(path - 1 - controllers)))
        return 0;
    root_v1 = path_join(root, "cpu"); /* a link to cpu,cpuacct where the two are one hierarchy */
    n = quota_up_to_root(root_v1, path, quota_v1);
    free(root_v1);
    return n;
}

int cgroup_cpus(const char *root, const char *self_cgroup)
{
    char *text = mem_strdup(self_cgroup);
    char *rest = text, *line;
    int least = 0;

    while ((line = strsep(&rest, "\n"))) {
        int n = quota_of_line(root, line);

        if (n > 0 && (least == 0 || n < least))
            least = n;
    }
    free(text);
    return least;
}

static int quota_cpus(void)
{
    char *self_cgroup;
    int n;

    if (!read_small(&self_cgroup, "/proc/self", "cgroup"))
        return 0;
    n = cgroup_cpus("/sys/fs/cgroup", self_cgroup);
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
