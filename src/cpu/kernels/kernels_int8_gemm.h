/* Packed MXFP4 times many interleaved int8 rows, for ISAs with 32 vector registers; an ISA's file
 * includes this after kernels_int8.h.
 *
 * A tile has eight rows. Its blocks are contiguous, and each has scales, biases, then for every
 * step of four columns the codes of the eight rows. So all operands of the inner loop have constant
 * offsets from one pointer; dot() broadcasts its codes from memory, and integer and float sums stay
 * in registers for a whole chunk. Bound by dot(), and by the three operations of add_block() for
 * every eight of them. */

enum { TILE_ROWS = INT8_INTERLEAVED_ROWS, TILE_PART = 4 /* rows of a partial last tile */ };

struct tile_block {
    float scales[TILE_ROWS];
    int32_t biases[TILE_ROWS];
    int8_t codes[STEPS][TILE_ROWS][4];
};
_Static_assert(sizeof(struct tile_block) == TILE_ROWS * INT8_INTERLEAVED_BYTES, "whole tiles");

/* Rows beyond n_x are zeros. */
static void isa_interleave_int8(void *tile, const struct int8_row *x, int n_x, int n_blocks)
{
    struct tile_block *block = tile;

    if (n_x < TILE_ROWS)
        memset(tile, 0, (size_t)n_blocks * sizeof(*block));
    for (int b = 0; b < n_blocks; b++, block++)
        for (int t = 0; t < n_x; t++) {
            block->scales[t] = x[t].blocks[b].scale;
            block->biases[t] = x[t].blocks[b].bias;
            for (int s = 0; s < STEPS; s++)
                memcpy(block->codes[s][t], x[t].codes + (ptrdiff_t)b * 32 + 4 * s, 4);
        }
}

/* As large_m_tile(), for n_x rows of a tile. */
INLINE void interleaved_tile(float *outs, const struct tile_block *tile, const struct expanded *e,
                             const struct segment *s, const int n_x)
{
    fvec acc[TILE_ROWS][PARTS];

    UNROLL
    for (int t = 0; t < n_x; t++)
        UNROLL
    for (int h = 0; h < PARTS; h++)
        acc[t][h] = s->is_start ? all_v(0) : load_v(outs + t * GROUP_ROWS + h * LANES);
    for (int b = 0; b < s->n; b++) {
        const bytes(*w)[PARTS] = e->w + (ptrdiff_t)(s->at + b) * STEPS;
        ivec sum[TILE_ROWS][PARTS];

        UNROLL
        for (int t = 0; t < n_x; t++)
            UNROLL
        for (int h = 0; h < PARTS; h++)
            sum[t][h] = begin(tile[b].biases[t]);
        UNROLL
        for (int i = 0; i < STEPS; i++)
            UNROLL
        for (int t = 0; t < n_x; t++)
            UNROLL
        for (int h = 0; h < PARTS; h++)
            sum[t][h] = dot(sum[t][h], w[i][h], four(tile[b].codes[i][t]));
        UNROLL
        for (int t = 0; t < n_x; t++)
            add_block(acc[t], sum[t], e->scales[s->at + b], tile[b].scales[t]);
    }
    UNROLL
    for (int t = 0; t < n_x; t++)
        UNROLL
    for (int h = 0; h < PARTS; h++)
        store_v(outs + t * GROUP_ROWS + h * LANES, acc[t][h]);
}

static void interleaved_segment(const struct int8_gemm *p, const struct expanded *e,
                                const struct segment *s)
{
    const struct tile_block *tile = (const struct tile_block *)p->interleaved + s->first;

    for (int x = 0; x < p->n_x; x += TILE_ROWS, tile += p->n_blocks)
        if (p->n_x - x > TILE_PART)
            interleaved_tile(s->out + (ptrdiff_t)x * GROUP_ROWS, tile, e, s, TILE_ROWS);
        else
            interleaved_tile(s->out + (ptrdiff_t)x * GROUP_ROWS, tile, e, s, TILE_PART);
}

/* All rows; each chunk is expanded once for the tiles and for the outliers. */
static void interleaved_gemm(const struct int8_gemm *p)
{
    expanded_gemm(p, interleaved_segment);
}

static void interleaved_or_not(const struct int8_gemm *p)
{
    if (p->interleaved != NULL)
        interleaved_gemm(p);
    else
        isa_gemm_int8(p);
}
