/* What the products of prompts' rows share, whichever kernel multiplies (prompt.c, prompt_mma.c). */
#ifndef CUDA_PROMPT_H
#define CUDA_PROMPT_H

#include "cuda/gemm.h"
#include "cuda/gpu.h"

/* An operand in a room that has place for n_rows_max rows, and will not grow, rounded as its weights ask. */
CHECKED enum osp_status prompt_operand(struct gpu *gpu, struct gpu_room *room, struct operand *out,
                                       int64_t n_rows, int64_t n_rows_max, const struct tensor *w,
                                       bool is_exact);
/* Room for the lists of experts of the largest step. */
CHECKED enum osp_status prompt_lists(struct gpu *gpu, const struct experts_args *a,
                                     struct expert_lists *out);

#endif
