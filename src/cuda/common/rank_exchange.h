/* The exchange between ranks on GPUs of one host, within the kernels of a step. Every rank has a
 * window, device memory that all others map; a rank pushes its numbers into the windows of the
 * others, and waits for theirs in its own. The data are their own flag: a word of a window is
 * RANK_EMPTY until it has been written, and the kernel that takes it empties it again. So no fence
 * and no counter is needed.
 *
 * A window has two slots, which exchanges use alternately. Two are enough: a rank writes exchange
 * i + 2 after it has taken what all others wrote for exchange i + 1, which they did after they had
 * taken and emptied exchange i, of the same slot. Kernel borders order a rank's own accesses, since
 * every kernel of a step waits for the one before (pdl.cuh).
 *
 * Kernels of a few rows exchange within, by pairs of a number and the number of the exchange: any
 * number of threads may read a pair, and nobody empties it. Pairs have two slots as well.
 *
 * Every wait ends: when the host says so (another rank has ended), or after EXCHANGE_WAIT_MS. The
 * first wait that does so sets a word in device memory, which ends all others of the step at once
 * (rank_wait.cuh). The numbers of the step are then of no use, and the host fails it. */
#ifndef CUDA_COMMON_RANK_EXCHANGE_H
#define CUDA_COMMON_RANK_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/tensor.h"
#include "cuda/launch/launch_list.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RANK_PEERS_MAX = 8,
    RANK_WORDS = 4,     /* numbers that are exchanged together: 16 bytes */
    RANK_PAIR_ROWS = 4, /* rows that are exchanged within kernels */
    RANK_PAIR_BYTES = 8,
    RANK_OUT_ROWS = 1024,          /* of struct rank_out at most */
    RANK_OWNED_VECTORS_MIN = 16384 /* with more than two ranks, so many are added by their owners */
};

/* -0 as a float, and an integer that no sum has. Floats of this value are sent as 0. */
#define RANK_EMPTY 0x80000000u

/* The ranks, as kernels see them. */
struct rank_peers {
    int32_t rank, n_ranks;
    char *windows[RANK_PEERS_MAX]; /* of all ranks, mapped here; this rank's own included */
    int64_t slot_bytes;            /* of a window, which begins with its two slots */
    int64_t pairs_at;              /* in a window: pairs of a number and the exchange's number */
    int64_t pairs_bytes;           /* of a slot of pairs: (n_ranks, 2, RANK_PAIR_ROWS, columns) */
    const struct rank_peers *on_device; /* a copy of this struct */
    uint32_t *n_before;                 /* exchanges of all steps before; set by the upload */
    /* Host memory, mapped. 0; ENDED: the host ends all waits; 1 + r: a wait for rank r took too
     * long. */
    int32_t *state;
    int32_t *ended; /* device memory of this rank; not 0: waits do not begin any more */
    float *logits;  /* of rank 0, (R, V), mapped here */
};

enum { RANK_STATE_ENDED = -1 };

/* Behind the slots of a window: tokens of a step, then a word of each rank. */
static inline HOST_DEVICE int64_t rank_tokens_at(int64_t slot_bytes)
{
    return 2 * slot_bytes;
}

static inline HOST_DEVICE int64_t rank_signals_at(int64_t slot_bytes, int64_t n_samples_max)
{
    return rank_tokens_at(slot_bytes) + (n_samples_max * 4 + 15) / 16 * 16;
}

/* Numbers that are exchanged in a slot: a rank owns every n-th part of them, which it adds up if
 * there are many. A slot holds the parts that it owns from each rank, then all sums. */
static inline HOST_DEVICE int64_t rank_part_vectors(int64_t n_vectors, int n_ranks)
{
    return (n_vectors + n_ranks - 1) / n_ranks;
}

static inline HOST_DEVICE bool rank_is_owned(int64_t n_vectors, int n_ranks)
{
    return n_ranks > 2 && n_vectors >= (int)RANK_OWNED_VECTORS_MIN;
}

static inline HOST_DEVICE int64_t rank_slot_bytes(int64_t n_rows, int64_t n_columns, int n_ranks)
{
    const int64_t n = (n_rows * n_columns + RANK_WORDS - 1) / RANK_WORDS;
    const int64_t n_out = n_rows < (int)RANK_OUT_ROWS ? n_rows : (int)RANK_OUT_ROWS;
    const int64_t sums = (n_ranks * rank_part_vectors(n, n_ranks) + n) * RANK_WORDS * 4;
    const int64_t words = n_ranks * 2 * n_out * n_columns * 4; /* struct rank_out */

    return sums > words ? sums : words;
}

static inline int64_t rank_pairs_at(int64_t slot_bytes, int64_t n_samples, int n_ranks)
{
    return rank_signals_at(slot_bytes, n_samples) + n_ranks * 16;
}

static inline int64_t rank_pairs_bytes(int64_t n_columns, int n_ranks)
{
    return n_ranks * 2 * RANK_PAIR_ROWS * n_columns * RANK_PAIR_BYTES;
}

static inline int64_t rank_window_bytes(int64_t slot_bytes, int64_t n_samples, int64_t n_columns,
                                        int n_ranks)
{
    return rank_pairs_at(slot_bytes, n_samples, n_ranks) + 2 * rank_pairs_bytes(n_columns, n_ranks);
}

/* h = the sum over ranks of h, in place. The first n_integer rows are integers, whose sum becomes
 * float(sum) * unit[c] (expert_sums.h); the others are floats, which are added in the order of
 * ranks. Columns are a multiple of RANK_WORDS. */
struct rank_sums {
    struct rank_peers peers;
    float *h;              /* (n_rows, n_columns) */
    const float *unit;     /* (n_columns) */
    const int32_t *n_live; /* live_rows.cuh: rows that are exchanged; NULL: all */
    int32_t n_rows, n_integer, n_columns;
    int32_t index; /* of the exchange in its step */
};
void launch_rank_sums(struct launch_list *list, const struct rank_sums *s);

/* The same for decode rows of attn_out, whose sums are two words (out_sums.h): high ones in h, low
 * ones in `low`. h = the value of the sum over ranks, plus bias. */
struct rank_out {
    struct rank_peers peers;
    float *h;           /* (n_rows, n_columns) */
    const int32_t *low; /* likewise */
    const void *bias;   /* (n_columns) F32 or BF16; NULL: none */
    const int32_t *n_live;
    int32_t n_rows, n_columns, index;
    bool is_bias_bf16;
};
void launch_rank_out(struct launch_list *list, const struct rank_out *o);

/* The same for a few rows of integers, which stay integers: struct expert_sums of decode.h. A
 * poisoned row is poisoned on all ranks. */
struct rank_integers {
    struct rank_peers peers;
    int32_t *sums;                    /* (n_rows, n_columns) */
    int32_t *poison;                  /* (n_rows) */
    int32_t n_rows, n_columns, index; /* n_rows: up to RANK_PAIR_ROWS */
};
void launch_rank_integers(struct launch_list *list, const struct rank_integers *s);

/* Ranks other than 0 copy their columns [first, first + n) of all rows of logits to rank 0, which
 * waits for them. */
struct rank_logits {
    struct rank_peers peers;
    const float *logits; /* (n_rows, width) */
    int64_t width, first, n, signals_at;
    int32_t n_rows;
    const int32_t *n_live; /* as in struct rank_sums */
};
void launch_rank_logits(struct launch_list *list, const struct rank_logits *l);

/* Rank 0's tokens to all others, in place. The other results of stage sample become 0 on those;
 * NULL: not wanted. */
struct rank_tokens {
    struct rank_peers peers;
    int32_t *tokens; /* (n) */
    float *logprobs; /* (n) */
    int32_t *top_tokens;
    float *top_logprobs; /* (n, n_top) */
    int32_t n, n_top;
    const int32_t *n_live; /* as in struct rank_sums, of n */
};
void launch_rank_tokens(struct launch_list *list, const struct rank_tokens *t);

/* Empties a window. */
void launch_rank_window(void *stream, void *window, int64_t n_bytes);

#ifdef __cplusplus
}
#endif
#endif
