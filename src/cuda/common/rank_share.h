/* Prefill rows that ranks share out (sequence parallelism). After attn_out and after the experts
 * every rank has a part of the sum of every row. It pushes the parts of a row to one rank, its
 * owner, which adds them in the order of ranks, does the residual and the norm, and pushes the
 * normed row in 16 bits, as an operand of the next matmul, to all. After attn_out it also does the
 * router of its rows. With n ranks that is 1.5 (n - 1) / n times the bytes of the rows, where sums
 * that every rank adds are n - 1 times as many, and every row is normed once.
 *
 * The sums come through the slots of the windows (rank_exchange.h). What all ranks gather is
 * written in place, in an area behind them, and then announced: the last block of a kernel writes
 * the number of the exchange to every other rank, and waits for theirs. So a rank begins no kernel
 * behind it before all rows are there. One area is enough, without a second one for the next
 * exchange: a rank pushes a row after it has its parts from all ranks, which they compute behind
 * all kernels that read what was gathered before.
 *
 * The residual stream x of a row is valid on its owner only, until the last layer's sampled rows
 * are sent to all. */
#ifndef CUDA_COMMON_RANK_SHARE_H
#define CUDA_COMMON_RANK_SHARE_H

#include "backend/args.h"
#include "cuda/common/operand.h"
#include "cuda/common/rank_exchange.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RANK_SHARE_ROWS_MIN = 128, /* of a step; each of up to 8 ranks has a row from 57 on */
    RANK_SHARE_WIDTH_MAX = 3072,
    RANK_SHARE_ACTIVE_MAX = 32, /* experts of a row: a lane of a warp sends each */
    RANK_FLAG_BYTES = 16
};

/* Rank r owns rows [r * part, (r + 1) * part) of n_rows, as far as there are so many. */
struct rank_share {
    int32_t n_rows, part;
};

static inline HOST_DEVICE struct rank_share rank_share_of(int n_rows, int n_ranks)
{
    const struct rank_share share = {n_rows, (n_rows + n_ranks - 1) / n_ranks};

    return share;
}

static inline HOST_DEVICE int rank_share_first(struct rank_share s, int rank)
{
    return rank * s.part < s.n_rows ? rank * s.part : s.n_rows;
}

static inline HOST_DEVICE int rank_share_rows(struct rank_share s, int rank)
{
    return rank_share_first(s, rank + 1) - rank_share_first(s, rank);
}

static inline HOST_DEVICE int rank_share_owner(struct rank_share s, int row)
{
    return row / s.part;
}

/* Where rank `from` puts its part of a row in the slot of the owner, in rows. */
static inline HOST_DEVICE int64_t rank_share_place(struct rank_share s, int from, int row)
{
    return (int64_t)from * s.part + row % s.part;
}

/* ---- blocks of the kernel that exchanges the sums ---- */

/* The first blocks push parts of rows to other ranks. Then blocks that push and blocks that wait
 * for parts alternate, so that the link works meanwhile.
 *
 * GPUs start blocks in the order of their numbers. A part is pushed by a block with a lower number
 * than that of the block, of another rank, which waits for it, and blocks that push do not wait. So
 * no rank waits for a block that cannot start. */
enum { RANK_SHARE_LEAD = 256 }; /* blocks that push before the first that waits: 8 us of a link */

/* Rows of each other rank that are pushed first. */
static inline HOST_DEVICE int rank_share_lead(struct rank_share s, int n_ranks)
{
    const int n = RANK_SHARE_LEAD / (n_ranks - 1);

    return n < s.part ? n : s.part;
}

static inline HOST_DEVICE int rank_share_blocks(struct rank_share s, int n_ranks)
{
    return rank_share_lead(s, n_ranks) * (n_ranks - 1) + s.part * n_ranks;
}

/* A row and the rank that owns it; row -1: the block has none. */
struct owned_row {
    int owner, row;
};

/* Of a block of a rank: a row of its own waits, others are pushed. Behind the lead, n_ranks blocks
 * in a row have a row of each other rank and one of this rank. */
static inline HOST_DEVICE struct owned_row rank_share_block(struct rank_share s, int n_ranks,
                                                            int rank, int block)
{
    const int n_others = n_ranks - 1, lead = rank_share_lead(s, n_ranks);
    const int behind = block - lead * n_others;
    const int group = behind < 0 ? block / n_others : behind / n_ranks;
    const int k = behind < 0 ? block % n_others : behind % n_ranks;
    const int i = behind >= 0 && k < n_others ? lead + group : group; /* of the owner's rows */
    struct owned_row out;

    out.owner = (k < n_others ? rank + 1 + k : rank) % n_ranks;
    out.row = i < rank_share_rows(s, out.owner) ? rank_share_first(s, out.owner) + i : -1;
    return out;
}

/* What all ranks gather, as offsets in their windows. */
struct rank_gather {
    int64_t operand_at;       /* the rows: operand_rows(n_rows_max) of one 16-bit term */
    int64_t ids_at, gates_at; /* (n_rows_max, n_active) */
    int64_t flags_at;         /* (n_ranks): of each rank, the last exchange that it has announced */
    int64_t n_done_at;        /* of this rank: blocks of the kernel that have stored their rows */
    int64_t end_at;
};

static inline int64_t rank_gather_align(int64_t at)
{
    return (at + 255) / 256 * 256;
}

/* From window_bytes, the end of the rest of a window, on. n_active 0: there are no experts. */
static inline struct rank_gather rank_gather_at(int64_t window_bytes, int64_t n_rows_max,
                                                int64_t n_columns, int64_t n_active, int n_ranks)
{
    const int64_t rows_bytes = operand_bytes(operand_rows(n_rows_max), n_columns, ROUNDS_TO_F16);
    const int64_t list_bytes = n_rows_max * n_active * 4;
    struct rank_gather g;

    g.operand_at = rank_gather_align(window_bytes);
    g.ids_at = g.operand_at + rank_gather_align(rows_bytes);
    g.gates_at = g.ids_at + rank_gather_align(list_bytes);
    g.flags_at = g.gates_at + rank_gather_align(list_bytes);
    g.n_done_at = g.flags_at + rank_gather_align((int64_t)n_ranks * RANK_FLAG_BYTES);
    g.end_at = g.n_done_at + rank_gather_align(4);
    return g;
}

/* A kernel that pushes this rank's parts of the rows to their owners; takes those of its own rows
 * from the others, and does their residual and their norm; and pushes the normed rows to all, as an
 * operand of 16 bits. */
struct shared_rmsnorm {
    struct rank_peers peers;
    struct rank_gather gather;
    struct rank_share share;
    const float *parts; /* (n_rows, n_parts, C): a row's part is their sum, in order */
    int32_t n_parts;
    struct residual_rmsnorm_args a; /* this rank's rows of x and y are touched; h is not used */
    void *operand;                  /* this rank's gathered rows */
    int64_t n_operand_rows;         /* operand_rows(share.n_rows) */
    int32_t index;                  /* of the exchange in its step */
    bool is_bf16;                   /* the operand is BF16 and not FP16 */
    bool is_partial;                /* the norm uses partial sums (decode/partial_norm.cuh) */
    bool stores_y;
    bool is_last; /* of the kernels that push before the others read: it waits for their rows */
};
void launch_shared_rmsnorm(struct launch_list *list, const struct shared_rmsnorm *s);

/* ids and gates of this rank's rows, to all; then waits for those of the others. */
struct shared_topk {
    struct rank_peers peers;
    struct rank_gather gather;
    struct rank_share share;
    struct router_args a;
    int32_t *ids; /* this rank's gathered ones, and the gates behind them */
    int32_t index;
};
void launch_shared_topk(struct launch_list *list, const struct shared_topk *t);

/* to[i] = row rows[i * stride] of x, from its owner, for all ranks: an exchange of its own. */
struct shared_gather {
    struct rank_peers peers;
    struct rank_share share;
    float *to;
    const float *x;
    const int32_t *rows; /* of the batch */
    int32_t stride, n, n_columns, index;
};
void launch_shared_gather(struct launch_list *list, const struct shared_gather *g);

#ifdef __cplusplus
}
#endif
#endif
