/* The exchange between ranks that cannot push into each other's memory, because they are on several
 * hosts, or on GPUs without peer access: NCCL gathers the numbers (launch/collective.h) in this
 * rank's window, and kernels add them, in the same order as those of rank_exchange.h, so that the
 * bits are the same.
 *
 * Few numbers of all ranks go to every rank, which adds them. Of many, every rank gets and adds the
 * part that it owns, and the sums are gathered; both are in the window at once. One exchange uses
 * the window after the other: the stream orders them. */
#ifndef CUDA_COMMON_RANK_GATHERED_H
#define CUDA_COMMON_RANK_GATHERED_H

#include "cuda/common/rank_exchange.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In a window: the sums of owned parts, behind the parts of all ranks. */
static inline HOST_DEVICE int64_t rank_owned_sums_at(int64_t n_vectors, int n_ranks)
{
    return n_ranks * rank_part_vectors(n_vectors, n_ranks) * RANK_WORDS * 4;
}

/* Of a window for steps of up to n_rows rows. */
static inline int64_t rank_gathered_bytes(int64_t n_rows, int64_t n_columns, int n_ranks)
{
    const int64_t n = (n_rows * n_columns + RANK_WORDS - 1) / RANK_WORDS;
    const int64_t n_out = n_rows < (int)RANK_OUT_ROWS ? n_rows : (int)RANK_OUT_ROWS;
    const int64_t words = n_ranks * 2 * n_out * n_columns * 4; /* struct rank_out */
    int64_t sums = n_ranks * n * RANK_WORDS * 4;

    if (rank_is_owned(n, n_ranks)) {
        const int64_t owned = 2 * rank_owned_sums_at(n, n_ranks);
        const int64_t all = (int64_t)n_ranks * RANK_OWNED_VECTORS_MIN * RANK_WORDS * 4;

        sums = owned > all ? owned : all;
    }
    return sums > words ? sums : words;
}

/* As launch_rank_sums(), of the numbers that are in the window, those of rank r at vector
 * r * n_rows * n_columns / RANK_WORDS. With owned parts: those of this rank's part, which it adds
 * to the window at rank_owned_sums_at(); launch_gathered_parts() then takes all sums from there. */
void launch_gathered_sums(struct launch_list *list, const struct rank_sums *s);
void launch_gathered_parts(struct launch_list *list, const struct rank_sums *s);

/* As launch_rank_out(), of the high words of all ranks in the window, and the low ones behind
 * them. */
void launch_gathered_out(struct launch_list *list, const struct rank_out *o);

/* Clears the results of stage sample, besides the tokens, of a rank other than 0. */
void launch_gathered_tokens(struct launch_list *list, const struct rank_tokens *t);

#ifdef __cplusplus
}
#endif
#endif
