/* Kernels for rows of both phases: interface. */
#ifndef CUDA_MIXED_MIXED_H
#define CUDA_MIXED_MIXED_H

#include "cuda/decode/decode.h"
#include "cuda/prefill/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(tokens of a prefill tile, descending). One kernel for each line. */
#define MIXED_TILES(X)                                                                             \
    X(80, 64)                                                                                      \
    X(64, 32, 16)

/* The up or the down product of the experts for the prefill rows of g, which lists have for tiles
 * of up to g->n_tile_tokens, the first of a line of MIXED_TILES, and for the decode rows of d, as
 * launch_gemm() and launch_decode_grouped_wide() do it, with the same bits. g->shape is ignored.
 * Hopper only. */
void launch_mixed_experts(struct launch_list *list, const struct gemm *g,
                          const struct decode_grouped *d, bool is_up);
/* Whether the GPU has the kernels for g->n_tile_tokens; sets d's job_tokens, n_shares and n_parts.
 * Rows and units of d fill whole units of columns. */
bool mixed_experts_fit(struct launch_list *list, const struct gemm *g, struct decode_grouped *d);

#ifdef __cplusplus
}
#endif
#endif
