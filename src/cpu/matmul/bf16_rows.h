/* Rounds activations to bf16, for ISAs that multiply BF16 weights with bf16, and packs them into
 * panels of sixteen rows if the ISA uses panels. Both are in the device's workspace until the next
 * call. */
#ifndef CPU_MATMUL_BF16_ROWS_H
#define CPU_MATMUL_BF16_ROWS_H

#include "cpu/common/cpu.h"

struct bf16_rows {
    const uint16_t *rows, *panels; /* (n_rows, n_columns); panels may be NULL */
    int n_columns;                 /* bf16_row_columns() of the width of the inputs */
};

/* Elements of n_rows rows, rounded up to whole panels. */
size_t bf16_rows_elements(int n_rows, int n_columns);

/* Rounds n_rows rows of n floats; also makes panels if wants_panels and if the ISA uses them. */
CHECKED enum osp_status cpu_bf16_rows(struct cpu *cpu, struct bf16_rows *out, struct rows x,
                                      bool wants_panels);

/* The same as permuted rows; see struct permuted_gemm. *out is (n_rows, n) in the device's
 * workspace. */
CHECKED enum osp_status cpu_round_permuted(struct cpu *cpu, const uint16_t **out, struct rows x);

/* The panels from row `row` on; NULL if there are no panels, or if no panel starts at this row. */
const uint16_t *panels_from(const struct bf16_rows *r, int64_t row);

#endif
