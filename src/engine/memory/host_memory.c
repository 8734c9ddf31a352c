/* Reads /proc/meminfo and the memory controller of the process's cgroup (v2, else v1). */
#include "engine/memory/host_memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES_MAX = 256 };

/* The number behind `key` in a file of "key number" lines; false when there is none. */
static bool read_keyed(const char *path, const char *key, int64_t *out)
{
    FILE *f = fopen(path, "re");
    char line[LINE_BYTES_MAX];
    bool found = false;

    if (f == NULL)
        return false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        size_t n = strlen(key);

        found = strncmp(line, key, n) == 0;
        if (found)
            *out = strtoll(line + n, NULL, 10);
    }
    fclose(f);
    return found;
}

/* A file of one number; "max" and absence give false. */
static bool read_number(const char *path, int64_t *out)
{
    FILE *f = fopen(path, "re");
    char line[LINE_BYTES_MAX];
    char *end = line;

    if (f == NULL)
        return false;
    if (fgets(line, sizeof line, f) != NULL)
        *out = strtoll(line, &end, 10);
    fclose(f);
    return end != line;
}

/* Files of each version of the memory controller: limit, use, and file pages that it can drop. */
static const struct cgroup_files {
    const char *limit, *used, *stat;
} cgroups[] = {
    {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"},
    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
     "/sys/fs/cgroup/memory/memory.stat"},
};

static int64_t cgroup_available_bytes(const struct cgroup_files *c)
{
    int64_t limit, used, cached;

    if (!read_number(c->limit, &limit) || !read_number(c->used, &used))
        return INT64_MAX;
    if (read_keyed(c->stat, "inactive_file ", &cached))
        used -= cached;
    return limit > used ? limit - used : 0;
}

int64_t host_available_bytes(void)
{
    int64_t available = INT64_MAX, kib;

    if (read_keyed("/proc/meminfo", "MemAvailable:", &kib))
        available = kib * 1024;
    for (size_t i = 0; i < sizeof cgroups / sizeof cgroups[0]; i++) {
        int64_t bytes = cgroup_available_bytes(&cgroups[i]);

        if (bytes < available)
            available = bytes;
    }
    return available;
}
