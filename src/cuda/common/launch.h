/* The kernels' launchers: what C calls and CUDA implements. Those of a step append their kernels to a list of
 * launches (launch_list.h) and touch no device. Those that take a stream launch at once; the caller checks
 * cudaGetLastError(). Pointers are device pointers unless they say host. */
#ifndef CUDA_COMMON_LAUNCH_H
#define CUDA_COMMON_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "backend/args.h"
#include "backend/random_weights.h"
#include "cuda/common/launch_list.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pack.cu ---- */

/* Whether this build has code for the current device. */
bool launch_has_code(void);

/* Packs one matrix, raw as in layout.h, of BF16 or MXFP4, to where `packed` begins. */
void launch_pack(cudaStream_t stream, void *packed, const struct tensor *raw);

/* ---- generate.cu ---- */

/* Writes bytes first to first + n of a generated tensor to where `out` begins. */
void launch_generate(cudaStream_t stream, void *out, const struct random_fill *values,
                     int64_t first, int64_t n);

/* ---- transfer.cu: memory of the host is pinned, and the device sees it ---- */

/* What a step leaves in the host's memory. */
struct step_results {
    uint64_t begin_ns, end_ns, n_experts_read;
    /* (R) tokens, (R) log-probabilities, (R, TOP_LOGPROBS_MAX) each of the likeliest; R as many
     * as there may be */
    int32_t lists[];
};

struct upload_launch {
    const void *from; /* of the host */
    void *to;
    int64_t n_bytes;        /* whole pieces of 16 */
    const int32_t *sampled; /* by the step before, in place of tokens < 0; NULL: there are none, */
    int64_t first_token;    /* where tokens begin, counted in ints */
    int n_tokens;
    struct step_results *results; /* of the host */
};
/* The batch comes to its place; its tokens are all known then. */
void launch_upload(cudaStream_t stream, const struct upload_launch *l);

struct download_launch {
    struct sample_args args;
    int n_samples, n_samples_max;
    bool has_top;
    const uint64_t *n_experts_read;
    struct step_results *results; /* of the host */
};
void launch_download(cudaStream_t stream, const struct download_launch *l);

/* ---- probe.cu ---- */

/* Reads the bytes once. */
void launch_probe_read(cudaStream_t stream, const void *data, int64_t n_bytes, int n_blocks);
/* Products in registers; gives their operations. `room`: four bytes. */
double launch_probe_bf16(cudaStream_t stream, void *scratch, int n_blocks);
double launch_probe_sm90(cudaStream_t stream, void *scratch,
                         int n_blocks); /* probe_sm90.cu, by wgmma */

/* ---- matmul.cu: products of weights with tokens' rows ---- */

enum { MATMUL_JOBS_MAX = 3 };

/* out[token][row] = w[row] . x[token] + bias[row], or half as wide with swiglu. Bits of a
 * product do not depend on the tokens beside it. */
struct matmul {
    struct tensor w[MATMUL_JOBS_MAX];    /* all with as many columns; packed, or any other layout */
    struct tensor bias[MATMUL_JOBS_MAX]; /* data NULL: none */
    float *out[MATMUL_JOBS_MAX];
    int64_t out_width[MATMUL_JOBS_MAX]; /* floats from a token's row to the next */
    int n_jobs;
    int n_tokens;
    const float *x;        /* rows of as many floats as the weights have columns */
    const int32_t *gather; /* token i is row gather[i * gather_stride] of x; NULL: row i */
    int gather_stride;
    bool is_exact; /* inputs as sums of three bf16 numbers: float32 but for the last bit */
    /* With experts, weights and bias are stacks: tokens of expert e are entries [first[e],
     * first[e + 1]), which `gather` and `out` count in. NULL: one matrix, all tokens. */
    const int32_t *first;
    const int32_t *active;   /* experts that have tokens, */
    const int32_t *n_active; /* and how many */
    int n_active_max;
    bool is_swiglu;
    float limit, alpha;
};
/* All jobs have the type of the first, and are packed. */
void launch_matmul(struct launch_list *list, const struct matmul *m);
/* Of weights in any layout and type. */
void launch_matmul_simt(struct launch_list *list, const struct matmul *m);

/* ---- rows.cu: a row at a time ---- */

void launch_embed_rmsnorm(struct launch_list *list, const struct embed_rmsnorm_args *a,
                          const int32_t *tokens, int n_rows);
/* The first n_rounded rows of y also as FP16, as decode.h's launch_round_rows() would leave
 * them. */
void launch_residual_rmsnorm(struct launch_list *list, const struct residual_rmsnorm_args *a,
                             int n_rows, uint16_t *rounded, int n_rounded);
/* What launch_residual_rmsnorm() does behind the sum. */
void launch_rmsnorm(struct launch_list *list, const struct residual_rmsnorm_args *a, int n_rows);
/* (T, D) floats, cosines and then sines of every row's position. */
void launch_cos_sin(struct launch_list *list, float *out, const struct rope *rope_host,
                    const int32_t *positions, int n_rows);
/* Rotates q in place, and k of kv_rows; puts k and v into their pages. */
void launch_rope_cache(struct launch_list *list, const struct attn_qkv_args *a,
                       const float *cos_sin, const struct batch *batch, int n_rows);

/* ---- router_topk.cu, experts.cu ---- */

void launch_topk(struct launch_list *list, const struct router_args *a, int n_rows);

/* Which token goes to which expert. */
struct grouping {
    int32_t *first;    /* (E + 1) */
    int32_t *active;   /* (E): experts that have tokens, rising */
    int32_t *n_active; /* (1) */
    int32_t *tokens;   /* (T*A): the token of each entry */
    int32_t *entry;    /* (T*A): the entry of token t at rank a */
    uint64_t *n_read;  /* (1): n_active, added up over all calls */
};
void launch_group(struct launch_list *list, const struct grouping *g, const int32_t *ids,
                  int n_entries, int n_ranks, int n_experts);
void launch_combine(struct launch_list *list, const struct experts_args *a, const int32_t *entry,
                    int n_rows);

/* ---- gather_rows.cu ---- */

/* Row i of `to` becomes row index[i * stride] of `from`, or row i where index is NULL; rows of n floats, aligned to 16
 * bytes. `index` is of the batch. The two do not overlap. */
void launch_gather_rows(struct launch_list *list, float *to, const float *from,
                        const int32_t *index, int stride, int n_rows, int64_t n);

/* ---- sample.cu ---- */

/* What is known of a part of a row of logits. */
struct sample_chunk {
    float largest; /* of the valid ids, edited; -inf: none */
    int32_t id;    /* the lowest with it */
    int32_t state; /* of the part as it came: SAMPLE_INVALID, SAMPLE_FINITE */
    float base;    /* the largest as it came, or 0 where that is not finite */
    double sum;    /* of exp(z - base), as it came */
    uint64_t mass; /* of what is drawn from; only of rows that are drawn without top_k and top_p */
};

enum {
    SAMPLE_INVALID = 1, /* it has a NaN, or +inf among the valid ids */
    SAMPLE_FINITE = 2   /* the largest of its valid ids is finite */
};

enum {
    SAMPLE_CHUNKS = 128, /* of a row: a block each, on all multiprocessors */
    SAMPLE_BINS = 2048,
    SAMPLE_RANGES_MAX =
        4, /* of bins, that are listed: of top_k, of top_p, of min_p, and of the draw */
    SAMPLE_CANDIDATES_MAX = 8192 /* candidates of a row */
};

/* How a row's candidates are spread, of rows that are drawn with top_k or top_p: by the first
 * bits of their weights. */
struct sample_bins {
    uint64_t masses[SAMPLE_BINS];
    uint32_t counts[SAMPLE_BINS];
    /* The candidates of bins that the draw may have to look into: their keys, in any order. */
    uint32_t n_candidates; /* more than SAMPLE_CANDIDATES_MAX: the list is of no use */
    int32_t n_ranges;
    int32_t first_bin[SAMPLE_RANGES_MAX], last_bin[SAMPLE_RANGES_MAX];
    uint64_t candidates[SAMPLE_CANDIDATES_MAX];
};

struct sample_launch {
    struct sample_args args;
    struct batch *
        batch; /* the device's copy: logits before their edits take the place of seen[] and biases[] */
    const struct batch_sample *samples; /* (R), in the batch */
    const double *uniforms;             /* (R): the random number of each sample */
    struct sample_chunk *chunks;        /* room for (R, SAMPLE_CHUNKS) */
    uint64_t *tops;                     /* room for (R, SAMPLE_CHUNKS, TOP_LOGPROBS_MAX) */
    struct sample_bins *bins;           /* room for (R) */
    int n_samples;
    bool has_special; /* one of the samples is special */
};
void launch_sample(struct launch_list *list, const struct sample_launch *l);

/* Whether this build and the current device have the wgmma kernels (prefill/gemm_sm90.cu); to be
 * asked once, before the first of them is launched. */
bool launch_gemm_available(const struct gpu_desc *gpu);

#ifdef __cplusplus
}
#endif
#endif
