/* Weights that are multiplied with as they come (BF16, F32, and packed ones that are mapped from
 * a file) on machines with several memory nodes: there they are copied once, each thread's share
 * of the rows by that thread, so that it lies on its node. On one node they stay where they are. */
#ifndef CPU_MATMUL_NUMA_PLACE_H
#define CPU_MATMUL_NUMA_PLACE_H

#include "cpu/common/cpu.h"

/* Gives *out such a copy, kept until the device closes, or *host. */
CHECKED enum osp_status cpu_numa_place_tensor(struct cpu *cpu, struct tensor *out,
                                              const struct tensor *host);

#endif
