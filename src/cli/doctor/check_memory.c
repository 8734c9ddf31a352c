/* Host memory. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/host_file.h"
#include "base/host_memory.h"
#include "base/memory.h"
#include "cli/doctor/checks.h"

#define GIB ((int64_t)1 << 30)

enum {
    LEAST_GIB = 2,             /* for the server itself, its caches and the bundled model */
    AVAILABLE_PERCENT_MIN = 50 /* less means that other programs hold the memory */
};

static void check_available(struct findings *f, const struct host_memory *m)
{
    const int64_t total = m->total_bytes, available = m->available_bytes;
    char total_text[16], available_text[16];

    if (total == INT64_MAX || available == INT64_MAX) {
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

static void check_cgroup(struct findings *f, const struct host_memory *m)
{
    const int64_t limit = m->group_limit_bytes;
    char text[16];

    format_bytes(text, (double)limit);
    if (limit >= m->total_bytes) /* version 1 writes a number near 2^63 for no limit */
        finding_add(f, FINDING_good, "memory limit", "the control group has none");
    else if (limit < LEAST_GIB * GIB) {
        finding_add(f, FINDING_broken, "memory limit",
                    "the control group may use %s, at least %d GiB are needed", text, LEAST_GIB);
        finding_advise(f, "raise it: docker run --memory, resources.limits.memory of the pod, "
                          "MemoryMax= of the unit");
    } else
        finding_add(f, FINDING_good, "memory limit", "the control group may use %s", text);
}

static void check_swap(struct findings *f, const struct host_memory *m)
{
    const int64_t total = m->swap_bytes, unused = m->swap_free_bytes;
    char text[16];

    if (total == INT64_MAX || unused == INT64_MAX)
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
    struct host_memory m;

    host_memory_read(&m, root);
    f->group = "memory";
    check_available(f, &m);
    check_cgroup(f, &m);
    check_swap(f, &m);
    check_huge_pages(f, root);
    check_numa(f, root);
}
