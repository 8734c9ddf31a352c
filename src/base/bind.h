/* Which CPUs each thread of a pool may run on. A thread is bound to a set, never to less than a
 * core, so that the kernel can still step aside for others; and only a pool that takes every
 * core is bound to single cores, so that two processes with some threads each do not stack on
 * the same ones. */
#ifndef BASE_BIND_H
#define BASE_BIND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/topology.h"

enum bind_level {
    BIND_NONE,  /* wherever the kernel likes */
    BIND_ALL,   /* the CPUs of the list that was given */
    BIND_NODES, /* those of its memory node */
    BIND_CORES  /* the hardware threads of its core */
};

struct bind {
    enum bind_level level;
    int n_threads;
    int n_cpus;  /* that the threads may use, within the quota */
    int n_nodes; /* that the threads are spread over; 1 unless bound to nodes or cores */
    int *cpu_of; /* (n_threads): index into the topology's CPUs */
    struct topology topology;
};

/* n_threads 0: one for each CPU that may be used. `how`:
 *   NULL, "off"  no binding
 *   "auto"       cores when the threads are as many, else nodes when there are several, else none
 *   "nodes", "cores"
 *   "0-7,16"     these CPUs, all of which must be allowed, and as "auto" among them
 * OSP_EINVAL for anything else. */
CHECKED enum osp_status bind_open(struct bind *out, int n_threads, const char *how);
void bind_close(struct bind *b); /* accepts a zeroed one */

/* Binds the calling thread as number `thread`; what cannot be done is left (a mask may shrink
 * while we run). Does nothing at BIND_NONE. */
void bind_this_thread(const struct bind *b, int thread);

/* The node of a thread, 0..n_nodes-1. */
int bind_node(const struct bind *b, int thread);

/* Interleaves the whole pages of untouched memory over the threads' nodes, if there are several. */
void bind_interleave(const struct bind *b, void *data, size_t size_bytes);

/* A mask of the calling thread, put back later. */
struct bind_mask {
    unsigned long words[TOPOLOGY_CPUS_MAX / (8 * sizeof(unsigned long))];
    bool is_saved;
};
void bind_save(struct bind_mask *out);
void bind_restore(struct bind_mask *mask); /* once; accepts a zeroed one */

#endif
