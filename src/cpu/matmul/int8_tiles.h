/* Matmul of packed MXFP4 weights with int8 activations (kernels.h, struct int8_gemm): a thread's
 * tiles. */
#ifndef CPU_MATMUL_INT8_TILES_H
#define CPU_MATMUL_INT8_TILES_H

#include "cpu/matmul/matmul.h"

/* `rows` are the inputs. The range `part` is within one thread's share. A job of one token
 * multiplies groups that are far apart together, in the order of stream_group(). So there `part`
 * counts groups in that order; all parts of a share together cover all of its groups. */
void int8_multiply(const struct cpu *cpu, const struct matmul *m, const struct int8_row *rows,
                   struct packed_range part, int worker);

#endif
