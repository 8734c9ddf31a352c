/* Host memory. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/host_file.h"

#define KIB 1024
#define GIB ((int64_t)1 << 30)

enum {
    LEAST_GIB = 2,              /* for the server itself, its caches and the bundled model */
    AVAILABLE_PERCENT_MIN = 50, /* less means that other programs hold the memory */
    CGROUP_FILE_BYTES_MAX = 16 << 10
};

static bool meminfo(int64_t *bytes, const char *root, const char *key)
{
    int64_t kib;

    if (!host_keyed(&kib, root, "/proc/meminfo", key) || kib < 0 || kib > INT64_MAX / KIB)
        return false;
    *bytes = kib * KIB;
    return true;
}

static void check_available(struct findings *f, const char *root)
{
    char total_text[16], available_text[16];
    int64_t total = 0, available = 0;

    if (!meminfo(&total, root, "MemTotal:") || !meminfo(&available, root, "MemAvailable:")) {
        finding_add(f, FINDING_untested, "memory", "/proc/meminfo cannot be read");
        return;
    }
    format_bytes(total_text, (double)total);
    format_bytes(available_text, (double)available);
    if (available < LEAST_GIB * GIB) {
        finding_add(f, FINDING_broken, "memory", "%s of %s available, at least %d GiB are needed",
                    available_text, total_text, LEAST_GIB);
        finding_advise(f, "stop other programs; `osprey validate MODEL` prints what a model needs");
    } else if (available < total / 100 * AVAILABLE_PERCENT_MIN) {
        finding_add(f, FINDING_slow, "memory", "%s of %s available, more than %d %% expected",
                    available_text, total_text, AVAILABLE_PERCENT_MIN);
        finding_advise(f, "other programs hold the rest; without them there is room for more KV "
                          "cache, and on a DGX Spark for the model, whose GPU shares this memory");
    } else
        finding_add(f, FINDING_good, "memory", "%s of %s available", available_text, total_text);
}

/* The smallest limit of the group at `path` below the folder and of its ancestors; INT64_MAX: none.
 * Inside a container the path may not exist; the folder itself is the container's group. */
static int64_t smallest_limit(const char *root, const char *folder, const char *path,
                              const char *file)
{
    char *at = mem_strdup(path), *slash;
    int64_t least = INT64_MAX;

    do {
        int64_t limit;

        if (host_number(&limit, root, "%s%s/%s", folder, at, file) && limit < least)
            least = limit;
        slash = strrchr(at, '/');
        if (slash != NULL)
            *slash = '\0';
    } while (slash != NULL);
    free(at);
    return least;
}

/* Of version 2 ("0::/path") or of the memory controller of version 1. */
static int64_t limit_of_line(const char *root, char *line)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;

    if (path == NULL)
        return INT64_MAX;
    *path++ = '\0';
    controllers++;
    if (controllers[0] == '\0')
        return smallest_limit(root, "/sys/fs/cgroup", path, "memory.max");
    return strstr(controllers, "memory") == NULL
               ? INT64_MAX
               : smallest_limit(root, "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
}

static int64_t cgroup_limit(const char *root)
{
    char *path = mem_printf("%s/proc/self/cgroup", root), *text, *rest, *line;
    int64_t least = INT64_MAX;
    size_t n_bytes;

    if (file_read(&text, &n_bytes, path, CGROUP_FILE_BYTES_MAX) == OSP_OK) {
        rest = text;
        while ((line = strsep(&rest, "\n")) != NULL) {
            const int64_t limit = limit_of_line(root, line);

            least = limit < least ? limit : least;
        }
        free(text);
    }
    free(path);
    return least;
}

static void check_cgroup(struct findings *f, const char *root)
{
    const int64_t limit = cgroup_limit(root);
    int64_t total = INT64_MAX;
    char text[16];

    (void)meminfo(&total, root, "MemTotal:");
    format_bytes(text, (double)limit);
    if (limit >= total) /* version 1 writes a number near 2^63 for no limit */
        finding_add(f, FINDING_good, "memory limit", "the control group has none");
    else if (limit < LEAST_GIB * GIB) {
        finding_add(f, FINDING_broken, "memory limit",
                    "the control group may use %s, at least %d GiB are needed", text, LEAST_GIB);
        finding_advise(f, "raise it: docker run --memory, resources.limits.memory of the pod, "
                          "MemoryMax= of the unit");
    } else
        finding_add(f, FINDING_good, "memory limit", "the control group may use %s", text);
}

static void check_swap(struct findings *f, const char *root)
{
    int64_t total = 0, unused = 0;
    char text[16];

    if (!meminfo(&total, root, "SwapTotal:") || !meminfo(&unused, root, "SwapFree:"))
        return;
    format_bytes(text, (double)(total - unused));
    if (total - unused > GIB) {
        finding_add(f, FINDING_slow, "swap", "%s are swapped out, none expected", text);
        finding_advise(f, "free memory, then: swapoff -a && swapon -a");
    } else
        finding_add(f, FINDING_good, "swap", "%s", total == 0 ? "none" : "not in use");
}

static void check_huge_pages(struct findings *f, const char *root)
{
    struct host_line line;

    if (!host_line(&line, root, "/sys/kernel/mm/transparent_hugepage/enabled")) {
        finding_add(f, FINDING_untested, "huge pages", "the kernel does not report them");
    } else if (strstr(line.text, "[never]") != NULL) {
        finding_add(f, FINDING_slow, "huge pages",
                    "transparent huge pages are off, madvise or always expected");
        finding_advise(f, "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
    } else
        finding_add(f, FINDING_good, "huge pages", "transparent huge pages: %s", line.text);
}

static int count_nodes(const char *root)
{
    enum { NAMES_MAX = 4096 };
    char **names = mem_new(NAMES_MAX * sizeof *names);
    const int n = host_list(names, NAMES_MAX, root, "/sys/devices/system/node");
    int n_nodes = 0;

    for (int i = 0; i < n; i++) {
        n_nodes += strncmp(names[i], "node", 4) == 0 && names[i][4] >= '0' && names[i][4] <= '9';
        free(names[i]);
    }
    free(names);
    return n_nodes > 0 ? n_nodes : 1;
}

static void check_numa(struct findings *f, const char *root)
{
    const int n_nodes = count_nodes(root);
    int64_t balancing = 0;

    if (n_nodes > 1 && host_number(&balancing, root, "/proc/sys/kernel/numa_balancing") &&
        balancing != 0) {
        finding_add(f, FINDING_slow, "NUMA",
                    "%d nodes, and the kernel moves pages between them; balancing off expected",
                    n_nodes);
        finding_advise(f, "sudo sysctl kernel.numa_balancing=0; osprey places weights itself");
    } else
        finding_add(f, FINDING_good, "NUMA", "%d node%s", n_nodes, n_nodes > 1 ? "s" : "");
}

void check_memory(struct findings *f, const char *root)
{
    f->group = "memory";
    check_available(f, root);
    check_cgroup(f, root);
    check_swap(f, root);
    check_huge_pages(f, root);
    check_numa(f, root);
}
