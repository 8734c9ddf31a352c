/* Packed MXFP4 times int8 rows (kernels.h, struct int8_gemm): a thread's piece of a product. */
#ifndef CPU_MATMUL_INT8_TILES_H
#define CPU_MATMUL_INT8_TILES_H

#include "cpu/matmul/matmul.h"

/* `rows` are the inputs. The part lies within one thread's share. A job of one token has groups
 * that are far apart multiplied side by side, so that the part stands for as many others of that
 * share; all parts of it together are all of its groups. */
void int8_multiply(const struct cpu *cpu, const struct matmul *m, const struct int8_row *rows,
                   struct packed_range part);

#endif
