/* Collectives between ranks in a launch list: what NCCL moves between two kernels of a step
 * (device/nccl.h). A launch without a function is a collective; its one parameter is the struct.
 * Numbers are words of 32 bits, which NCCL only moves: kernels add them (common/rank_gathered.h),
 * in the order of ranks. */
#ifndef CUDA_LAUNCH_COLLECTIVE_H
#define CUDA_LAUNCH_COLLECTIVE_H

#include "cuda/launch/launch_list.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { COLLECTIVE_PARTS_MAX = 2, COLLECTIVE_RANKS_MAX = 8 };

enum collective_kind {
    /* Every rank has `from` of all ranks afterwards: that of rank r at to + r * n_words. */
    COLLECTIVE_ALL_GATHER,
    /* Rank r has part r of `from` of all ranks, that of rank q at to + q * part_words. The last
     * parts may be shorter, or empty. */
    COLLECTIVE_ALL_TO_ALL,
    /* Every rank has `to` of rank 0. */
    COLLECTIVE_BROADCAST,
    /* Rank 0 has words [first_words[r], first_words[r + 1]) of each of n_rows rows of rank r, in
     * place. */
    COLLECTIVE_GATHER_ROWS,
    N_COLLECTIVES
};

/* Device memory. In an all-gather `from` may be this rank's place in `to`. */
struct collective_part {
    const uint32_t *from; /* (n_words); NULL in others than all-gather and all-to-all */
    uint32_t *to;
    int64_t n_words;    /* of this rank; of a row */
    int64_t part_words; /* of an all-to-all */
};

struct collective {
    enum collective_kind kind;
    int32_t n_parts;
    struct collective_part parts[COLLECTIVE_PARTS_MAX]; /* moved together */
    int32_t n_rows;
    int64_t first_words[COLLECTIVE_RANKS_MAX + 1];
};

void launch_collective(struct launch_list *list, const struct collective *c);

static inline bool is_collective(const struct launch *l)
{
    return l->function == NULL;
}

static inline const struct collective *collective_of(const struct launch_list *list,
                                                     const struct launch *l)
{
    return (const struct collective *)launch_param(list, l, 0);
}

#ifdef __cplusplus
}
#endif
#endif
