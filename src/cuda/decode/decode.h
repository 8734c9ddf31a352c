/* Decode kernels: interface. GEMMs of few rows, fused with the RMSNorm of their inputs and with the
 * operation that follows. A block issues its first weight copies before griddepcontrol.wait, if it
 * knows which weights it needs.
 *
 * Kernel arguments are kept small: arguments and code are fetched from memory again by every kernel
 * of a step, because the weights evict them from the caches. Launchers as in launch.h append
 * their kernels to the launch list. A launcher that returns bool returns false if the GPU has too
 * little shared memory for the kernel; then nothing is appended. */
#ifndef CUDA_DECODE_DECODE_H
#define CUDA_DECODE_DECODE_H

#include "cuda/launch/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DECODE_FUSED_MAX = 4,     /* rows of a step whose entries are not grouped by expert */
    DECODE_ROWS_MAX = 1024,   /* rows of a step that these kernels support */
    DECODE_RMSNORM_MAX = 64,  /* rows that fit: the router kernel does their residual RMSNorm */
    DECODE_EXPERTS_MAX = 128, /* four logits per lane */
    DECODE_ACTIVE_MAX = 8,
    DECODE_WIDTH_MAX = 3072, /* columns of a row that a block normalizes in registers */
    DECODE_COLUMNS_OF = 8,   /* input rows are read in pieces of this many numbers */
    DECODE_HEAD_WIDTH = 64   /* a head is one row of units, so its rotation stays within a block */
};

/* A packed matrix, or a stack of them. */
struct decode_matrix {
    const unsigned char *units;
    int64_t matrix_bytes;    /* stride */
    int32_t n_rows, n_units; /* n_units: units in a row of units */
};

enum decode_vector_type { VECTOR_NONE, VECTOR_F32, VECTOR_BF16, VECTOR_PACKED };

/* A vector, or a stack of them: (matrices, n). */
struct decode_vector {
    const void *data;
    enum decode_vector_type kind;
    int32_t n; /* elements, or, if packed, units in a row */
};

/* The experts' output of a few rows, which x does not include yet: x + sums[c] * unit[c]. */
struct expert_sums {
    int32_t *sums;     /* (T, n); NULL: none */
    const float *unit; /* (n); NULL: the contents of sums are undefined */
    int32_t *poison;   /* (T): not 0: the row is NaN */
};

/* Inputs of a GEMM. */
struct decode_rows {
    const float *x;        /* rows of n floats */
    const int32_t *gather; /* token i is row gather[i * gather_stride] of x; NULL: row i */
    int32_t gather_stride, n;
    struct decode_vector norm; /* RMSNorm of the rows; VECTOR_NONE: no norm */
    float eps;
    float *y; /* the normalized rows are also stored here; NULL: they are not stored */
    struct expert_sums sums; /* a few rows with a norm: x lacks these */
};

/* out[token][row] = w[row] . x[token] + bias[row], or out += that. */
struct decode_matmul {
    struct decode_rows rows;
    struct decode_matrix w;
    struct decode_vector bias;
    float *out;
    int32_t out_width; /* row stride of the output, in floats */
    int32_t n_tokens;
    const int32_t *n_live; /* live_rows.cuh: tokens that are stored; NULL: all */
    bool is_mxfp4, adds;
    bool is_exact;       /* BF16 weights: split inputs into three BF16 terms */
    int32_t slice_units; /* attn_out: units of a slice (common/out_sums.h); 0: eighths */
    int32_t *low;        /* as in struct decode_gemm */
};
bool launch_decode_matmul(struct launch_list *list, const struct decode_matmul *p);
/* The value that the launcher would return. */
bool decode_matmul_fits(struct launch_list *list, const struct decode_matmul *p);

/* Router matrix multiplication by columns, for decode rows (router.cuh): the partial sums of a
 * row's logits, followed by the sums of its squares. There are several copies, to which blocks add
 * alternately. */
enum {
    ROUTER_COPIES = 2,
    ROUTER_SQUARES_AT = DECODE_EXPERTS_MAX,
    ROUTER_COPY_SUMS = DECODE_EXPERTS_MAX + 16, /* whole cache lines */
    ROUTER_ROW_SUMS = ROUTER_COPIES * ROUTER_COPY_SUMS
};

/* Stage attn_out with residual add and the router's matrix multiplication, for at most
 * DECODE_FUSED_MAX rows: x += the product; the router's sums += router w . (x times the norm's
 * weights). */
struct decode_out {
    struct decode_matmul p; /* adds to x: out */
    struct decode_matrix router;
    struct decode_vector norm;      /* F32 or BF16 */
    uint64_t *sums;                 /* (T, ROUTER_ROW_SUMS): accumulated */
    struct expert_sums expert;      /* added to x as well, and set to zero */
    const int32_t *expert_totals;   /* (T, n): with peers these are added in place of expert.sums;
                                     * NULL: expert.sums are */
    const struct rank_peers *peers; /* device memory; NULL: one rank has all columns of the rows */
    int32_t exchange;               /* index of the exchange with peers in its step */
    const uint16_t *rounded; /* the rows as made by launch_round_rows() for MXFP4 weights; NULL:
                              * not there. One row is not read from there. */
};
bool launch_decode_out(struct launch_list *list, const struct decode_out *p);
/* Sets all sums to zero. */
void launch_clear_sums(struct launch_list *list, uint64_t *sums);

/* Inputs from which the top-k kernels compute the logits. */
struct decode_topk_input {
    const uint64_t *sums;            /* (T, ROUTER_ROW_SUMS); NULL: use router_logits */
    const float *x;                  /* (T, n_columns): y is the RMSNorm of these rows */
    struct decode_vector norm, bias; /* F32 or BF16; VECTOR_NONE: no bias */
    float eps;
};

/* Rounds the rows of x to FP16 (for MXFP4 weights) or BF16: (n_tokens, units in a row, 64). n_live:
 * as in struct decode_gemm. */
void launch_round_rows(struct launch_list *list, uint16_t *out, const struct decode_rows *rows,
                       int n_tokens, const int32_t *n_live, bool is_mxfp4);

enum { DECODE_JOBS_MAX = 3 };

/* Epilogue of stage attn_qkv, whose jobs are q, k and v: heads of DECODE_HEAD_WIDTH are rotated
 * (RoPE), and keys and values are stored in their KV pages instead of out[1] and out[2]. */
struct decode_heads {
    char *pages;          /* of the KV cache, F32 or BF16 */
    const float *cos_sin; /* as made by launch_cos_sin() */
    const struct batch *batch;
    int64_t kv_half_bytes; /* keys or values of one head in a page */
    int32_t n_kv;          /* heads */
    enum page_group group;
    bool is_cache_bf16;
};

/* out[job][token][row] = w[job][row] . x[token] + bias[job][row], for many tokens. */
struct decode_gemm {
    struct decode_matrix w[DECODE_JOBS_MAX]; /* all with the same number of columns */
    struct decode_vector bias[DECODE_JOBS_MAX];
    float *out[DECODE_JOBS_MAX];
    int32_t out_width[DECODE_JOBS_MAX]; /* row stride of the output, in floats */
    int32_t n_jobs, n_tokens;
    const int32_t *n_live; /* live_rows.cuh: tokens that are read and stored; NULL: all */
    const uint16_t *rows;  /* of x, as made by launch_round_rows() */
    bool is_mxfp4;
    int32_t slice_units; /* attn_out: units of a slice (common/out_sums.h); 0: eighths */
    int32_t *low; /* attn_out, job 0: out gets the high words of the sums, which other ranks add to,
                   * without bias, and this array, as wide as out, the low words. NULL: floats */
    struct decode_heads heads; /* pages NULL: no RoPE epilogue */
    char *operand; /* launch_decode_gemm_sm90(): the rows as an operand (common/operand.h) */
    int32_t n_operand_rows;
};
/* With list->is_query it only returns whether the GPU has enough shared memory. */
bool launch_decode_gemm(struct launch_list *list, const struct decode_gemm *p);
/* The same for 33 to 64 tokens, with MXFP4 matrices that fit in the shared memory of all SMs
 * together. */
bool launch_decode_smem_resident(struct launch_list *list, const struct decode_gemm *p);
/* The same by wgmma, for many tokens and MXFP4 matrices, without the RoPE epilogue; Hopper only. */
bool launch_decode_gemm_sm90(struct launch_list *list, const struct decode_gemm *p);
/* Copies p->rows to p->operand. */
void launch_decode_operand(struct launch_list *list, const struct decode_gemm *p);
/* The same for one long MXFP4 matrix (the LM head), without the RoPE epilogue. */
bool launch_decode_head(struct launch_list *list, const struct decode_gemm *p);

/* Stage attn_qkv for heads of DECODE_HEAD_WIDTH and a KV cache of F32 or BF16. */
struct decode_qkv {
    struct decode_rows rows;
    const unsigned char *units[3]; /* of q, k and v */
    struct decode_vector bias[3];
    float *q;
    char *pages;          /* of the KV cache */
    const float *cos_sin; /* as made by launch_cos_sin() */
    const struct batch *batch;
    int64_t kv_half_bytes; /* keys or values of one head in a page */
    int32_t n_q, n_kv;     /* heads */
    int32_t n_tokens;
    enum page_group group;
    bool is_mxfp4, is_cache_bf16;
    uint64_t *router_sums;          /* (T, ROUTER_ROW_SUMS) to be zeroed; NULL: nothing to zero */
    const struct rank_peers *peers; /* device memory: rows.sums are those of one rank, and the
                                     * kernel exchanges them; NULL: of all */
    int32_t *totals;                /* (T, n): with peers, rows.sums of all ranks are stored here */
    int32_t exchange;               /* index of the exchange with peers in its step */
};
/* With peers and list->is_query it returns whether all blocks are active at once, which their waits
 * need. */
bool launch_decode_qkv(struct launch_list *list, const struct decode_qkv *p);

/* Stage router for any number of rows: matrix multiplication by columns, then top-k. */
struct decode_router {
    const float *x; /* (T, n) */
    int32_t n;
    struct decode_vector norm; /* F32 or BF16: the rows are norm(x); VECTOR_NONE: they are x */
    const float
        *factors; /* (T): factors of that norm; NULL without a norm, or if the kernel does the
                  * residual add and norm */
    struct decode_matrix w; /* BF16 */
    struct decode_vector bias;
    float *router_logits; /* (T, n_experts) */
    int32_t *ids;         /* (T, A) */
    float *gates;         /* (T, A) */
    int32_t n_tokens, n_experts, n_ranks;
    const int32_t *n_live; /* as in struct decode_gemm */
};
/* Where decode_router_fits() returns true. */
bool launch_decode_router(struct launch_list *list, const struct decode_router *p);
/* Whether the GPU has clusters, and the shared memory for both forms of the kernel. */
bool decode_router_fits(struct launch_list *list, const struct decode_router *p);

/* Residual add and RMSNorm before the router, fused into its kernel: x += h, y = norm(x), and y as
 * FP16 in whole units. */
struct decode_rmsnorm {
    const float *h;
    float *x, *y;
    uint16_t *normed;          /* NULL: not stored */
    struct decode_vector norm; /* F32 or BF16 */
    float eps;
};
/* The rows of p are x. Supported wherever launch_decode_router() supports p. */
void launch_decode_rmsnorm_router(struct launch_list *list, const struct decode_router *p,
                                  const struct decode_rmsnorm *rmsnorm);

/* rows.cu: launch_residual_rmsnorm() if `adds`, otherwise launch_rmsnorm(). With `factors` the norm
 * is computed from partial sums of squares (partial_norm.cuh), and the factors of all rows are
 * stored there; rows then have at most DECODE_WIDTH_MAX columns. */
void launch_rmsnorm_factors(struct launch_list *list, const struct residual_rmsnorm_args *a,
                            bool adds, int n_rows, const int32_t *n_live, uint16_t *rounded,
                            int n_rounded, float *factors);

/* Stages router (after its matrix multiplication) and experts, MXFP4 weights. */
struct decode_experts {
    struct decode_matrix up, down;
    struct decode_vector bias_up, bias_down;
    float *y; /* (T, n_columns); written by the up kernel if topk_input has sums */
    const float *router_logits; /* (T, n_experts); grouped: NULL if ids and gates are known */
    uint16_t *units;            /* (T*A, n_units) FP16: workspace */
    float *x, *h;               /* (T, n_columns): adds to x; x NULL: stores in h */
    int32_t *ids;               /* (T, A) */
    float *gates;               /* (T, A) */
    uint64_t *n_read;           /* experts whose weights were read, accumulated over all calls */
    int32_t n_tokens, n_ranks, n_experts, n_columns, n_units;
    int32_t slice_units; /* of expert_sums.h: units of 64 columns of a slice */
    bool is_raw; /* x NULL: h gets the integer sums, which other ranks add to, in place of floats;
                  * EXPERT_SUM_POISONED in a row that is poisoned */
    const int32_t *n_live; /* grouped: as in struct decode_gemm */
    float limit, alpha;
    struct decode_topk_input topk_input; /* grouped: of launch_decode_few_jobs() */
    const float *grid; /* (2, n_columns): scales and units of the integer sums, then shifts:
                        * common/expert_sums.h */
    int32_t *poison;   /* (T): rows with a unit that is not finite (expert_sums.cuh); 0 between
                        * steps; grouped: only with sums */
    int32_t *sums;     /* (T, n_columns): of launch_decode_experts_row() and, unless NULL, of
                        * launch_decode_grouped_down(), which add to them */
};
/* Both products of one row whose router sums are known; adds to p->sums. Returns false if the GPU
 * does not run all clusters of the kernel at once. */
bool launch_decode_experts_row(struct launch_list *list, const struct decode_experts *p);
/* x (n_rows, n) += the sums. */
void launch_add_expert_sums(struct launch_list *list, float *x, int n_rows, int n,
                            const struct expert_sums *sums);
bool launch_decode_up(struct launch_list *list, const struct decode_experts *p);
bool launch_decode_down(struct launch_list *list, const struct decode_experts *p);
bool decode_down_fits(struct launch_list *list, const struct decode_experts *p);

/* The same with tokens grouped by expert. */
enum {
    DECODE_JOB_TOKENS = 8,
    DECODE_SHARES_MAX = 256 /* blocks of launch_decode_grouped_wide(), one per SM */
};
struct decode_job {
    int32_t expert, first, n;          /* entries [first, first + n) */
    int32_t row;                       /* the first one's row of the operand, where there is one */
    int32_t tokens[DECODE_JOB_TOKENS]; /* (n): the tokens of the entries; not with an operand */
};
struct decode_grouped {
    struct decode_experts e;
    const uint16_t *rows;    /* of e.y, as made by launch_round_rows() for MXFP4 weights */
    uint16_t *normed;        /* y in the format of `rows`; NULL: not stored */
    int32_t n_normed_rows;   /* combine: `normed` is an operand of that many rows; 0: rows */
    int32_t *parts;          /* (T*A, n_columns): integer sums (expert_sums.h), unless e.sums has
                              * those of tokens */
    int32_t *n_jobs;         /* (1) */
    struct decode_job *jobs; /* (T*A) */
    int32_t *entry;          /* (T*A): the entry of token t at rank a */
    int32_t *entry_tokens;   /* (T*A): the token of an entry; with e.sums */
    float *entry_gates;      /* (T*A): of entries; NaN: the entry has a unit that is not finite */
    int32_t job_tokens;      /* maximum per job, set by decode_grouped_fits() */
    /* Where decode_grouped_sm90_fits(): operands (common/operand.h) of n_operand_rows rows. The
     * entries of an expert are adjacent rows, from a multiple of OPERAND_ALIGN_ROWS on. */
    char *operand, *units_operand; /* y of the entries; their gated units */
    int32_t *place;                /* (T*A): the operand row of token t at rank a */
    int32_t n_operand_rows;
    /* Where decode_grouped_wide_fits(): the first item of each block, and the number of items
     * (job_shares.h), of up and then of down; NULL: blocks have equal numbers of items. */
    int32_t *shares;    /* (2, n_shares + 1) */
    int32_t n_shares;   /* blocks */
    int32_t n_parts[2]; /* items of a job, of up and of down */
};
void launch_decode_expert_jobs(struct launch_list *list, const struct decode_grouped *p);
/* The same for at most DECODE_FUSED_MAX rows whose router sums are known (e.topk_input); it also
 * stores the norms of the rows in e.y and p->normed. */
void launch_decode_few_jobs(struct launch_list *list, const struct decode_grouped *p);
/* Copies p->rows to the operand rows of their entries. */
void launch_decode_expert_operand(struct launch_list *list, const struct decode_grouped *p);
bool launch_decode_grouped_up(struct launch_list *list, const struct decode_grouped *p);
bool launch_decode_grouped_down(struct launch_list *list, const struct decode_grouped *p);
/* Returns whether the GPU has enough shared memory for these, and sets the maximum number of tokens
 * per job. */
bool decode_grouped_fits(struct launch_list *list, struct decode_grouped *p);
/* The same by wgmma, for more tokens per job; Hopper only. Rows and units fill whole units of
 * columns. */
void launch_decode_grouped_sm90(struct launch_list *list, const struct decode_grouped *p,
                                bool is_up);
bool decode_grouped_sm90_fits(struct launch_list *list, struct decode_grouped *p);
/* The same by mma.sync, for jobs of up to 24 tokens, with blocks that have equal shares of the cost
 * of all jobs; Hopper only. It also sets n_shares and n_parts. */
void launch_decode_grouped_wide(struct launch_list *list, const struct decode_grouped *p,
                                bool is_up);
bool decode_grouped_wide_fits(struct launch_list *list, struct decode_grouped *p);
/* launch_decode_rmsnorm_router() and launch_decode_expert_jobs() in one kernel. Returns false for
 * more than eight rows or 32 entries, and where jobs have fewer tokens than there are rows. */
bool launch_decode_router_jobs(struct launch_list *list, const struct decode_router *p,
                               const struct decode_rmsnorm *rmsnorm,
                               const struct decode_grouped *jobs);
/* Adds the expert outputs of each token (parts) to e.x, and stores their
 * RMSNorm by rows.norm in rows.y; e.x NULL: stores the sum in e.h. */
void launch_decode_combine(struct launch_list *list, const struct decode_grouped *p,
                           const struct decode_rows *rows);

#ifdef __cplusplus
}
#endif
#endif
