/* Epilogue of gemm_mma.cu: factor and bias of each row, then rows of floats or the next GEMM's
 * operand. */
#ifndef CUDA_PREFILL_GEMM_MMA_EPILOGUE_CUH
#define CUDA_PREFILL_GEMM_MMA_EPILOGUE_CUH

#include "cuda/prefill/gemm_mma_tile.cuh"

/* Factor and bias of a lane's rows. */
template <class WARP_LAYOUT> struct lane_epilogue {
    float factor[WARP_LAYOUT::ROW_TILES][2], bias[WARP_LAYOUT::ROW_TILES][2];
};

/* Each of the first threads loads one row's values for the block: 30 minus the code of its largest
 * scale, and its bias. */
template <enum format FORMAT>
static __device__ __forceinline__ void load_row_info(const struct launch_plan &p,
                                                     const struct tile &tile, uint32_t info)
{
    const struct job *job = &p.jobs[tile.job];
    const unsigned char *tops = job->data + tile.expert * job->matrix_bytes + job->tops_offset;
    const int row = tile.row + threadIdx.x;

    if (threadIdx.x < MMA_ROWS) {
        const bool has_top = FORMAT == FORMAT_MXFP4 && row < job->n_padded_rows;

        store_8(info + threadIdx.x * ROW_INFO_BYTES, (uint32_t)(30 - (has_top ? tops[row] : 127)),
                __float_as_uint(bias_at(p, tile, row)));
    }
    __syncthreads();
}

static __device__ __forceinline__ uint32_t my_info(struct thread_slice slice, uint32_t info)
{
    return info + (slice.row_tile * TILE_ROWS + threadIdx.x % WARP_LANES / 4 * 2) * ROW_INFO_BYTES;
}

template <class WARP_LAYOUT>
static __device__ __forceinline__ void
load_scale_shift(int (&scale_shift)[WARP_LAYOUT::ROW_TILES][2], struct thread_slice slice,
                 uint32_t info)
{
#pragma unroll
    for (int r = 0; r < WARP_LAYOUT::ROW_TILES; r++) {
        const uint4 two = load_16(my_info(slice, info) + r * TILE_ROWS * ROW_INFO_BYTES);

        scale_shift[r][0] = (int)two.x;
        scale_shift[r][1] = (int)two.z;
    }
}

template <enum format FORMAT, class WARP_LAYOUT>
static __device__ __forceinline__ void load_lane_epilogue(struct lane_epilogue<WARP_LAYOUT> *out,
                                                          struct thread_slice slice, uint32_t info)
{
#pragma unroll
    for (int r = 0; r < WARP_LAYOUT::ROW_TILES; r++) {
        const uint4 two = load_16(my_info(slice, info) + r * TILE_ROWS * ROW_INFO_BYTES);

        out->factor[r][0] = FORMAT == FORMAT_MXFP4 ? 0.5f * scale_of(30 - two.x) : 1.0f;
        out->factor[r][1] = FORMAT == FORMAT_MXFP4 ? 0.5f * scale_of(30 - two.z) : 1.0f;
        out->bias[r][0] = __uint_as_float(two.y);
        out->bias[r][1] = __uint_as_float(two.w);
    }
}

/* Accumulator d of a row with factor and bias applied. */
template <class WARP_LAYOUT>
static __device__ __forceinline__ float
epilogue_value(float d, const struct lane_epilogue<WARP_LAYOUT> &epilogue, int r, int odd)
{
    return __fmaf_rn(d, epilogue.factor[r][odd], epilogue.bias[r][odd]);
}

/* Stores the results of one token for the lane's rows. Not IS_WHOLE: the last rows of a matrix, or
 * rows that are not aligned. */
template <bool IS_WHOLE>
static __device__ __forceinline__ void store_sum_pair(float *to, int n_left, float even, float odd)
{
    if (IS_WHOLE) {
        *reinterpret_cast<float2 *>(to) = make_float2(even, odd);
        return;
    }
    if (n_left > 0)
        to[0] = even;
    if (n_left > 1)
        to[1] = odd;
}

template <class WARP_LAYOUT, bool IS_WHOLE>
static __device__ __forceinline__ void
store_sums(const struct launch_plan &p, const struct tile &tile,
           const float (&d)[WARP_LAYOUT::ROW_TILES][WARP_LAYOUT::COLS][4],
           struct thread_slice slice, const struct lane_epilogue<WARP_LAYOUT> &epilogue)
{
    const int lane = threadIdx.x % WARP_LANES;
    const int row = tile.row + slice.row_tile * TILE_ROWS + lane / 4 * 2;
    const int n_left = p.jobs[tile.job].n_rows - row;

#pragma unroll
    for (int i = 0; i < WARP_LAYOUT::COLS * 2; i++) {
        const int token = (slice.col + i / 2) * 8 + lane % 4 * 2 + i % 2;
        struct row_use use = {tile.first + token, 1.0f};

        if (token >= tile.n)
            continue;
        if (p.g.uses != NULL)
            use = p.g.uses[use.to];
        float *const to = p.g.out[tile.job] + use.to * p.g.out_width[tile.job] + row;

#pragma unroll
        for (int r = 0; r < WARP_LAYOUT::ROW_TILES; r++)
            store_sum_pair<IS_WHOLE>(
                to + r * TILE_ROWS, n_left - r * TILE_ROWS,
                use.gate * epilogue_value<WARP_LAYOUT>(d[r][i / 2][i % 2], epilogue, r, 0),
                use.gate * epilogue_value<WARP_LAYOUT>(d[r][i / 2][i % 2 + 2], epilogue, r, 1));
    }
}

/* Both gated numbers of a lane for a column of tokens. Lanes exchange one by shuffle, so that each
 * has two numbers of one token: one word of the next operand. */
template <class WARP_LAYOUT>
static __device__ __forceinline__ uint32_t
unit_word(const struct launch_plan &p, const float d[4],
          const struct lane_epilogue<WARP_LAYOUT> &epilogue, int r, bool is_here)
{
    const bool is_odd = threadIdx.x / 4 % 2 != 0;
    const float slope = -p.g.alpha * 1.44269504f;
    float v[2];

#pragma unroll
    for (int k = 0; k < 2; k++)
        v[k] = is_here
                   ? swiglu(epilogue_value<WARP_LAYOUT>(d[k], epilogue, r, 0),
                            epilogue_value<WARP_LAYOUT>(d[k + 2], epilogue, r, 1), p.g.limit, slope)
                   : 0.0f;
    const float other = __shfl_xor_sync(0xFFFFFFFFu, is_odd ? v[0] : v[1], 4);

    return pair_of(p.g.units, is_odd ? other : v[0], is_odd ? v[1] : other);
}

/* Stores the tile's gated numbers, one chunk of the next operand. Each row tile of the warp is one
 * word of the chunk's pieces. */
template <class WARP_LAYOUT>
static __device__ __forceinline__ void
store_gated(const struct launch_plan &p, const struct tile &tile,
            const float (&d)[WARP_LAYOUT::ROW_TILES][WARP_LAYOUT::COLS][4],
            struct thread_slice slice, const struct lane_epilogue<WARP_LAYOUT> &epilogue)
{
    const int number = threadIdx.x % WARP_LANES / 4;
    const int piece = slice.row_tile / 4 * 4 + number / 2, chunk = tile.row / MMA_ROWS;
    const int row = tile.row + slice.row_tile * TILE_ROWS + number * 2;

#pragma unroll
    for (int c = 0; c < WARP_LAYOUT::COLS; c++) {
        const int token = (slice.col + c) * 8 + threadIdx.x % 4 * 2 + number % 2;
        uint32_t words[WARP_LAYOUT::ROW_TILES];

        if ((slice.col + c) * 8 >= tile.n)
            break;
#pragma unroll
        for (int r = 0; r < WARP_LAYOUT::ROW_TILES; r++)
            words[r] = unit_word<WARP_LAYOUT>(p, d[r][c], epilogue, r,
                                              row + r * TILE_ROWS + 1 < p.jobs[tile.job].n_rows);
        if (token >= tile.n)
            continue;
        char *to = (char *)p.g.units.data +
                   operand_piece_offset(p.g.units.n_rows, tile.first + token, chunk, piece) +
                   slice.row_tile % 4 * 4;

        if constexpr (WARP_LAYOUT::ROW_TILES == 4)
            *reinterpret_cast<uint4 *>(to) = make_uint4(words[0], words[1], words[2], words[3]);
        else if constexpr (WARP_LAYOUT::ROW_TILES == 2)
            *reinterpret_cast<uint2 *>(to) = make_uint2(words[0], words[1]);
        else
            *reinterpret_cast<uint32_t *>(to) = words[0];
    }
}

#endif
