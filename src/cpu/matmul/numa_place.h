/* NUMA placement of weights that are not packed here: BF16, F32, and packed ones mapped from a
 * file. With several NUMA nodes such weights are copied once; each thread copies its own share of
 * the rows, so that first touch places it on the thread's node. With one node they stay where they
 * are. */
#ifndef CPU_MATMUL_NUMA_PLACE_H
#define CPU_MATMUL_NUMA_PLACE_H

#include "cpu/common/cpu.h"

/* Sets *out to such a copy, which is kept until the device closes, or to *host. */
CHECKED enum osp_status cpu_numa_place_tensor(struct cpu *cpu, struct tensor *out,
                                              const struct tensor *host);

#endif
