/* What the products of prompts' rows share, whichever kernel multiplies (prefill_sm90.c,
 * prefill_mma.c). */
#ifndef CUDA_PROGRAM_PREFILL_H
#define CUDA_PROGRAM_PREFILL_H

#include "cuda/prefill/gemm.h"
#include "cuda/device/gpu.h"

/* Tiles of so many rows of weights, of all jobs. */
int64_t prefill_row_tiles(const struct matmul *m, int tile_rows);

/* Launches what makes an operand of the product's rows, and gives the product but for its tiles. */
CHECKED enum osp_status prefill_matmul(struct gpu *gpu, const struct matmul *m, struct gemm *out);

/* Both products of the experts: the first leaves what the second takes. */
struct prefill_experts {
    struct gemm up, down;
};

/* Launches what comes before them, with lists for tiles of up to n_tile_tokens, and gives them
 * but for their tiles. */
CHECKED enum osp_status prefill_experts_begin(struct gpu *gpu, const struct experts_args *a,
                                              int n_rows, int n_tile_tokens,
                                              struct prefill_experts *out);
/* Launches what comes behind them. */
void prefill_experts_end(struct gpu *gpu, const struct experts_args *a, int n_rows);

#endif
