/* Rows of floats to operands (gemm.h): a thread makes one piece of 16 bytes, and writes it wherever the row
 * goes. Reads 4 bytes a number and writes 2 a copy: bound by memory. */
#include "cuda/gemm.h"
#include "cuda/mma.cuh"

enum { THREADS_MAX = 384, PIECES = OPERAND_ROW_BYTES / OPERAND_PIECE_BYTES };

struct conversion {
    struct operand to;
    const float *x;
    int64_t n_columns;
    const int32_t *place;
    int n_copies;
};

/* Numbers `column` and the next one of a row. */
static __device__ float2 two_of(const float *x, int64_t column, int64_t n)
{
    if (n % 2 == 0 && column < n)
        return *reinterpret_cast<const float2 *>(x + column);
    return make_float2(column < n ? x[column] : 0.0f, column + 1 < n ? x[column + 1] : 0.0f);
}

template <bool IS_F16> static __device__ uint4 piece_of(const float *x, int64_t column, int64_t n)
{
    uint32_t words[4];

#pragma unroll
    for (int t = 0; t < 4; t++) {
        const float2 v = two_of(x, column + t * 8, n);

        words[t] = IS_F16 ? pair_f16(v.x, v.y) : pair_bf16(v.x, v.y);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

/* blockIdx.x is the row. */
template <bool IS_F16>
static __global__ void __launch_bounds__(THREADS_MAX)
    to_operand(const __grid_constant__ struct conversion c)
{
    const float *x = c.x + blockIdx.x * c.n_columns;
    const int64_t n_pieces = units_of(c.n_columns, UNIT_COLUMNS) * PIECES;

    for (int64_t i = threadIdx.x; i < n_pieces; i += blockDim.x) {
        const int64_t chunk = i / PIECES;
        const int piece = (int)(i % PIECES);
        const int64_t column =
            chunk * UNIT_COLUMNS + piece / 4 * MXFP4_BLOCK + piece / 2 % 2 * 4 + piece % 2 * 2;
        const uint4 words = piece_of<IS_F16>(x, column, c.n_columns);

        for (int copy = 0; copy < c.n_copies; copy++) {
            const int64_t row =
                c.place == NULL ? blockIdx.x : c.place[(int64_t)blockIdx.x * c.n_copies + copy];

            *reinterpret_cast<uint4 *>(
                (char *)c.to.data + operand_piece_offset(c.to.n_rows, row, chunk, piece)) = words;
        }
    }
}

void launch_operand(cudaStream_t stream, const struct operand *to, const float *x, int n_rows,
                    int64_t n_columns, const int32_t *place, int n_copies)
{
    const struct conversion c = {*to, x, n_columns, place, n_copies};

    if (to->is_f16)
        to_operand<true><<<n_rows, THREADS_MAX, 0, stream>>>(c);
    else
        to_operand<false><<<n_rows, THREADS_MAX, 0, stream>>>(c);
}
