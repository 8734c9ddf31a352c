/* MXFP4 weights in the layout of the int8 kernels (kernels.h): a matrix is its groups of 16 rows, a
 * stack its matrices. The memory is the device's own; each thread first touches what it will
 * multiply with. */
#ifndef CPU_MATMUL_PACK_H
#define CPU_MATMUL_PACK_H

#include "cpu/common/cpu.h"

/* Names the layout for those who keep packed weights: to be changed with it. */
#define CPU_PACK_LAYOUT "cpu mxfp4 rows16 2"

/* Memory of packed weights, kept until the device closes. */
struct packed {
    struct packed *next;
    void *data;
};

/* Gives *out a packed copy where the ISA has int8 kernels and the weights are MXFP4, else
 * *host. */
CHECKED enum osp_status cpu_pack_tensor(struct cpu *cpu, struct tensor *out,
                                        const struct tensor *host);
/* Bytes of that copy; 0 where there is none. */
int64_t cpu_packed_bytes(const struct cpu *cpu, const struct tensor *host);
void cpu_pack_release(struct cpu *cpu);

/* Memory for weights, in huge pages where there are, kept until the device closes. */
CHECKED enum osp_status cpu_weight_alloc(struct cpu *cpu, char **out, size_t n, size_t size_bytes);

int64_t packed_group_bytes(int64_t n_columns);

/* Matrix e of a stack. */
struct tensor matrix_of(const struct tensor *stack, int64_t e);

/* Row `row` of a matrix of any type and layout but columns, as f32. */
void row_widen(const struct kernels *k, float *out, const struct tensor *w, int64_t row);

#endif
