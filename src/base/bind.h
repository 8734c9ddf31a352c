/* Which CPUs each thread of a pool may run on. A thread is bound to a set of CPUs, at least a whole
 * core, so that the kernel can still schedule around other processes. Only a pool that uses every
 * core is bound to single cores; otherwise two processes with a few threads each could be bound to
 * the same cores. */
#ifndef BASE_BIND_H
#define BASE_BIND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/topology.h"

enum bind_level {
    BIND_NONE,  /* the kernel decides */
    BIND_ALL,   /* the CPUs of the given list */
    BIND_NODES, /* the CPUs of the thread's memory node */
    BIND_CORES  /* the hardware threads of the thread's core */
};

struct bind {
    enum bind_level level;
    int n_threads;
    int n_cpus;  /* CPUs that the threads may use, within the quota */
    int n_nodes; /* nodes that the threads are spread over; 1 unless bound to nodes or cores */
    int *cpu_of; /* (n_threads): index into the topology's CPUs */
    struct topology topology;
};

/* n_threads 0: one for each usable CPU. `how`:
 *   NULL, "off"  no binding
 *   "auto"       cores if there is a thread for each core, nodes if there are several, else off
 *   "nodes", "cores"
 *   "0-7,16"     these CPUs, all of which must be allowed; among them as "auto"
 * OSP_EINVAL for any other value. */
CHECKED enum osp_status bind_open(struct bind *out, int n_threads, const char *how);
void bind_close(struct bind *b); /* accepts a zeroed one */

/* Binds the calling thread as number `thread`. A failure is only logged, because the affinity mask
 * may shrink while the process runs. Does nothing at BIND_NONE. */
void bind_this_thread(const struct bind *b, int thread);

/* The node of a thread, 0..n_nodes-1. */
int bind_node(const struct bind *b, int thread);

/* Interleaves the whole pages of untouched memory over the threads' nodes if there are several. */
void bind_interleave(const struct bind *b, void *data, size_t size_bytes);

/* A saved affinity mask of the calling thread. */
struct bind_mask {
    unsigned long words[TOPOLOGY_CPUS_MAX / (8 * sizeof(unsigned long))];
    bool is_saved;
};
void bind_save(struct bind_mask *out);
void bind_restore(struct bind_mask *mask); /* at most once per bind_save(); accepts a zeroed one */

#endif
