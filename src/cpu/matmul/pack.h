/* Packs MXFP4 weights into the layout of the int8 kernels (kernels.h): a matrix is consecutive
 * groups of 16 rows, a stack is consecutive matrices. The memory belongs to the device; each thread
 * packs its own share, so that first touch places it on the thread's NUMA node. */
#ifndef CPU_MATMUL_PACK_H
#define CPU_MATMUL_PACK_H

#include "cpu/common/cpu.h"

/* Identifies the layout in files of packed weights. Change it whenever the layout changes. */
#define CPU_PACK_LAYOUT "cpu mxfp4 rows16 2"

/* A block of memory with packed weights, kept until the device closes. */
struct packed {
    struct packed *next;
    void *data;
};

/* Sets *out to a packed copy if the ISA has int8 kernels and the weights are MXFP4, else to
 * *host. */
CHECKED enum osp_status cpu_pack_tensor(struct cpu *cpu, struct tensor *out,
                                        const struct tensor *host);
/* Bytes of that copy; 0 if cpu_pack_tensor() makes none. */
int64_t cpu_packed_bytes(const struct cpu *cpu, const struct tensor *host);
void cpu_pack_release(struct cpu *cpu);

/* Memory for weights, in huge pages if possible, kept until the device closes. */
CHECKED enum osp_status cpu_weight_alloc(struct cpu *cpu, char **out, size_t n, size_t size_bytes);

int64_t packed_group_bytes(int64_t n_columns);

/* Matrix e of a stack. */
struct tensor matrix_of(const struct tensor *stack, int64_t e);

/* Row `row` of a matrix as f32; any dtype, and any layout except LAYOUT_COLUMNS. */
void row_widen(const struct kernels *k, float *out, const struct tensor *w, int64_t row);

#endif
