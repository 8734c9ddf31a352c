/* Matmul of packed MXFP4 weights with permuted bf16 rows (kernels.h, struct permuted_gemm), for
 * ISAs with that kernel. */
#ifndef CPU_MATMUL_MXFP4_BF16_H
#define CPU_MATMUL_MXFP4_BF16_H

#include "cpu/matmul/matmul.h"

/* Bytes of workspace of a thread; see cpu_reserve_workers(). */
size_t permuted_ws_bytes(int64_t n_columns);

/* `rows` are the inputs. */
void permuted_multiply(const struct cpu *cpu, const struct matmul *m, const uint16_t *rows,
                       struct packed_range part, int worker);

#endif
