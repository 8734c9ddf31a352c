/* The inner loops of the CPU stages as one table of functions for each ISA,
 * chosen at run time by isa.c. A kernel works on rows in one thread; threads, tiles and what is
 * multiplied with what are the stages' business.
 *
 * The order of every sum is fixed by the row's length alone, so that a row's result does not depend
 * on how many rows, tokens or threads there are. */
#ifndef CPU_KERNELS_KERNELS_H
#define CPU_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/tensor.h"
#include "base/status.h"

/* n_rows rows of n floats, one behind the other. */
struct rows {
    const float *data;
    int n_rows, n;
};

/* out[t * out_stride + r] = w[r] . x[t] */
struct gemm {
    float *out;
    int64_t out_stride;
    const void *w;         /* n_rows rows of n weights, one behind the other */
    const float *const *x; /* n_x rows of n floats */
    int n_rows, n, n_x;
};

/* ---- MXFP4 times int8 ----
 * Weights are packed by groups of 16 rows: for every block of 32 columns four vectors of 64
 * bytes, in which dword r belongs to row r and vector v to columns 8v .. 8v + 7: the low nibbles
 * of its four bytes are the first four columns, the high nibbles the others. In front of every
 * four blocks, or what is left of them at the end, a line of their E8M0 scales, 16 a block: a
 * group is read from end to end. One 512-bit register, two of 256 or four of 128 read the same
 * bytes.
 *
 * Activations are int8 with a float scale for every 32. A block's sum is exact in integers; sums
 * of blocks are added in float32, one fused multiply-add a block, in the order of the columns:
 * the same bits for any number of tokens. */
enum {
    GROUP_ROWS = 16,
    GROUP_BLOCK_BYTES = 256,
    GROUP_LINE_BLOCKS = 4, /* that a line of scales is for */
    GROUP_LINE_BYTES = GROUP_LINE_BLOCKS * GROUP_ROWS
};

/* Bytes in front of a block's codes, and of its scales. */
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
    float scale;  /* of the activations, times 1/2 for weights that are kept doubled */
    int32_t bias; /* what the ISA adds to its sum of products, in the ISA's own form */
};
/* A value that the codes leave out, since it is far above its row: its block has 0 there. */
struct int8_outlier {
    int32_t step;    /* of columns 4 step .. 4 step + 3 */
    int8_t codes[4]; /* of those: 127 or -127, and zeros */
    struct int8_block block;
};
struct int8_row {
    const int8_t *codes; /* (n_blocks, 32) */
    const struct int8_block *blocks;
    const struct int8_outlier *outliers; /* (n_outliers), rising */
    int n_outliers;
};

enum {
    INT8_INTERLEAVED_ROWS = 8,   /* of a tile of rows that interleave_int8() makes */
    INT8_INTERLEAVED_BYTES = 40, /* a row and block */
    INT8_INTERLEAVED_MIN = 5     /* rows of a call: fewer meet the weights in registers */
};
enum { INT8_X_MAX = 128 }; /* rows of a call */

/* out[t * 16 + r] = w[r] . x[t] of one group: the codes' products, and to that sum the
 * outliers', added up by themselves in the order of the list. One token may be multiplied with
 * several groups at once: out has the second's sums behind the first's, and so on. */
enum { GROUPS_AT_ONCE = 4 };
struct int8_gemm {
    float *out;
    const uint8_t *groups[GROUPS_AT_ONCE];
    const uint8_t *next; /* of one group: whose turn is next, which may be fetched meanwhile */
    const struct int8_row *x;
    /* Tiles of the same rows by interleave_int8(), one after the other, or NULL. If not NULL, out
     * must have the rows of whole tiles. */
    const void *interleaved;
    int n_blocks, n_x;
    int n_groups;      /* 1, or with n_x = 1 up to GROUPS_AT_ONCE */
    bool has_prefetch; /* of several groups, the next weights: kernels_want_prefetch() */
};

/* ---- BF16 times rounded rows ----
 * Inputs are rounded to bf16; a rounded row has bf16_row_columns() elements, the last of them
 * zeros. Panels are sixteen rows each in a form of the ISA's own, as large as those rows. */
struct bf16_act_gemm {
    float *out; /* as in struct products */
    int64_t out_stride;
    const void *w;            /* n_rows <= 16 rows of n bf16, in any alignment */
    const uint16_t *const *x; /* n_x rounded rows */
    const uint16_t *panels; /* of the same rows, the first of them the first of a panel; or NULL */
    int n_rows, n, n_x;
};
/* ---- packed MXFP4 times rounded rows ----
 * out[(g * n_x + t) * 16 + r] = w[g][r] . x[t] of n_groups groups of packed MXFP4, one behind
 * the other, and mixed rows: rounded, the columns of every eight in the order 0 2 4 6 1 3 5 7. */
struct permuted_gemm {
    float *out;
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

struct swiglu {
    float limit, alpha;
};

/* Online softmax of one row and head: the largest score so far, natural, and the sum of
 * exp(score - largest). */
struct softmax {
    float largest, denominator;
};

/* One row's heads of a group against the keys of one page that the row sees. The words of a page
 * are as backend/kv_page.h says. Adds to the sums as online softmax does; `largest` is in base 2
 * meanwhile: score / ln 2. */
struct attend {
    const float *q;          /* (n_heads, D) */
    const int16_t *codes;    /* for attend_i16() instead of q: (n_heads, W), from codes_i16() */
    const float *q_scales;   /* the same: (n_heads), what a code stands for */
    struct softmax *states;  /* (n_heads) */
    float *acc;              /* (n_heads, W) sums of weighted values */
    const void *sides[2];    /* words of keys and values: F32 or BF16, or I16 */
    const float *scales[2];  /* (P) of keys and values; NULL = 1 */
    const char *prefetch[2]; /* sides that are needed next, to be fetched meanwhile; or NULL */
    int n_prefetch_lines;    /* cache lines of each of them */
    int n_heads, head_dim;
    int first, end; /* slots: 0 <= first < end <= P */
    float scale;
    bool is_bf16;
};

struct kernels {
    const char *name;
    /* out[i] = in[i] for n weights as they lie in a checkpoint, in any alignment. */
    void (*widen_bf16)(float *out, const void *in, int64_t n);
    void (*dequant_mxfp4)(float *out, const uint8_t *blocks, const uint8_t *scales, int64_t n);
    /* Both forms give the same bits for the same values; bf16 may be NULL: widen first. */
    void (*gemm_f32)(const struct gemm *p);
    void (*gemm_bf16)(const struct gemm *p);
    /* NULL, both: the ISA has no int8 form, and MXFP4 stays as it is stored. */
    void (*quantise)(int8_t *codes, struct int8_block *blocks, const float *x, int n_blocks);
    void (*gemm_int8)(const struct int8_gemm *p);
    /* A tile of n_x <= INT8_INTERLEAVED_ROWS rows in the ISA's own form, as large as of all of
     * them. NULL: it has none. With it or without, a product has the same bits. */
    void (*interleave_int8)(void *tile, const struct int8_row *x, int n_x, int n_blocks);
    /* acc += sum over r of p[r] * v[r], in the order of r. */
    void (*weighted_sum)(float *acc, struct rows v, const float *p);
    /* x[i] *= factor; gives the largest of them and `largest`. With a NaN among them it may give
     * any of them: exp_sum() spreads the NaN. */
    float (*scale)(float *x, int n, float factor, float largest);
    /* x[i] = exp(x[i] - shift); gives their sum. */
    float (*exp_sum)(float *x, int n, float shift);
    /* out = x / sqrt(mean(x^2) + eps) * weight */
    void (*norm)(float *out, const float *x, const float *weight, int n, float eps);
    /* out[i] of gate u[2i] and up u[2i+1]: g sigmoid(alpha g) (u + 1), g <= limit, |u| <= limit */
    void (*swiglu)(float *out, const float *u, int n, struct swiglu s);
    /* NULL, all three: the ISA meets keys and values as plain rows. The order of every sum is
     * fixed by first and end. */
    void (*attend)(const struct attend *a);
    /* Rows of 16 words of F8 as words of F32: row r becomes the rows 4r to 4r + 3. */
    void (*widen_f8)(float *out, const void *words, int n_rows);
    /* The same of I16: row r becomes the rows 2r and 2r + 1. */
    void (*widen_i16)(float *out, const void *words, int n_rows);
    /* NULL, both: pages of I16 are widened. The bits are fixed in the same way. */
    void (*attend_i16)(const struct attend *a);
    /* Heads of a query as codes, W of them each, those behind D zeros; the root of a head's sum of
     * squares is KV_I16_NORM at most. */
    void (*codes_i16)(int16_t *codes, float *q_scales, const float *x, int n_heads, int head_dim);
    /* NULL, both: the ISA multiplies BF16 weights with float32 rows. With panels or without, a
     * product has the same bits. */
    void (*round_bf16)(uint16_t *out, const float *x, int n);
    void (*gemm_bf16_act)(const struct bf16_act_gemm *p);
    /* The panel of n_rows <= 16 rounded rows, one behind the other; NULL: the ISA has none. */
    void (*panel_bf16)(uint16_t *panel, const uint16_t *rows, int n_rows, int n);
    /* NULL, both: packed MXFP4 meets int8 rows. */
    void (*round_permuted)(uint16_t *out, const float *x, int n);
    void (*gemm_permuted)(const struct permuted_gemm *p);
};

extern const struct kernels kernels_ref;

/* Levels whose MXFP4 is packed widen only single rows, with the loop of "ref". */
void dequant_mxfp4_ref(float *out, const uint8_t *blocks, const uint8_t *scales, int64_t n);

/* The ISAs that this machine runs, the best last; gives their number. `out` has room for
 * KERNEL_ISAS_MAX. */
enum { KERNEL_ISAS_MAX = 8 };
int kernels_available(const struct kernels *out[KERNEL_ISAS_MAX]);

/* Whether runs of memory that are read side by side come sooner when software asks for them,
 * too. A matter of the CPU's own prefetchers, not of the ISA: no on AMD's, yes on all others. */
bool kernels_want_prefetch(void);

/* The ISA of that name; NULL or "": what OSPREY_CPU_FEATURES says, or else the best. OSP_EINVAL
 * for a name that is not known, or not here, with those that are. */
CHECKED enum osp_status kernels_select(const struct kernels **out, const char *isa);

#endif
