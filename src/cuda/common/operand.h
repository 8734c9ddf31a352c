/* Operands: activations as 16-bit numbers in the order in which wgmma reads them (wgmma.cuh), as
 * (chunk of 64 columns, row, 128 bytes).
 *
 * Piece p (16 bytes) of a row of a chunk is at position p ^ row % 8. Piece 4 b + 2 p + h holds, for
 * t = 0 .. 3, columns 32 b + 8 t + 4 p + 2 h and the next one: what lane t of each quad feeds to
 * MMA p of block b (layout.h). Columns past the end are zeros. */
#ifndef CUDA_COMMON_OPERAND_H
#define CUDA_COMMON_OPERAND_H

#include "cuda/common/layout.h"

enum {
    GEMM_TOKENS_MAX = 128, /* per tile: with two units of 64 rows a thread has 128 accumulators */
    OPERAND_ROW_BYTES = UNIT_COLUMNS * 2,
    OPERAND_PIECE_BYTES = 16,
    OPERAND_ALIGN_ROWS = 8 /* period of the swizzle */
};

/* Rows to allocate for n_rows, including the rest of the last tile. The chunk stride is an odd
 * multiple of 1 KB: writes to chunks 33 * 128 KB apart reached a fifth of the speed. */
static inline int64_t operand_rows(int64_t n_rows)
{
    const int64_t n = units_of(n_rows, OPERAND_ALIGN_ROWS) + GEMM_TOKENS_MAX / OPERAND_ALIGN_ROWS;

    return (n | 1) * OPERAND_ALIGN_ROWS;
}

/* Target format. ROUNDS_TO_3_BF16 splits a number into three BF16 terms, exact except for the last
 * bit. The chunks of the smallest term come first and those of the largest last, because a tensor
 * core truncates its sums relative to their current magnitude. */
enum rounding { ROUNDS_TO_F16, ROUNDS_TO_BF16, ROUNDS_TO_3_BF16 };

static inline HOST_DEVICE int rounding_terms(enum rounding rounding)
{
    return rounding == ROUNDS_TO_3_BF16 ? 3 : 1;
}

/* Size of an operand allocated for n_rows (a result of operand_rows()). */
static inline int64_t operand_bytes(int64_t n_rows, int64_t n_columns, enum rounding rounding)
{
    return units_of(n_columns, UNIT_COLUMNS) * rounding_terms(rounding) * n_rows *
           OPERAND_ROW_BYTES;
}

static inline HOST_DEVICE int64_t operand_piece_offset(int64_t n_rows, int64_t row, int64_t chunk,
                                                       int piece)
{
    return (chunk * n_rows + row) * OPERAND_ROW_BYTES +
           (piece ^ (int)(row % OPERAND_ALIGN_ROWS)) * OPERAND_PIECE_BYTES;
}

/* Operand rows for T*A entries, when each expert starts at a multiple of OPERAND_ALIGN_ROWS. */
static inline int64_t listed_rows(int64_t n_entries, int64_t n_experts)
{
    const int64_t n_active = n_entries < n_experts ? n_entries : n_experts;

    return operand_rows(n_entries + n_active * (OPERAND_ALIGN_ROWS - 1));
}

#endif
