/* Kernels of the stages that only draft heads have (model/draft.h): interface. Their matrices are
 * multiplied by the kernels of other stages. Launchers as in launch.h; n_live: live_rows.cuh. */
#ifndef CUDA_DRAFT_DRAFT_H
#define CUDA_DRAFT_DRAFT_H

#include "cuda/launch/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What x lacks of a step of a few rows: x + sums[c] * unit[c], as struct expert_sums of
 * decode.h. */
struct tap_sums {
    const int32_t *sums;   /* (T, C); NULL: x is complete */
    const float *unit;     /* (C) */
    const int32_t *poison; /* (T) */
};

/* Columns of the taps = x. */
void launch_tap(struct launch_list *list, const struct tap_args *a, const struct tap_sums *sums,
                int n_rows, const int32_t *n_live);
/* normed = the RMSNorm of each part of the taps, n_norms parts of a row; its weights are F32. */
void launch_draft_norm(struct launch_list *list, const struct draft_fc_args *a, int n_rows,
                       const int32_t *n_live);
/* The weights of both norms are F32. */
void launch_draft_input(struct launch_list *list, const struct draft_input_args *a,
                        const int32_t *tokens, int n_rows, const int32_t *n_live);
/* units = silu(units) * ups. */
void launch_mlp_gate(struct launch_list *list, const struct mlp_args *a, int n_rows,
                     const int32_t *n_live);

#ifdef __cplusplus
}
#endif
#endif
