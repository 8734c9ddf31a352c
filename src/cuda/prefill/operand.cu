/* Converts rows of floats to GEMM operands (gemm.h). A thread makes one piece of 16 bytes and
 * stores it to every copy of the row. Reads 4 bytes per number and writes 2 per copy; memory
 * bound. */
#include "cuda/prefill/gemm.h"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/mma.cuh"

enum { THREADS_MAX = 384, PIECES = OPERAND_ROW_BYTES / OPERAND_PIECE_BYTES };

struct conversion {
    struct operand to;
    struct operand_source from;
    const int32_t *place;
    int n_copies;
};

/* Elements `column` and column + 1 of a row; zeros past the end. */
static __device__ float2 two_of(const float *x, int64_t column, int64_t n)
{
    if (n % 2 == 0 && column < n)
        return *reinterpret_cast<const float2 *>(x + column);
    return make_float2(column < n ? x[column] : 0.0f, column + 1 < n ? x[column + 1] : 0.0f);
}

/* The next term of a piece; it is subtracted from v. */
template <enum rounding ROUNDING> static __device__ uint4 load_piece(float2 v[4])
{
    uint32_t words[4];

#pragma unroll
    for (int t = 0; t < 4; t++) {
        if (ROUNDING == ROUNDS_TO_3_BF16) {
            float two[2] = {v[t].x, v[t].y};

            words[t] = round_to_bf16(two);
            v[t] = make_float2(two[0], two[1]);
        } else {
            words[t] =
                ROUNDING == ROUNDS_TO_F16 ? pair_f16(v[t].x, v[t].y) : pair_bf16(v[t].x, v[t].y);
        }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

/* One piece, for all terms and all copies of a row. */
template <enum rounding ROUNDING>
static __device__ void store_piece(const struct conversion &c, int64_t from, int64_t chunk,
                                   int piece, float2 v[4])
{
    const int64_t n_chunks = units_of(c.from.n_columns, UNIT_COLUMNS);
    const int n_terms = rounding_terms(ROUNDING);

#pragma unroll
    for (int term = 0; term < n_terms; term++) {
        const uint4 words = load_piece<ROUNDING>(v);

        for (int copy = 0; copy < c.n_copies; copy++) {
            const int64_t row = c.place == NULL ? from : c.place[from * c.n_copies + copy];
            const int64_t at = operand_piece_offset(c.to.n_rows, row,
                                                    chunk + (n_terms - 1 - term) * n_chunks, piece);

            *reinterpret_cast<uint4 *>((char *)c.to.data + at) = words;
        }
    }
}

/* blockIdx.x is the row. */
template <enum rounding ROUNDING>
static __global__ void __launch_bounds__(THREADS_MAX)
    to_operand(const __grid_constant__ struct conversion c)
{
    const struct operand_source &f = c.from;
    const int64_t row = f.gather == NULL ? blockIdx.x : f.gather[blockIdx.x * f.gather_stride];
    const float *x = f.x + row * f.n_columns;
    const int64_t n_pieces = units_of(c.from.n_columns, UNIT_COLUMNS) * PIECES;

    for (int64_t i = threadIdx.x; i < n_pieces; i += blockDim.x) {
        const int64_t chunk = i / PIECES;
        const int piece = (int)(i % PIECES);
        const int64_t column =
            chunk * UNIT_COLUMNS + piece / 4 * MXFP4_BLOCK + piece / 2 % 2 * 4 + piece % 2 * 2;
        float2 v[4];

#pragma unroll
        for (int t = 0; t < 4; t++)
            v[t] = two_of(x, column + t * 8, c.from.n_columns);
        store_piece<ROUNDING>(c, blockIdx.x, chunk, piece, v);
    }
}

/* blockIdx.x is the row. */
static __global__ void __launch_bounds__(THREADS_MAX)
    copy_operand(const __grid_constant__ struct operand to,
                 const __grid_constant__ struct operand from, int n_pieces, const int32_t *place,
                 int n_copies)
{
    const int64_t row = blockIdx.x;

    for (int i = (int)threadIdx.x; i < n_pieces; i += (int)blockDim.x) {
        const int chunk = i / PIECES, piece = i % PIECES;
        const uint4 words = *reinterpret_cast<const uint4 *>(
            (const char *)from.data + operand_piece_offset(from.n_rows, row, chunk, piece));

        for (int copy = 0; copy < n_copies; copy++) {
            const int64_t at =
                operand_piece_offset(to.n_rows, place[row * n_copies + copy], chunk, piece);

            *reinterpret_cast<uint4 *>((char *)to.data + at) = words;
        }
    }
}

void launch_copy_operand(struct launch_list *list, const struct operand *to,
                         const struct operand *from, int64_t n_columns, int n_rows,
                         const int32_t *place, int n_copies)
{
    add_kernel<copy_operand>(list, n_rows, THREADS_MAX, 0, *to, *from,
                             (int)units_of(n_columns, UNIT_COLUMNS) * PIECES, place, n_copies);
}

void launch_operand(struct launch_list *list, const struct operand *to,
                    const struct operand_source *from, int n_rows, const int32_t *place,
                    int n_copies)
{
    const struct conversion c = {*to, *from, place, n_copies};

    switch (to->rounding) {
    case ROUNDS_TO_F16:
        add_kernel<to_operand<ROUNDS_TO_F16>>(list, n_rows, THREADS_MAX, 0, c);
        break;
    case ROUNDS_TO_BF16:
        add_kernel<to_operand<ROUNDS_TO_BF16>>(list, n_rows, THREADS_MAX, 0, c);
        break;
    case ROUNDS_TO_3_BF16:
        add_kernel<to_operand<ROUNDS_TO_3_BF16>>(list, n_rows, THREADS_MAX, 0, c);
        break;
    }
}
