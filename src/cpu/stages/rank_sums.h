/* Sums over ranks (backend/exchange.h): a stage whose op has EXCHANGE_SUM leaves the fixed-point
 * sums of its own slices here, and the ranks add them before they become values. */
#ifndef CPU_STAGES_RANK_SUMS_H
#define CPU_STAGES_RANK_SUMS_H

#include "cpu/common/cpu.h"

/* Memory for the sums of n_rows rows of n_columns; NULL in *out: no other rank has terms. */
CHECKED enum osp_status rank_sums_begin(struct cpu *cpu, int64_t **out, int n_rows,
                                        int64_t n_columns);
/* Adds the sums of all ranks, and writes their values to the rows of h. */
CHECKED enum osp_status rank_sums_end(struct cpu *cpu, const struct tensor *h, int n_rows);
/* The sum of two fixed-point sums of kernels.h, either of which may be NaN. */
static inline int64_t rank_sums_add(int64_t a, int64_t b)
{
    return a == SUM_NAN || b == SUM_NAN ? SUM_NAN : a + b;
}

#endif
