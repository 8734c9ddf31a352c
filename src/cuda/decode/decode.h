/* Decode steps: products that norm their inputs, and what follows a product, in one kernel each.
 * Every kernel asks for its weights before it waits for the kernel in front of it, where it
 * knows them.
 *
 * Arguments hold what a kernel needs and no more: they, and the code, are read anew by every
 * kernel of a step, behind all the weights that went through the caches since. Launchers as in
 * launch.h: they put kernels into the stream, the caller asks for errors. They give whether the
 * card has the shared memory for it; without, nothing is launched. */
#ifndef CUDA_DECODE_DECODE_H
#define CUDA_DECODE_DECODE_H

#include "cuda/common/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DECODE_FUSED_MAX = 4,     /* rows of a step whose entries have blocks of their own */
    DECODE_ROWS_MAX = 256,    /* of a step that these kernels take */
    DECODE_RMSNORM_MAX = 64,  /* whose join the router's kernel does: more do not run at once */
    DECODE_EXPERTS_MAX = 128, /* four scores a lane */
    DECODE_ACTIVE_MAX = 8,
    DECODE_WIDTH_MAX = 3072, /* columns of a row that a block norms in registers */
    DECODE_COLUMNS_OF = 8,   /* rows of inputs are read in pieces of as many numbers */
    DECODE_HEAD_WIDTH = 64   /* a head is a row of units: its rotation stays in a block */
};

/* A packed matrix, or a stack of them. */
struct decode_matrix {
    const unsigned char *units;
    int64_t matrix_bytes;    /* from one to the next */
    int32_t n_rows, n_units; /* rows; units beside each other */
};

enum decode_vector_type { VECTOR_NONE, VECTOR_F32, VECTOR_BF16, VECTOR_PACKED };

/* A vector, or a stack of them: (matrices, n). */
struct decode_vector {
    const void *data;
    enum decode_vector_type kind;
    int32_t n; /* elements, or, packed, units beside each other */
};

/* Inputs of a product. */
struct decode_rows {
    const float *x;        /* rows of n floats */
    const int32_t *gather; /* token i is row gather[i * gather_stride] of x; NULL: row i */
    int32_t gather_stride, n;
    struct decode_vector norm; /* rows are normed before they are used; VECTOR_NONE: they are not */
    float eps;
    float *y; /* where the normed rows are left as well, NULL: nowhere */
};

/* out[token][row] = w[row] . x[token] + bias[row], or that is added to out. */
struct decode_matmul {
    struct decode_rows rows;
    struct decode_matrix w;
    struct decode_vector bias;
    float *out;
    int32_t out_width; /* floats from a token's row to the next */
    int32_t n_tokens;
    bool is_mxfp4, adds;
    bool is_exact; /* BF16 weights: inputs as sums of three bf16 numbers */
};
bool launch_decode_matmul(struct launch_list *list, const struct decode_matmul *p);
/* What that would give. */
bool decode_matmul_fits(struct launch_list *list, const struct decode_matmul *p);

/* Where the router's products of generated rows are done by columns (router.cuh): the sums that
 * a row's logits are made of, those of its squares behind them, in some copies that blocks add
 * to by turns. */
enum {
    ROUTER_COPIES = 2,
    ROUTER_SQUARES_AT = DECODE_EXPERTS_MAX,
    ROUTER_COPY_SUMS = DECODE_EXPERTS_MAX + 16, /* in whole lines */
    ROUTER_ROW_SUMS = ROUTER_COPIES * ROUTER_COPY_SUMS
};

/* Stage attn_out with the join behind it and the router's products, of DECODE_FUSED_MAX rows at
 * most: x += the product, and the router's sums of x times the norm's weights. */
struct decode_out {
    struct decode_matmul p; /* adds to x: out */
    struct decode_matrix router;
    struct decode_vector norm; /* F32 or BF16 */
    uint64_t *sums;            /* (T, ROUTER_ROW_SUMS): added to */
};
bool launch_decode_out(struct launch_list *list, const struct decode_out *p);
/* All sums to zero. */
void launch_clear_sums(struct launch_list *list, uint64_t *sums);

/* What the logits are made of by those who choose. */
struct decode_topk_input {
    const uint64_t *sums;            /* (T, ROUTER_ROW_SUMS); NULL: the logits are there */
    const float *x;                  /* (T, n_columns): what y is the norm of */
    struct decode_vector norm, bias; /* F32 or BF16; no bias: VECTOR_NONE */
    float eps;
};

/* The rows of x as FP16, where they meet MXFP4 weights, or BF16: (n_tokens, units beside each
 * other, 64). */
void launch_round_rows(struct launch_list *list, uint16_t *out, const struct decode_rows *rows,
                       int n_tokens, bool is_mxfp4);

enum { DECODE_JOBS_MAX = 3 };

/* Stage attn_qkv behind its products, whose jobs are q, k and v: heads of DECODE_HEAD_WIDTH are
 * rotated, and keys and values go to their pages, in place of out[1] and out[2]. */
struct decode_heads {
    char *pages;          /* of the cache, F32 or BF16 */
    const float *cos_sin; /* as launch_cos_sin() made them */
    const struct batch *batch;
    int64_t kv_half_bytes; /* of keys or values of a head in a page */
    int32_t n_kv;          /* heads */
    enum page_group group;
    bool is_cache_bf16;
};

/* out[job][token][row] = w[job][row] . x[token] + bias[job][row], of many tokens. */
struct decode_gemm {
    struct decode_matrix w[DECODE_JOBS_MAX]; /* all with as many columns */
    struct decode_vector bias[DECODE_JOBS_MAX];
    float *out[DECODE_JOBS_MAX];
    int32_t out_width[DECODE_JOBS_MAX]; /* floats from a token's row to the next */
    int32_t n_jobs, n_tokens;
    const uint16_t *rows; /* of x, as launch_round_rows() left them */
    bool is_mxfp4;
    struct decode_heads heads; /* pages NULL: plain products */
};
/* false: the GPU does not have the shared memory for it, and nothing is appended. */
bool launch_decode_gemm(struct launch_list *list, const struct decode_gemm *p);
/* The same of 33 to 64 tokens with MXFP4 matrices that all multiprocessors together can hold. */
bool launch_decode_smem_resident(struct launch_list *list, const struct decode_gemm *p);
/* The same of one MXFP4 matrix, without heads: made for long ones. */
bool launch_decode_head(struct launch_list *list, const struct decode_gemm *p);

/* Stage attn_qkv of heads of DECODE_HEAD_WIDTH and a cache of F32 or BF16. */
struct decode_qkv {
    struct decode_rows rows;
    const unsigned char *units[3]; /* of q, k and v */
    struct decode_vector bias[3];
    float *q;
    char *pages;          /* of the cache */
    const float *cos_sin; /* as launch_cos_sin() made them */
    const struct batch *batch;
    int64_t kv_half_bytes; /* of keys or values of a head in a page */
    int32_t n_q, n_kv;     /* heads */
    int32_t n_tokens;
    enum page_group group;
    bool is_mxfp4, is_cache_bf16;
    uint64_t *router_sums; /* (T, ROUTER_ROW_SUMS) to be zeros; NULL: none */
};
bool launch_decode_qkv(struct launch_list *list, const struct decode_qkv *p);

/* Stage route of any number of rows: products by columns, and the choice behind them. */
struct decode_router {
    const float *x; /* (T, n) */
    int32_t n;
    struct decode_vector norm; /* F32 or BF16: the rows are norm(x); VECTOR_NONE: they are x */
    const float *
        factors; /* (T): of that norm; NULL where it is none, or where the join is left to the kernel */
    struct decode_matrix w; /* BF16 */
    struct decode_vector bias;
    float *router_logits; /* (T, n_experts) */
    int32_t *ids;         /* (T, A) */
    float *gates;         /* (T, A) */
    int32_t n_tokens, n_experts, n_ranks;
};
/* Where decode_router_fits() says so. */
bool launch_decode_router(struct launch_list *list, const struct decode_router *p);
/* Whether the GPU has clusters, and the shared memory for both forms of the kernel. */
bool decode_router_fits(struct launch_list *list, const struct decode_router *p);

/* The join in front of it, by the same kernel: x += h, and y = norm(x), also as FP16 in whole
 * units. */
struct decode_rmsnorm {
    const float *h;
    float *x, *y;
    uint16_t *normed;          /* NULL: not wanted */
    struct decode_vector norm; /* F32 or BF16 */
    float eps;
};
/* p's rows are x. Where launch_decode_router() takes p, this does. */
void launch_decode_rmsnorm_router(struct launch_list *list, const struct decode_router *p,
                                  const struct decode_rmsnorm *rmsnorm);

/* rows.cu: launch_residual_rmsnorm() where `adds`, else launch_rmsnorm(); with `factors` the
 * norm is by parts (partial_norm.cuh), and leaves its factors of all rows there. Rows of
 * DECODE_WIDTH_MAX at most then. */
void launch_rmsnorm_factors(struct launch_list *list, const struct residual_rmsnorm_args *a,
                            bool adds, int n_rows, uint16_t *rounded, int n_rounded,
                            float *factors);

/* Stages route (behind the router's product) and experts, of MXFP4 weights. */
struct decode_experts {
    struct decode_matrix up, down;
    struct decode_vector bias_up, bias_down;
    float *y; /* (T, n_columns); where the choice has sums, the up product makes it */
    const float *router_logits; /* (T, n_experts); of grouped ones NULL: ids and gates are there */
    uint16_t *units;            /* (T*A, n_units) FP16: room */
    float *x, *h;               /* (T, n_columns): the result is added to x; NULL: stored in h */
    int32_t *ids;               /* (T, A) */
    float *gates;               /* (T, A) */
    uint64_t *n_read;           /* experts whose weights were read, added up over all calls */
    int32_t n_tokens, n_ranks, n_experts, n_columns, n_units;
    float limit, alpha;
    struct decode_topk_input topk_input; /* of those that are not grouped */
};
bool launch_decode_up(struct launch_list *list, const struct decode_experts *p);
bool launch_decode_down(struct launch_list *list, const struct decode_experts *p);
bool decode_down_fits(struct launch_list *list, const struct decode_experts *p);

/* The same with tokens grouped by expert. */
enum { DECODE_JOB_TOKENS = 8 };
struct decode_job {
    int32_t expert, first, n; /* entries [first, first + n) */
    int32_t reserved;
    int32_t tokens[DECODE_JOB_TOKENS]; /* (n): whose they are */
};
struct decode_grouped {
    struct decode_experts e;
    const uint16_t *rows;    /* of e.y, as launch_round_rows() left them for MXFP4 weights */
    uint16_t *normed;        /* of the join: its y in that form, too; NULL: not wanted */
    float *parts;            /* (T*A, n_columns) */
    int32_t *n_jobs;         /* (1) */
    struct decode_job *jobs; /* (T*A) */
    int32_t *entry;          /* (T*A): the entry of token t at rank a */
    int32_t job_tokens;      /* at most of a job: decode_grouped_fits() */
};
void launch_decode_expert_jobs(struct launch_list *list, const struct decode_grouped *p);
bool launch_decode_grouped_up(struct launch_list *list, const struct decode_grouped *p);
bool launch_decode_grouped_down(struct launch_list *list, const struct decode_grouped *p);
/* Whether the card has the shared memory for these; says how many tokens a job may have. */
bool decode_grouped_fits(struct launch_list *list, struct decode_grouped *p);
/* The sum of the parts, added to e.x and normed by rows.norm into rows.y; e.x NULL: stored in
 * e.h. */
void launch_decode_combine(struct launch_list *list, const struct decode_grouped *p,
                           const struct decode_rows *rows);

#ifdef __cplusplus
}
#endif
#endif
