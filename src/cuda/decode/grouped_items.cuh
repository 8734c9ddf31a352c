/* What the grouped MoE kernels of a decode step with many rows (decode_grouped_sm90.cu,
 * decode_grouped_wide.cu) share besides the ring (decode_sm90.cuh): the items of jobs, and the
 * epilogues of the up and down products. */
#ifndef CUDA_DECODE_GROUPED_ITEMS_CUH
#define CUDA_DECODE_GROUPED_ITEMS_CUH

#include "cuda/common/swiglu.cuh"
#include "cuda/decode/decode_sm90.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Items of all jobs, split among the blocks evenly, or by p.shares. */
template <bool IS_UP, class SHAPE, bool BY_SHARES = false> struct job_items {
    const struct decode_grouped &p;
    const struct decode_matrix &w;
    int first, end, n_rows, n_parts; /* n_rows: rows of units; n_parts: items of a job */
    int4 head; /* of the item's job: expert, first entry, number of entries, first operand row */
    int first_row;

    __device__ __forceinline__ explicit job_items(const struct decode_grouped &p_)
        : p(p_), w(IS_UP ? p_.e.up : p_.e.down)
    {
        n_rows = (w.n_rows + UNIT_ROWS - 1) / UNIT_ROWS;
        n_parts = (n_rows + SHAPE::ROWS - 1) / SHAPE::ROWS;
        if (BY_SHARES) {
            const int32_t *share = p.shares + (IS_UP ? 0 : gridDim.x + 1) + blockIdx.x;

            first = __ldcg(share);
            end = __ldcg(share + 1);
        } else {
            const int64_t n = (int64_t)__ldcg(p.n_jobs) * n_parts;

            first = (int)(n * blockIdx.x / gridDim.x);
            end = (int)(n * (blockIdx.x + 1) / gridDim.x);
        }
    }
    __device__ __forceinline__ int4 head_of(int item) const
    {
        return __ldcg((const int4 *)(p.jobs + item / n_parts));
    }
    __device__ __forceinline__ void begin(int item)
    {
        head = head_of(item);
        first_row = item % n_parts * SHAPE::ROWS;
    }
    /* Row i of the item; those past the end repeat the last, and nothing is stored for them. */
    __device__ __forceinline__ const unsigned char *units(int i) const
    {
        return w.units + head.x * w.matrix_bytes +
               (int64_t)min(first_row + i, n_rows - 1) * w.n_units * MXFP4_UNIT_BYTES;
    }
    __device__ __forceinline__ const char *tokens() const
    {
        return (IS_UP ? p.operand : p.units_operand) + (int64_t)head.w * OPERAND_ROW_BYTES;
    }
    __device__ __forceinline__ uint32_t tokens_bytes() const
    {
        return (uint32_t)units_of(head.z, OPERAND_ALIGN_ROWS) * OPERAND_ALIGN_ROWS *
               OPERAND_ROW_BYTES;
    }
};

/* ---- epilogue: a lane has rows 2 g and 2 g + 1 of a tile, g = lane / 4, for tokens 8 i + 2 t and
 * 8 i + 2 t + 1, t = lane % 4 ---- */

/* The gates of the thread's tokens. */
template <int TOKENS>
static __device__ __forceinline__ void
load_gates(float (&gates)[TOKENS / 4], const struct decode_grouped &p, int4 head, int lane)
{
#pragma unroll
    for (int i = 0; i < TOKENS / 4; i++) {
        const int token = i / 2 * 8 + lane % 4 * 2 + i % 2;

        gates[i] = token < head.z ? __ldcg(p.entry_gates + head.y + token) : 0.0f;
    }
}

/* A gated unit; an entry with one that is not finite gets the gate NaN. */
static __device__ __forceinline__ uint32_t gated_bits(const struct decode_grouped &p, float gate,
                                                      float x, float y, float2 bias, int entry,
                                                      bool is_there)
{
    const float unit =
        gate * swiglu(x * CODE_UNIT + bias.x, y * CODE_UNIT + bias.y, p.e.limit, p.e.alpha);

    if (is_there && !isfinite(unit))
        p.entry_gates[entry] = unit * 0.0f;
    return half_bits(unit);
}

/* Stores the gated units of a tile of row `row` in the operand of the down product. Lanes of
 * adjacent units exchange one of their two tokens, so that each has a pair of units of one
 * token. */
template <int TOKENS>
static __device__ __forceinline__ void store_up(const struct decode_grouped &p,
                                                const float (&sums)[TOKENS / 2], int4 head, int row,
                                                int tile, float2 bias, int lane)
{
    const int g = lane / 4, is_odd = g % 2;
    const int piece = row % 2 * 4 + g / 2;
    float gates[TOKENS / 4];

    load_gates<TOKENS>(gates, p, head, lane);
#pragma unroll
    for (int i = 0; i < TOKENS / 8; i++) {
        const int token = i * 8 + lane % 4 * 2, mine = token + is_odd;
        uint32_t bits[2];

        if (i * 8 >= head.z)
            break;
#pragma unroll
        for (int k = 0; k < 2; k++)
            bits[k] = gated_bits(p, gates[i * 2 + k], sums[i * 4 + k], sums[i * 4 + k + 2], bias,
                                 head.y + token + k, token + k < head.z);
        const uint32_t other = __shfl_xor_sync(ALL_LANES, is_odd ? bits[0] : bits[1], 4);

        if (mine < head.z)
            *(uint32_t *)(p.units_operand +
                          operand_piece_offset(p.n_operand_rows, head.w + mine, row / 2, piece) +
                          tile * 4) = is_odd ? other | bits[1] << 16 : bits[0] | other << 16;
    }
}

template <int TOKENS>
static __device__ __forceinline__ void store_down(const struct decode_grouped &p,
                                                  const int32_t (&sums)[TOKENS / 2], int4 head,
                                                  int column, float2 bias, int lane)
{
    const float2 scale = *(const float2 *)(p.e.grid + column);
    float gates[TOKENS / 4];

    load_gates<TOKENS>(gates, p, head, lane);
#pragma unroll
    for (int i = 0; i < TOKENS / 4; i++) {
        const int token = i / 2 * 8 + lane % 4 * 2 + i % 2, at = i / 2 * 4 + i % 2;

        if (token < head.z)
            *(int2 *)(p.parts + (int64_t)(head.y + token) * p.e.n_columns + column) =
                make_int2(sums[at] + bias_partial(gates[i], bias.x, scale.x),
                          sums[at + 2] + bias_partial(gates[i], bias.y, scale.y));
    }
}

template <bool IS_UP> struct sums_of {
    enum { KIND = IS_UP ? SUMS_OF_EIGHTHS : SUMS_OF_EXPERT_SLICES };
};

#endif
#endif
