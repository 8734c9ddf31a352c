/* Products of weights with a step's rows, as the stages have them: jobs are added one by one, and launched together
 * by the kernels that the table of kernels means (products.c). */
#ifndef CUDA_PROGRAM_PRODUCTS_H
#define CUDA_PROGRAM_PRODUCTS_H

#include "cuda/device/gpu.h"

/* In the device's memory, of one matrix or a whole stack. */
int64_t product_weight_bytes(const struct tensor *w);
/* One job's part, with n tokens each. */
struct work product_work(const struct tensor *w, int n_tokens);
/* Another job of m, whose n_tokens is set; bias NULL: none. Its part is added to *work. */
void product_add(struct matmul *m, const struct tensor *w, const struct tensor *bias, float *out,
                 int64_t out_width, struct work *work);
/* All jobs, of whatever types. */
CHECKED enum osp_status product_launch(struct gpu *gpu, enum stage stage, const struct matmul *m);

/* Of the step's rows of prompts alone, where product_is_apart(). */
CHECKED enum osp_status product_launch_prompts(struct gpu *gpu, enum stage stage,
                                               const struct matmul *m);

/* What the table means for the step's rows of prompts, */
const struct tuning_row *product_prompt_row(const struct gpu *gpu, enum stage stage,
                                            const struct tensor *w);
/* and whether that is a kernel for prompts alone. */
bool product_is_apart(const struct gpu *gpu, enum stage stage, const struct tensor *w);
/* Rows of the step that have another: the generated ones. Where the order is free (order.h), none beside a prompt's. */
int product_rows_in_front(const struct gpu *gpu);

/* ---- stage_experts.c: products over each expert's entries ---- */

struct grouped_experts {
    struct grouping lists;
    struct matmul up, down;
};
/* Lists the entries of the first n_rows rows, and gives the stage's products over them. */
CHECKED enum osp_status product_group(struct gpu *gpu, const struct experts_args *a, int n_rows,
                                      struct grouped_experts *out);

#endif
