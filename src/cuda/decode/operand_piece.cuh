/* Pieces of operands (common/operand.h) from rows of FP16 numbers in whole units of 64. */
#ifndef CUDA_DECODE_OPERAND_PIECE_CUH
#define CUDA_DECODE_OPERAND_PIECE_CUH

#include "cuda/common/layout.h"

/* Piece `piece` of a unit of the row: word t of it is word 4 t + piece % 4 of the block. */
static __device__ __forceinline__ uint4 piece_of_row(const uint32_t *row, int unit, int piece)
{
    enum { STRIDE = 4 };
    const uint32_t *from =
        row + unit * (UNIT_COLUMNS / 2) + piece / STRIDE * (MXFP4_BLOCK / 2) + piece % STRIDE;

    return make_uint4(__ldcg(from), __ldcg(from + STRIDE), __ldcg(from + 2 * STRIDE),
                      __ldcg(from + 3 * STRIDE));
}

#endif
