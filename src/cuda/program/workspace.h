/* Sizes of the workspaces and offsets of their parts (launch/workspaces.h names them). fuse() uses
 * them for a step, and workspace.c for the largest step. */
#ifndef CUDA_PROGRAM_WORKSPACE_H
#define CUDA_PROGRAM_WORKSPACE_H

#include "cuda/attention/attn.h"
#include "cuda/decode/decode.h"
#include "backend/backend.h"
#include "cuda/launch/workspaces.h"
#include "cuda/prefill/gemm.h"

/* The keys of the samples' noise, which lie in front of the batch. */
static inline int64_t noise_keys_bytes(int64_t n_samples)
{
    return n_samples * (int64_t)sizeof(uint64_t);
}

/* These and a batch, in multiples of what transfer.cu copies at a time. */
static inline int64_t upload_bytes(int64_t n_samples, int64_t batch_bytes)
{
    return (noise_keys_bytes(n_samples) + batch_bytes + 15) / 16 * 16;
}

static inline int64_t sampled_bytes(int64_t n_samples)
{
    return STEPS_QUEUED_MAX * n_samples * (int64_t)sizeof(int32_t);
}

static inline int64_t cos_sin_bytes(int64_t n_rows, int64_t head_dim)
{
    return n_rows * head_dim * (int64_t)sizeof(float);
}

static inline int64_t sample_tops_bytes(int64_t n_samples)
{
    return n_samples * (int64_t)(SAMPLE_CHUNKS * TOP_LOGPROBS_MAX * sizeof(uint64_t));
}

static inline int64_t sample_bins_bytes(int64_t n_samples)
{
    return n_samples * (int64_t)sizeof(struct sample_bins);
}

static inline int64_t sample_chunks_bytes(int64_t n_samples)
{
    return n_samples * (int64_t)(SAMPLE_CHUNKS * sizeof(struct sample_chunk));
}

/* Rows as launch_round_rows() leaves them; for DECODE_ROWS_MAX at least: a batch that grows
 * moves nothing. */
static inline int64_t rounded_rows_bytes(int64_t n_rows, int64_t n_columns)
{
    const int64_t n = n_rows < DECODE_ROWS_MAX ? DECODE_ROWS_MAX : n_rows;

    return n * units_of(n_columns, UNIT_COLUMNS) * UNIT_COLUMNS * (int64_t)sizeof(uint16_t);
}

/* ---- where splits of a decode row are merged ---- */

/* Decode rows of a launch, of n: as many as there may be buffers for, and one at least. */
static inline int attn_rows_at_once(const struct attn_args *a, int64_t n)
{
    const int64_t n_most = ATTN_MERGE_BYTES_MAX / (attn_row_blocks(a) * (int64_t)ATTN_MERGE_BYTES);

    return n < n_most ? (int)n : n_most < 1 ? 1 : (int)n_most;
}

static inline int64_t attn_merge_bytes(const struct attn_args *a, int64_t n_rows)
{
    return n_rows * attn_row_blocks(a) * ATTN_MERGE_BYTES;
}

/* ---- the router's sums ---- */

static inline int64_t router_bytes(void)
{
    return DECODE_FUSED_MAX * ROUTER_ROW_SUMS * (int64_t)sizeof(uint64_t);
}

/* ---- the experts' integer sums (common/expert_sums.h) ---- */

static inline int64_t expert_sums_bytes(int64_t n_columns)
{
    return DECODE_FUSED_MAX * n_columns * (int64_t)sizeof(int32_t);
}

static inline int64_t poison_bytes(void)
{
    return DECODE_FUSED_MAX * (int64_t)sizeof(int32_t);
}

/* ---- lists of experts: entries are T*A ---- */

static inline int64_t grouping_bytes(int64_t n_entries, int64_t n_experts)
{
    return (2 * n_experts + 2 + 2 * n_entries) * (int64_t)sizeof(int32_t);
}

static inline struct grouping grouping_at(void *data, int64_t n_entries, int64_t n_experts)
{
    struct grouping g = {.first = data};

    g.active = g.first + n_experts + 1;
    g.n_active = g.active + n_experts;
    g.tokens = g.n_active + 1;
    g.entry = g.tokens + n_entries;
    return g;
}

static inline int64_t expert_lists_bytes(int64_t n_entries, int64_t n_experts)
{
    return (n_experts + 1) * (int64_t)sizeof(struct expert_rows) +
           listed_rows(n_entries, n_experts) * (int64_t)sizeof(struct row_use) +
           (1 + n_entries) * (int64_t)sizeof(int32_t);
}

static inline struct expert_lists expert_lists_at(void *data, int64_t n_entries, int64_t n_experts)
{
    struct expert_lists lists = {.experts = data};

    lists.uses = (struct row_use *)(lists.experts + n_experts + 1);
    lists.n_active = (int32_t *)(lists.uses + listed_rows(n_entries, n_experts));
    lists.place = lists.n_active + 1;
    return lists;
}

static inline int64_t decode_jobs_bytes(int64_t n_entries)
{
    return n_entries * (int64_t)(sizeof(struct decode_job) + 3 * sizeof(int32_t) + sizeof(float)) +
           (1 + 2 * (DECODE_SHARES_MAX + 1)) * (int64_t)sizeof(int32_t);
}

static inline void decode_jobs_at(struct decode_grouped *out, void *data, int64_t n_entries)
{
    out->jobs = data;
    out->entry = (int32_t *)(out->jobs + n_entries);
    out->entry_gates = (float *)(out->entry + n_entries);
    out->place = (int32_t *)(out->entry_gates + n_entries);
    out->entry_tokens = out->place + n_entries;
    out->n_jobs = out->entry_tokens + n_entries;
    out->shares = out->n_jobs + 1;
}

#endif
