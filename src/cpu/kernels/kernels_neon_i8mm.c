/* ISA "neon-i8mm": as "neon", but many tokens by smmla, which multiplies two rows of eight bytes
 * with two others: 32 products an instruction where sdot has 16. Sums of 32 products are exact, so
 * a token has the same bits with both instructions.
 *
 * A vector of sums has rows r and r + 1 times tokens t and t + 1: (r, t), (r, t+1), (r+1, t), (r+1,
 * t+1). */
#include "cpu/kernels/kernels_neon.h"

static void i8mm_gemm_int8(const struct int8_gemm *p);
#define ISA_GEMM_INT8 i8mm_gemm_int8
#include "cpu/kernels/kernels_int8.h"

enum {
    PAIRS = GROUP_ROWS / 2,
    EIGHTS = 4, /* runs of eight columns in a block */
    QUAD = 4    /* tokens of the register tile: 16 vectors of sums */
};

/* One block of an expanded chunk: a vector has eight columns of two rows. */
struct paired {
    bytes w[EIGHTS][PAIRS];
    fvec scales[PARTS];
};

static void expand_pairs(struct paired *out, const struct int8_gemm *p, int first, int n)
{
    for (int b = 0; b < n; b++) {
        const uint8_t *codes = p->groups[0] + group_codes_at(first + b);

        for (int v = 0; v < EIGHTS; v++)
            for (int h = 0; h < PARTS; h++) {
                bytes both;
                int32x4_t low, high;

                memcpy(&both, codes + v * 64 + h * (int)sizeof(both), sizeof(both));
                low = vreinterpretq_s32_s8(expand_low(both));
                high = vreinterpretq_s32_s8(expand_high(both));
                out[b].w[v][2 * h] = vreinterpretq_s8_s32(vzip1q_s32(low, high));
                out[b].w[v][2 * h + 1] = vreinterpretq_s8_s32(vzip2q_s32(low, high));
            }
        for (int h = 0; h < PARTS; h++)
            out[b].scales[h] = scales_of(p->groups[0] + group_scales_at(first + b) + h * LANES);
    }
}

/* Eight columns of each of two tokens. */
INLINE bytes two(const int8_t *a, const int8_t *b)
{
    return vcombine_s8(vld1_s8(a), vld1_s8(b));
}

/* A token's sums of four rows, from the sums of two row pairs; `token` is 0 or 1, its place in the
 * token pair. */
INLINE ivec one_token(int32x4_t a, int32x4_t b, int token)
{
    return (ivec)(token == 0 ? vuzp1q_s32(a, b) : vuzp2q_s32(a, b));
}

/* A segment times up to four tokens from token x on; accumulates in s->out. Missing tokens are
 * copies of the last one, and their results are dropped. */
INLINE void quad_tile(const struct int8_gemm *p, const struct paired *e, const struct segment *s,
                      int x, int n_x)
{
    const int8_t *codes[QUAD];
    const struct int8_block *blocks[QUAD];
    fvec acc[QUAD][PARTS];

    for (int t = 0; t < QUAD; t++) {
        const int token = x + (t < n_x ? t : n_x - 1);

        codes[t] = p->x[token].codes + (ptrdiff_t)s->first * 32;
        blocks[t] = p->x[token].blocks + s->first;
        for (int h = 0; h < PARTS; h++)
            acc[t][h] =
                s->is_start ? all_v(0) : load_v(s->out + (ptrdiff_t)token * GROUP_ROWS + h * LANES);
    }
    for (int b = 0; b < s->n; b++) {
        int32x4_t sum[PAIRS][QUAD / 2];

        UNROLL
        for (int i = 0; i < PAIRS; i++)
            sum[i][0] = sum[i][1] = vdupq_n_s32(0);
        UNROLL
        for (int v = 0; v < EIGHTS; v++) {
            const ptrdiff_t at = (ptrdiff_t)b * 32 + 8 * v;
            const bytes a0 = two(codes[0] + at, codes[1] + at);
            const bytes a1 = two(codes[2] + at, codes[3] + at);

            UNROLL
            for (int i = 0; i < PAIRS; i++) {
                sum[i][0] = vmmlaq_s32(sum[i][0], e[b].w[v][i], a0);
                sum[i][1] = vmmlaq_s32(sum[i][1], e[b].w[v][i], a1);
            }
        }
        UNROLL
        for (int t = 0; t < QUAD; t++) {
            ivec rows[PARTS];

            UNROLL
            for (int h = 0; h < PARTS; h++)
                rows[h] = one_token(sum[2 * h][t / 2], sum[2 * h + 1][t / 2], t % 2);
            add_block(acc[t], rows, e[b].scales, blocks[t][b].scale);
        }
    }
    for (int t = 0; t < n_x; t++)
        for (int h = 0; h < PARTS; h++)
            store_v(s->out + (ptrdiff_t)(x + t) * GROUP_ROWS + h * LANES, acc[t][h]);
}

static void i8mm_gemm_int8(const struct int8_gemm *p)
{
    struct paired chunk[CHUNK_BLOCKS];

    if (p->n_x <= SMALL_M_MAX) {
        isa_gemm_int8(p);
        return;
    }
    for (int first = 0; first < p->n_blocks; first += CHUNK_BLOCKS) {
        const int n_left = p->n_blocks - first, n = n_left < CHUNK_BLOCKS ? n_left : CHUNK_BLOCKS;

        expand_pairs(chunk, p, first, n);
        for (int b = first; b < first + n;) {
            const struct segment s = segment_at(p, b, first, first + n);

            for (int x = 0; x < p->n_x; x += QUAD)
                quad_tile(p, chunk + s.at, &s, x, p->n_x - x < QUAD ? p->n_x - x : QUAD);
            b += s.n;
        }
    }
    isa_outliers_int8(p);
}

extern const struct kernels kernels_neon_i8mm;
const struct kernels kernels_neon_i8mm = {.name = "neon-i8mm", ISA_FUNCTIONS, ATTN_FUNCTIONS};
