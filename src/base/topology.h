/* How the CPUs that a process may use lie: which are hardware threads of one core, and which memory
 * node they are near. Read from the kernel's files under /sys/devices/system, so that it needs no
 * library and a test can put a folder of its own there. What is not told there counts as cores of
 * their own on one node. */
#ifndef BASE_TOPOLOGY_H
#define BASE_TOPOLOGY_H

#include "base/status.h"

enum {
    TOPOLOGY_CPUS_MAX = 8192, /* the kernel's own limits */
    TOPOLOGY_NODES_MAX = 1024
};

struct topology_cpu {
    int id;         /* the kernel's number */
    int core, node; /* 0.. without gaps; nodes in the kernel's order */
    int sibling;    /* 0 for the first allowed thread of its core, 1 for the next.. */
    int node_id;    /* the kernel's number */
};

struct topology {
    struct topology_cpu *cpus; /* (n_cpus), by node, core and id */
    int n_cpus, n_cores, n_nodes;
};

/* `allowed`: ids of n CPUs, rising; n >= 1. */
void topology_read(struct topology *out, const int *allowed, int n);
void topology_release(struct topology *t); /* accepts a zeroed one */

/* The CPUs of n threads, as indexes into t->cpus, rising: cores before second threads of a core, as
 * many on each node; more threads than CPUs share them. Threads with neighbouring numbers are thus
 * neighbours. */
void topology_choose(const struct topology *t, int n_threads, int *out);

/* "0-3,8,10-11" into ids, rising and once each. Gives how many; -1 when it is no such list. */
int cpu_list_parse(int *out, int n_max, const char *text);

/* Where to read from instead of /sys/devices/system: for tests. NULL: back to that. */
void topology_set_folder(const char *folder);

#endif
