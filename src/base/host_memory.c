/* /proc/meminfo and the memory controller of the process's control groups (v2 and v1). */
#include "base/host_memory.h"

#include <stdlib.h>

#include "base/cgroup.h"
#include "base/host_file.h"
#include "base/memory.h"

#define KIB 1024

static int64_t meminfo_bytes(const char *root, const char *key)
{
    int64_t kib;

    if (!host_keyed(&kib, root, "/proc/meminfo", key) || kib < 0 || kib > INT64_MAX / KIB)
        return INT64_MAX;
    return kib * KIB;
}

static int64_t group_limit(const char *folder, int version)
{
    int64_t limit;

    if (!host_number(&limit, folder,
                     version == CGROUP_V2 ? "/memory.max" : "/memory.limit_in_bytes"))
        return INT64_MAX;
    return limit;
}

/* File pages that the kernel can drop do not count as used. */
static int64_t group_left(const char *folder, int version)
{
    const int64_t limit = group_limit(folder, version);
    int64_t used, cached;

    if (limit == INT64_MAX ||
        !host_number(&used, folder,
                     version == CGROUP_V2 ? "/memory.current" : "/memory.usage_in_bytes"))
        return INT64_MAX;
    if (host_keyed(&cached, folder, "/memory.stat", "inactive_file "))
        used -= cached;
    return limit > used ? limit - used : 0;
}

void host_memory_read(struct host_memory *out, const char *root)
{
    char *groups = mem_printf("%s/sys/fs/cgroup", root), *self = cgroup_read_self(root);

    *out = (struct host_memory){.total_bytes = meminfo_bytes(root, "MemTotal:"),
                                .available_bytes = meminfo_bytes(root, "MemAvailable:"),
                                .swap_bytes = meminfo_bytes(root, "SwapTotal:"),
                                .swap_free_bytes = meminfo_bytes(root, "SwapFree:"),
                                .group_limit_bytes = INT64_MAX,
                                .group_left_bytes = INT64_MAX};
    if (self != NULL) {
        out->group_limit_bytes = cgroup_least(groups, self, "memory", group_limit);
        out->group_left_bytes = cgroup_least(groups, self, "memory", group_left);
    }
    free(groups);
    free(self);
}

int64_t host_available_bytes(void)
{
    struct host_memory m;

    host_memory_read(&m, "");
    return m.group_left_bytes < m.available_bytes ? m.group_left_bytes : m.available_bytes;
}
