/* Pieces of operands (common/operand.h) from rows of FP16 numbers in whole units of 64. */
#ifndef CUDA_COMMON_OPERAND_PIECE_CUH
#define CUDA_COMMON_OPERAND_PIECE_CUH

#include "cuda/common/operand.h"

/* Piece `piece` of a unit of the row: word t of it is word 4 t + piece % 4 of the block. */
static __device__ __forceinline__ uint4 piece_of_row(const uint32_t *row, int unit, int piece)
{
    enum { STRIDE = 4 };
    const uint32_t *from =
        row + unit * (UNIT_COLUMNS / 2) + piece / STRIDE * (MXFP4_BLOCK / 2) + piece % STRIDE;

    return make_uint4(__ldcg(from), __ldcg(from + STRIDE), __ldcg(from + 2 * STRIDE),
                      __ldcg(from + 3 * STRIDE));
}

/* The offset in bytes of number k of a row, where its piece has it; n_rows: of the operand. Numbers
 * k and k + 1 are adjacent if k is even. Numbers of the same column in other units are
 * operand_unit_bytes() apart. */
static __device__ __forceinline__ int64_t operand_number_offset(int n_rows, int row, int k)
{
    enum { STRIDE = 4 };
    const int word = k % MXFP4_BLOCK / 2, piece = k % UNIT_COLUMNS / MXFP4_BLOCK * STRIDE;

    return operand_piece_offset(n_rows, row, k / UNIT_COLUMNS, piece + word % STRIDE) +
           word / STRIDE * 4 + k % 2 * 2;
}

static __device__ __forceinline__ int64_t operand_unit_bytes(int n_rows)
{
    return (int64_t)n_rows * OPERAND_ROW_BYTES;
}

#endif
