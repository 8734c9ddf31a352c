/* The inner loops of the CPU stages: one table of kernels for each ISA, selected at run time by
 * isa.c. A kernel runs in one thread on whole rows; the stages divide the work into tiles and
 * distribute them over threads.
 *
 * The length of a row, or of a slice of it, alone fixes the order of each sum. So a row's result
 * does not depend on the number of rows, tokens or threads. */
#ifndef CPU_KERNELS_KERNELS_H
#define CPU_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/tensor.h"
#include "base/status.h"

/* n_rows contiguous rows of n floats. */
struct rows {
    const float *data;
    int n_rows, n;
};

/* Divides the columns of a matmul into slices of equal size, but the last one, each with sums of
 * its own (backend/residual_sum.h): slice s has its sums at out + s * stride. {0}: one slice. */
struct slices {
    int size;       /* columns of a slice, or blocks of 32 columns with MXFP4 weights */
    int64_t stride; /* floats */
};

/* The end of the slice that begins at column or block `first` of n. */
static inline int slice_end(struct slices s, int first, int n)
{
    return s.size == 0 || n - first < s.size ? n : first + s.size;
}

/* out[t * out_stride + r] = w[r] . x[t] for each slice, a multiple of 64 columns */
struct gemm {
    float *out;
    int64_t out_stride;
    const void *w;         /* n_rows contiguous rows of n weights */
    const float *const *x; /* n_x rows of n floats */
    int n_rows, n, n_x;
    struct slices slices;
};

/* ---- MXFP4 weights times int8 activations ----
 *
 * Weights are packed in groups of 16 rows. A block of 32 columns is four vectors of 64 bytes. Dword
 * r of a vector belongs to row r; vector v has columns 8v .. 8v + 7: the low nibbles of the dword's
 * four bytes are the first four columns, the high nibbles the others. Each run of four blocks (or
 * fewer at the end) follows a cache line with their E8M0 block scales, 16 a block, so that a group
 * is one sequential stream. One 512-bit register, two of 256 or four of 128 bits read the same
 * bytes.
 *
 * Activations are int8 with a float scale for each block of 32. Integer sums within a block are
 * exact. Sums of blocks are accumulated in float32, one fused multiply-add a block, in the order of
 * the columns: the bits do not depend on the number of tokens. */
enum {
    GROUP_ROWS = 16,
    GROUP_BLOCK_BYTES = 256,
    GROUP_LINE_BLOCKS = 4, /* blocks whose scales share a cache line */
    GROUP_LINE_BYTES = GROUP_LINE_BLOCKS * GROUP_ROWS
};

/* Byte offset of a block's codes in its group, and of its scales. */
static inline ptrdiff_t group_codes_at(int block)
{
    return (ptrdiff_t)block * GROUP_BLOCK_BYTES +
           (ptrdiff_t)((unsigned)block / GROUP_LINE_BLOCKS + 1) * GROUP_LINE_BYTES;
}

static inline ptrdiff_t group_scales_at(int block)
{
    const unsigned line = (unsigned)block / GROUP_LINE_BLOCKS;

    return (ptrdiff_t)line * (GROUP_LINE_BLOCKS * GROUP_BLOCK_BYTES + GROUP_LINE_BYTES) +
           (ptrdiff_t)((unsigned)block % GROUP_LINE_BLOCKS) * GROUP_ROWS;
}

static inline ptrdiff_t group_bytes(int n_blocks)
{
    return n_blocks == 0 ? 0 : group_codes_at(n_blocks - 1) + GROUP_BLOCK_BYTES;
}

struct int8_block {
    float scale;  /* of the activations, times 1/2 for the weights, which are stored as 2 e2m1 */
    int32_t bias; /* initial value of the integer sum; its meaning depends on the ISA */
};
/* An outlier: an activation far above the rest of its row. Its code in the int8 block is 0, and its
 * product is computed separately. */
struct int8_outlier {
    int32_t step;    /* its four columns: 4 step .. 4 step + 3 */
    int8_t codes[4]; /* codes of these columns: 127 or -127 for the outlier, else 0 */
    struct int8_block block;
};
struct int8_row {
    const int8_t *codes; /* (n_blocks, 32) */
    const struct int8_block *blocks;
    const struct int8_outlier *outliers; /* (n_outliers), in rising order of step */
    int n_outliers;
};

enum {
    INT8_INTERLEAVED_ROWS = 8,   /* rows of a tile that interleave_int8() makes */
    INT8_INTERLEAVED_BYTES = 40, /* bytes of a row and block */
    INT8_INTERLEAVED_MIN = 5     /* fewer rows: weights are expanded in registers */
};
enum { INT8_X_MAX = 128 }; /* the most rows of a call */

/* For each slice, out[t * 16 + r] = w[r] . x[t] for one group: the sum over the blocks plus the sum
 * over the outliers, which is accumulated separately in the order of the list. One token may be
 * multiplied with several groups in one call: then `out` has 16 sums of each group, one group after
 * the other. */
enum { GROUPS_AT_ONCE = 4 };
struct int8_gemm {
    float *out;
    struct slices slices;
    const uint8_t *groups[GROUPS_AT_ONCE];
    const uint8_t *next; /* with one group: the next call's, to prefetch */
    const struct int8_row *x;
    /* Tiles of the same rows from interleave_int8(), contiguous, or NULL. If not NULL, out must
     * have space for all rows of whole tiles, in each slice. */
    const void *interleaved;
    int n_blocks, n_x;
    int n_groups;      /* 1, or with n_x = 1 up to GROUPS_AT_ONCE */
    bool has_prefetch; /* of several groups; see kernels_want_prefetch() */
};

/* ---- BF16 weights times bf16 activations ----
 *
 * Activations are rounded to bf16. A rounded row has bf16_row_columns() elements, zero-padded. A
 * panel is 16 such rows in a layout of the ISA, as large as the rows. */
struct bf16_act_gemm {
    float *out; /* as in struct gemm */
    int64_t out_stride;
    const void *w;            /* n_rows <= 16 rows of n bf16 weights, of any alignment */
    const uint16_t *const *x; /* n_x rows of bf16 */
    const uint16_t *panels;   /* of the same rows, whose first one starts a panel; or NULL */
    int n_rows, n, n_x;
    struct slices slices;
};
/* ---- packed MXFP4 weights times bf16 activations ----
 * For each slice, out[(g * n_x + t) * 16 + r] = w[g][r] . x[t] for n_groups contiguous groups of
 * packed MXFP4 and permuted rows: rounded to bf16, with the columns of every eight in the order 0 2
 * 4 6 1 3 5 7. */
struct permuted_gemm {
    float *out;
    struct slices slices;
    const uint8_t *groups; /* group_bytes each */
    int64_t group_bytes;
    const uint16_t *x; /* n_x rows, x_stride elements from one to the next */
    int64_t x_stride;
    int n_groups, n_blocks, n_x;
};
enum { ROUNDED_ALIGN = 32, PANEL_ROWS = 16, PERMUTED_TOKENS_MAX = 32 /* n_x */ };
static inline int bf16_row_columns(int n)
{
    return (n + ROUNDED_ALIGN - 1) / ROUNDED_ALIGN * ROUNDED_ALIGN;
}

/* ---- fixed-point sums ----
 *
 * The terms of the residual stream are sums of whole numbers, which have no order;
 * backend/residual_sum.h is the definition. A sum with a partial that is not finite or too large is
 * SUM_NAN, which no other sum can be. */
#define SUM_NAN INT64_MIN

/* out[t * out_stride + r] = the sum over s of the partials gates[t] * slices[s][t][r], for n_rows
 * rows r, or all 16. The bias is in slice 0. */
struct slice_sums {
    int64_t *out;
    int64_t out_stride;
    const float *slices; /* (n_slices, n_x, 16), slice_stride floats from a slice to the next */
    int64_t slice_stride;
    const float *gates; /* (n_x); NULL = all 1 */
    int n_slices, n_x, n_rows;
};

struct swiglu {
    float limit, alpha;
};

/* Online softmax of one row and head: the largest score so far, and the sum of exp(score -
 * largest). */
struct softmax {
    float largest, denominator;
};

/* The query heads of one row that share a key/value head, against the keys of one page that the row
 * sees. backend/kv_page.h has the layout of a page. Updates the running sums as online softmax
 * does. During these calls `largest` is in base 2: score / ln 2. */
struct attend {
    const float *q;          /* (n_heads, D) */
    const int16_t *codes;    /* with attend_i16(), in place of q: (n_heads, W), from codes_i16() */
    const float *q_scales;   /* with attend_i16(): (n_heads), the value of one code unit */
    struct softmax *states;  /* (n_heads) */
    float *acc;              /* (n_heads, W) f32: sums of weighted values */
    const void *sides[2];    /* words of keys and of values: F32, BF16 or I16 */
    const float *scales[2];  /* (P) each, of keys and of values; NULL = no scales */
    const char *prefetch[2]; /* keys and values to prefetch for the next call; or NULL */
    int n_prefetch_lines;    /* cache lines of each of `prefetch` */
    int n_heads, head_dim;
    int first, end; /* slots of the page that the row sees: 0 <= first < end <= P */
    float scale;
    bool is_bf16;
};

struct kernels {
    const char *name;
    /* out[i] = in[i] for n bf16 weights of any alignment. */
    void (*widen_bf16)(float *out, const void *in, int64_t n);
    void (*dequant_mxfp4)(float *out, const uint8_t *blocks, const uint8_t *scales, int64_t n);
    /* Both give the same bits for equal values. gemm_bf16 may be NULL: then widen to f32 first. */
    void (*gemm_f32)(const struct gemm *p);
    void (*gemm_bf16)(const struct gemm *p);
    /* Both are NULL if the ISA has no int8 dot products; then MXFP4 stays as the checkpoint stores
     * it. */
    void (*quantise)(int8_t *codes, struct int8_block *blocks, const float *x, int n_blocks);
    void (*gemm_int8)(const struct int8_gemm *p);
    /* Interleaves n_x <= INT8_INTERLEAVED_ROWS rows into a tile in the layout of the ISA; a partial
     * tile has the size of a full one. NULL: the ISA does not use tiles. A product has the same
     * bits with tiles and without. */
    void (*interleave_int8)(void *tile, const struct int8_row *x, int n_x, int n_blocks);
    /* acc += sum over r of p[r] * v[r], in the order of r. */
    void (*weighted_sum)(float *acc, struct rows v, const float *p);
    /* x[i] *= factor; returns the largest of them and of `largest`. If one is NaN, the result may
     * be any of them: exp_sum() propagates the NaN. */
    float (*scale)(float *x, int n, float factor, float largest);
    /* x[i] = exp(x[i] - shift); returns their sum. */
    float (*exp_sum)(float *x, int n, float shift);
    void (*sum_slices)(const struct slice_sums *p);
    /* out[i] = the value of sums[0][i] + sums[1][i] + ..; NaN if one of them is SUM_NAN. */
    void (*sum_values)(float *out, const int64_t *const *sums, int n_sums, int n);
    /* out = x / sqrt(mean(x^2) + eps) * weight */
    void (*norm)(float *out, const float *x, const float *weight, int n, float eps);
    /* out[i] from gate g = u[2i] and up u = u[2i + 1]: g sigmoid(alpha g) (u + 1), with g <= limit
     * and |u| <= limit */
    void (*swiglu)(float *out, const float *u, int n, struct swiglu s);
    /* All three are NULL if the ISA has no attention kernels: keys and values are then widened to
     * plain f32 rows. `first` and `end` alone fix the order of each sum. */
    void (*attend)(const struct attend *a);
    /* Widens n_rows rows of 16 words of F8 to words of F32: row r becomes rows 4r to 4r + 3. */
    void (*widen_f8)(float *out, const void *words, int n_rows);
    /* The same for I16: row r becomes rows 2r and 2r + 1. */
    void (*widen_i16)(float *out, const void *words, int n_rows);
    /* Both are NULL if the ISA widens I16 pages. `first` and `end` alone fix the bits here too. */
    void (*attend_i16)(const struct attend *a);
    /* Quantizes the heads of a query to codes, W each, zero-padded beyond D; the norm of a head's
     * codes is at most KV_I16_NORM. */
    void (*codes_i16)(int16_t *codes, float *q_scales, const float *x, int n_heads, int head_dim);
    /* Both are NULL if the ISA multiplies BF16 weights with float32 activations. A product has the
     * same bits with panels and without. */
    void (*round_bf16)(uint16_t *out, const float *x, int n);
    void (*gemm_bf16_act)(const struct bf16_act_gemm *p);
    /* Makes the panel of n_rows <= 16 contiguous bf16 rows; NULL: the ISA does not use panels. */
    void (*panel_bf16)(uint16_t *panel, const uint16_t *rows, int n_rows, int n);
    /* Both are NULL if the ISA multiplies packed MXFP4 with int8 activations only. */
    void (*round_permuted)(uint16_t *out, const float *x, int n);
    void (*gemm_permuted)(const struct permuted_gemm *p);
};

extern const struct kernels kernels_ref;

/* One element of sum_slices() as "ref" computes it, for large partials, and one of sum_values(),
 * for the last elements of other ISAs. */
int64_t sum_slices_ref(const struct slice_sums *p, int token, int row);
float sum_value_ref(const int64_t *const *sums, int n_sums, int i);

/* Dequantizes rows of MXFP4, as "ref" does. ISAs that pack MXFP4 need it for single rows only. */
void dequant_mxfp4_ref(float *out, const uint8_t *blocks, const uint8_t *scales, int64_t n);

/* Lists the ISAs that this CPU supports, the fastest last, and returns their number. `out` has
 * space for KERNEL_ISAS_MAX. */
enum { KERNEL_ISAS_MAX = 8 };
int kernels_available(const struct kernels *out[KERNEL_ISAS_MAX]);

/* Whether software prefetching speeds up several sequential streams of memory. That depends on the
 * hardware prefetchers of the CPU and not on the ISA: false on AMD, true on all others. */
bool kernels_want_prefetch(void);

/* Selects the ISA with this name. NULL or "": the value of OSPREY_CPU_FEATURES, or else the
 * fastest. OSP_EINVAL: unknown, or not supported by this CPU; the message lists those that are. */
CHECKED enum osp_status kernels_select(const struct kernels **out, const char *isa);

#endif
