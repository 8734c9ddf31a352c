/* Products of weights with a step's rows, as the stages have them: jobs are added one by one,
 * and launched together by the kernels that the table of kernels means (products.c). */
#ifndef CUDA_PROGRAM_MATMUL_H
#define CUDA_PROGRAM_MATMUL_H

#include "cuda/device/gpu.h"

/* In the device's memory, of one matrix or a whole stack. */
int64_t matmul_weight_bytes(const struct tensor *w);
/* One job's part, with n tokens each. */
struct work matmul_work(const struct tensor *w, int n_tokens);
/* Another job of m, whose n_tokens is set; bias NULL: none. Its part is added to *work. */
void matmul_add(struct matmul *m, const struct tensor *w, const struct tensor *bias, float *out,
                int64_t out_width, struct work *work);
/* All jobs, of whatever types. */
CHECKED enum osp_status matmul_launch(struct gpu *gpu, enum stage stage, const struct matmul *m);

/* Of the step's rows of prompts alone, where matmul_has_prefill(). */
CHECKED enum osp_status matmul_launch_prefill(struct gpu *gpu, enum stage stage,
                                              const struct matmul *m);

/* What the table means for the step's rows of prompts, */
const struct tuning_row *matmul_prefill_row(const struct gpu *gpu, enum stage stage,
                                            const struct tensor *w);
/* and whether that is a kernel for prompts alone. */
bool matmul_has_prefill(const struct gpu *gpu, enum stage stage, const struct tensor *w);
/* Rows of the step that have another: the generated ones. Where the order is free (order.h),
 * none beside a prompt's. */
int matmul_decode_rows(const struct gpu *gpu);

/* ---- stage_experts.c: products over each expert's entries ---- */

struct grouped_experts {
    struct grouping lists;
    struct matmul up, down;
};
/* Lists the entries of the first n_rows rows, and gives the stage's products over them. */
CHECKED enum osp_status matmul_group_experts(struct gpu *gpu, const struct experts_args *a,
                                             int n_rows, struct grouped_experts *out);

#endif
