/* The launchers of the kernels: C interface, CUDA implementation. The launchers of a step append
 * their kernels to a launch list (launch_list.h) and touch no device. Launchers that take a stream
 * launch at once; the caller checks cudaGetLastError(). Pointers are device pointers unless marked
 * host. */
#ifndef CUDA_LAUNCH_LAUNCH_H
#define CUDA_LAUNCH_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "backend/args.h"
#include "backend/random_weights.h"
#include "cuda/launch/launch_list.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pack.cu ---- */

/* True if this build has code for the current device. */
bool launch_has_code(void);

/* Packs one BF16 or MXFP4 matrix, `raw` as in layout.h, into `packed`. */
void launch_pack(cudaStream_t stream, void *packed, const struct tensor *raw);

/* ---- expert_grid.cu ---- */

/* The scales of the integer sums of the experts (common/expert_sums.h) come from the weights of all
 * ranks, in two steps. */
struct expert_bounds {
    float *slices;  /* (E, EXPERT_SLICES, C): sums of |w_down|; 0: another rank has the slice */
    float *columns; /* (n_ranks, 2, C): the largest |b_down|, and codes as floats; 0: likewise */
};
/* This rank's part of the bounds, which are zeros before; w_down in packed MXFP4, b_down in any
 * format. */
void launch_expert_bounds(cudaStream_t stream, const struct expert_bounds *bounds,
                          const struct experts_args *a, int rank, int n_ranks);
/* The grid of a layer from the bounds of all ranks. */
void launch_expert_grid(cudaStream_t stream, float *grid, const struct expert_bounds *bounds,
                        const struct experts_args *a, int n_ranks);

/* ---- generate.cu ---- */

/* Writes bytes [first, first + n) of a generated tensor to `out`. */
void launch_generate(cudaStream_t stream, void *out, const struct random_fill *values,
                     int64_t first, int64_t n);

/* ---- transfer.cu: host memory is pinned and mapped into the device's address space ---- */

/* The results that a step writes to host memory. */
struct step_results {
    uint64_t begin_ns, end_ns, n_experts_read;
    /* (R) tokens, (R) logprobs, (R, TOP_LOGPROBS_MAX) ids and logprobs of the most likely tokens,
     * (R, DRAFT_CANDIDATES_MAX) candidates; R is the most rows that a batch can sample */
    int32_t lists[];
};

struct upload_launch {
    const void *from; /* host */
    void *to;
    int64_t n_bytes; /* a multiple of 16 */
    /* Tokens of earlier steps, for tokens < 0: by batch_sample_back(); the first one NULL: there
     * are no such tokens. */
    const int32_t *sampled[BATCH_STEPS_BACK];
    int64_t first_token; /* index of the first token, in ints */
    int n_tokens;
    struct step_results *results; /* host */
    uint32_t *n_exchanges_to; /* receives n_exchanges (common/rank_exchange.h); NULL: one rank */
    uint32_t n_exchanges;
};
/* Copies the batch to the device and fills in the tokens that an earlier step sampled. */
void launch_upload(cudaStream_t stream, const struct upload_launch *l);

/* Lowers what depends on the drafts that an earlier step accepts, in an uploaded batch. */
struct follow_launch {
    struct batch *batch;    /* with n_follows > 0 */
    const int32_t *sampled; /* of the step with the batch's follows_ticket */
    uint64_t *noise_keys;   /* (R) */
    int n_follows;
};
void launch_follow(cudaStream_t stream, const struct follow_launch *l);

struct download_launch {
    struct sample_args args;
    int n_samples, n_samples_max;
    int32_t *sampled; /* receives the tokens, for later steps */
    bool has_top, has_candidates;
    const uint64_t *n_experts_read;
    struct step_results *results; /* host */
};
void launch_download(cudaStream_t stream, const struct download_launch *l);

/* ---- probe.cu ---- */

/* Reads the bytes once. */
void launch_probe_read(cudaStream_t stream, const void *data, int64_t n_bytes, int n_blocks);
/* *out = the L2 policy that createpolicy makes for evict_first. Returns the one of the kernels
 * (common/evict_first.cuh). */
uint64_t launch_probe_policy(cudaStream_t stream, uint64_t *out);
/* MMAs on operands in registers; returns the number of operations. `scratch`: four bytes. */
double launch_probe_bf16(cudaStream_t stream, void *scratch, int n_blocks);
double launch_probe_sm90(cudaStream_t stream, void *scratch,
                         int n_blocks); /* probe_sm90.cu, wgmma */

/* ---- matmul.cu: matrix products with few tokens ---- */

enum { MATMUL_JOBS_MAX = 3 };

/* out[token][row] = w[row] . x[token] + bias[row], or half as wide with SwiGLU. A token's result
 * does not depend, bit for bit, on the other tokens of the batch. */
struct matmul {
    struct tensor w[MATMUL_JOBS_MAX];    /* same number of columns; any layout */
    struct tensor bias[MATMUL_JOBS_MAX]; /* data NULL: no bias */
    float *out[MATMUL_JOBS_MAX];
    int64_t out_width[MATMUL_JOBS_MAX]; /* row stride of the output, in floats */
    int n_jobs;
    int n_tokens;
    const int32_t *n_live; /* common/live_rows.cuh: tokens that are stored; NULL: all */
    const float *x;        /* rows with the weights' number of columns, in floats */
    const int32_t *gather; /* token i is row gather[i * gather_stride] of x; NULL: row i */
    int gather_stride;
    bool is_exact;   /* inputs in three BF16 terms: float32 but for the last bit */
    int slice_units; /* attn_out of decode rows: units of a slice (common/out_sums.h); 0: eighths */
    /* With experts, weights and bias are stacks. The tokens of expert e are entries [first[e],
     * first[e + 1]), which index `gather` and `out`. NULL: one matrix, all tokens. */
    const int32_t *first;
    const int32_t *active;   /* experts that have tokens, */
    const int32_t *n_active; /* and their number */
    int n_active_max;
    bool is_swiglu;
    float limit, alpha;
};
/* All jobs have the dtype of the first and are packed. */
void launch_matmul(struct launch_list *list, const struct matmul *m);
/* Weights in any layout and dtype. */
void launch_matmul_simt(struct launch_list *list, const struct matmul *m);

/* ---- rows.cu: one block per row; n_live: as in struct matmul ---- */

void launch_embed_rmsnorm(struct launch_list *list, const struct embed_rmsnorm_args *a,
                          const int32_t *tokens, int n_rows, const int32_t *n_live);
/* The first n_rounded rows of y are also stored as FP16, as launch_round_rows() of decode.h
 * does. */
void launch_residual_rmsnorm(struct launch_list *list, const struct residual_rmsnorm_args *a,
                             int n_rows, uint16_t *rounded, int n_rounded);
/* launch_residual_rmsnorm() without the residual add. */
void launch_rmsnorm(struct launch_list *list, const struct residual_rmsnorm_args *a, int n_rows);
/* (T, D) floats: cosines, then sines, for the position of each row. */
void launch_cos_sin(struct launch_list *list, float *out, const struct rope *rope_host,
                    const int32_t *positions, int n_rows, const int32_t *n_live);
/* Rotates q in place and k of kv_rows, and writes k and v to their KV pages. */
void launch_rope_cache(struct launch_list *list, const struct attn_qkv_args *a,
                       const float *cos_sin, const struct batch *batch, int n_rows);

/* ---- router_topk.cu, experts.cu ---- */

/* n_live: as in struct matmul, here and in struct grouping. */
void launch_topk(struct launch_list *list, const struct router_args *a, int n_rows,
                 const int32_t *n_live);

/* Tokens grouped by expert. */
struct grouping {
    int32_t *first;    /* (E + 1) */
    int32_t *active;   /* (E): experts that have tokens, ascending */
    int32_t *n_active; /* (1) */
    int32_t *tokens;   /* (T*A): the token of each entry */
    int32_t *entry;    /* (T*A): the entry of token t at rank a */
    uint64_t *n_read;  /* (1): n_active, accumulated over all calls */
    const int32_t *n_live;
};
void launch_group(struct launch_list *list, const struct grouping *g, const int32_t *ids,
                  int n_entries, int n_ranks, int n_experts);
void launch_combine(struct launch_list *list, const struct experts_args *a,
                    const struct grouping *g, int n_rows);

/* ---- gather_rows.cu ---- */

/* Copies row index[i * stride] of `from`, or row i if index is NULL, to row i of `to`. Rows have n
 * floats and are aligned to 16 bytes. `index` is an array of the batch. `to` and `from` do not
 * overlap. n_live: as in struct matmul. */
void launch_gather_rows(struct launch_list *list, float *to, const float *from,
                        const int32_t *index, int stride, int n_rows, int64_t n,
                        const int32_t *n_live);

/* ---- sample.cu ---- */

/* Partial results of one chunk of a row of logits. */
struct sample_chunk {
    float largest; /* largest valid logit after edits; -inf if there is no such logit */
    int32_t id;    /* the lowest id that has it */
    int32_t state; /* before edits: SAMPLE_INVALID, SAMPLE_FINITE */
    float base;    /* largest logit before edits; 0 if it is not finite */
    double sum;    /* of exp(z - base), before edits */
    uint64_t pick; /* of the candidate with the largest score (sampling/sample_key.h); only for rows
                    * that are sampled without top_k and top_p */
};

enum {
    SAMPLE_INVALID = 1, /* the chunk has a NaN, or +inf among the valid ids */
    SAMPLE_FINITE = 2   /* the largest of its valid logits is finite */
};

enum {
    SAMPLE_CHUNKS = 128, /* chunks of a row; one block each, over all SMs */
    SAMPLE_BINS = 2048,
    SAMPLE_RANGES_MAX = 3,       /* of listed bins: for top_k, top_p and min_p */
    SAMPLE_CANDIDATES_MAX = 8192 /* of a row */
};

/* Histogram of a row's candidates by the leading bits of their weights, for rows sampled with top_k
 * or top_p. */
struct sample_bins {
    uint64_t masses[SAMPLE_BINS];
    uint64_t picks[SAMPLE_BINS]; /* key of the largest score, if it can be sampled; 0: none */
    uint32_t counts[SAMPLE_BINS];
    /* Keys of the candidates in the bins that sampling may need, in any order. */
    uint32_t n_candidates; /* above SAMPLE_CANDIDATES_MAX the list is incomplete: unused */
    int32_t n_ranges;
    int32_t first_bin[SAMPLE_RANGES_MAX], last_bin[SAMPLE_RANGES_MAX];
    uint64_t candidates[SAMPLE_CANDIDATES_MAX];
    uint64_t lowest; /* the smallest key that may be sampled; set with the token */
};

struct sample_launch {
    struct sample_args args;
    struct batch
        *batch; /* device copy; the original logits replace seen[] and biases[] when they are
                * edited */
    const struct batch_sample *samples; /* (R), in the batch */
    const uint64_t *noise_keys;         /* (R): rng_key() of each sample's seed and position */
    struct sample_chunk *chunks;        /* workspace (R, SAMPLE_CHUNKS) */
    uint64_t *tops;                     /* workspace (R, SAMPLE_CHUNKS, TOP_LOGPROBS_MAX) */
    struct sample_bins *bins;           /* workspace (R) */
    int n_samples;
    bool has_special; /* at least one sample is special */
};
void launch_sample(struct launch_list *list, const struct sample_launch *l);
/* Behind it, of batches with n_candidates > 0: args.candidates. Two kernels. */
void launch_candidates(struct launch_list *list, const struct sample_launch *l);

/* True if this build and the current device have the wgmma kernels (prefill/gemm_sm90.cu). Call it
 * once before the first launch of one of them. */
bool launch_gemm_available(const struct gpu_desc *gpu);

#ifdef __cplusplus
}
#endif
#endif
