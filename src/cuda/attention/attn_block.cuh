/* Prefill attention: assignment of rows, heads and keys to blocks. A tile has a fixed number of
 * tokens of one sequence. A block has one tile and up to eight query heads of one key/value
 * head. */
#ifndef CUDA_ATTENTION_ATTN_BLOCK_CUH
#define CUDA_ATTENTION_ATTN_BLOCK_CUH

#include "cuda/attention/attn.cuh"
#include "cuda/attention/attn_needed.cuh"
#include "cuda/common/sums.cuh"

/* The rows, heads and keys of a block. */
struct block {
    int first_row, n_tokens;
    int kv_head, first_head, n_heads;
    int position;            /* of its first token */
    int first_key, last_key; /* seen by at least one of its rows */
    const int32_t *pages;    /* page of position p: pages[p / P] */
};

template <int TOKENS> static __device__ int tiles_of(const struct batch_seq *seq)
{
    return (seq->n_rows + TOKENS - 1) / TOKENS;
}

/* The sequence that contains tile *tile, which becomes relative to the sequence's start; -1: the
 * tile is past the last sequence. */
template <int TOKENS> static __device__ int seq_of(const struct attn_launch &l, int *tile)
{
    const int lane = threadIdx.x % WARP_LANES;
    const struct batch_seq *seqs = l.rows.seqs;

    for (int first = 0; first < l.n_seqs; first += WARP_LANES) {
        const int n = first + lane < l.n_seqs ? tiles_of<TOKENS>(&seqs[first + lane]) : 0;
        int before = n;
        unsigned in_or_after;

        for (int step = 1; step < WARP_LANES; step *= 2) {
            const int other = __shfl_up_sync(ALL_LANES, before, step);

            before += lane >= step ? other : 0;
        }
        in_or_after = __ballot_sync(ALL_LANES, *tile < before);
        if (in_or_after != 0) {
            const int at = __ffs((int)in_or_after) - 1;

            *tile -= __shfl_sync(ALL_LANES, before - n, at);
            return first + at;
        }
        *tile -= __shfl_sync(ALL_LANES, before, WARP_LANES - 1);
    }
    return -1;
}

static __device__ int first_visible(const struct attn_args &a, int position)
{
    return a.window_tokens > 0 ? max(position + 1 - a.window_tokens, 0) : 0;
}

/* Tile `tile` of TOKENS tokens, counted over all sequences, with head group `y`. Returns false if
 * the block has no work. */
template <int TOKENS>
static __device__ bool block_of(struct block *k, const struct attn_launch &l, int tile, int y)
{
    const struct attn_args &a = l.args;
    const int n_group = l.n_group, n_parts = (n_group + ATTN_HEADS - 1) / ATTN_HEADS;
    const int part = y % n_parts;
    const int index = seq_of<TOKENS>(l, &tile), lane = threadIdx.x % WARP_LANES;
    const struct batch_seq *seq = &l.rows.seqs[index];
    bool is_prefill;

    if (index < 0)
        return false;
    k->first_row = seq->first_row + tile * TOKENS;
    k->n_tokens = min(seq->n_rows - tile * TOKENS, TOKENS);
    is_prefill = lane < k->n_tokens && l.rows.phases[k->first_row + lane] == PHASE_PREFILL;
    if (!__any_sync(ALL_LANES, is_prefill) || !is_needed(l, k->first_row, k->n_tokens))
        return false;
    k->kv_head = y / n_parts;
    k->first_head = k->kv_head * n_group + part * ATTN_HEADS;
    k->n_heads = min(n_group - part * ATTN_HEADS, (int)ATTN_HEADS);
    k->position = l.rows.positions[k->first_row];
    k->first_key = first_visible(a, k->position);
    k->last_key = k->position + k->n_tokens - 1;
    k->pages = l.rows.pages + seq->table[a.group] - seq->first_page[a.group];
    return true;
}

#endif
