/* Packed MXFP4 times mixed rows (kernels.h, struct mixed_products), for levels that have such products. */
#ifndef CPU_MATMUL_MIXED_H
#define CPU_MATMUL_MIXED_H

#include "cpu/matmul/matmul.h"

/* Room that a thread needs, in bytes; see cpu_workers_need(). */
size_t mixed_room_bytes(int64_t n_columns);

/* `rows` are the inputs. */
void mixed_multiply(const struct cpu *cpu, const struct matmul *m, const uint16_t *rows,
                    struct packed_part part, int worker);

#endif
