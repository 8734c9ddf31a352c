/* The topology of the CPUs that a process may use: which are hardware threads of one core, and
 * which memory node they are near. It is read from the kernel's files under /sys/devices/system, so
 * that it needs no library and a test can substitute its own folder. A CPU that is not described
 * there counts as a separate core on node 0. */
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
    int sibling;    /* 0 for the first allowed thread of its core, 1 for the next, ... */
    int node_id;    /* the kernel's number */
};

struct topology {
    struct topology_cpu *cpus; /* (n_cpus), by node, core and id */
    int n_cpus, n_cores, n_nodes;
};

/* `allowed`: ids of n CPUs, ascending; n >= 1. */
void topology_read(struct topology *out, const int *allowed, int n);
void topology_release(struct topology *t); /* accepts a zeroed one */

/* The CPUs of n threads, as ascending indexes into t->cpus. First threads of cores are chosen
 * before second threads, the same number on each node. If there are more threads than CPUs, threads
 * share CPUs. Threads with neighbouring numbers are therefore on neighbouring CPUs. */
void topology_choose(const struct topology *t, int n_threads, int *out);

/* Parses "0-3,8,10-11" into ids, ascending and without duplicates. Returns their number; -1 for an
 * invalid list. */
int cpu_list_parse(int *out, int n_max, const char *text);

/* Replaces /sys/devices/system, for tests. NULL restores it. */
void topology_set_folder(const char *folder);

#endif
