/* BF16 weights times rows that are rounded to bf16, by products of pairs of columns. A level's file
 * includes kernels_float.h, defines the operation below and includes this:
 *
 *     fvec dot_pairs(fvec sum, uvec w, uvec x)   a dword is two bf16; both products are added to it
 *
 * Sums are LANES partial sums by pair modulo LANES, then one fixed tree: the same bits for any number
 * of tokens. */

/* To nearest, ties to even; any NaN becomes a quiet one. The row goes on with zeros. */
static void level_round_bf16(uint16_t *out, const float *x, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], sizeof(bits));
        out[i] = (bits & 0x7FFFFFFFu) > 0x7F800000u
                     ? (uint16_t)0x7FC0
                     : (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
    }
    for (int i = n; i < rounded_columns(n); i++)
        out[i] = 0;
}

#ifdef LEVEL_HAS_PAIRS
enum { PAIR_ROWS = 4, PAIR_TOKENS = 4, PAIR_GEMV_ROWS = 8, PAIR_COLUMNS = 2 * LANES };

INLINE uvec load_pairs(const uint16_t *p)
{
    uvec v;

    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE uvec load_pairs_part(const uint16_t *p, int n)
{
    uint16_t room[PAIR_COLUMNS] = {0};

    memcpy(room, p, (size_t)n * sizeof(uint16_t));
    return load_pairs(room);
}

/* n_rows x n_x products, all sums in registers. */
INLINE void pair_tile(const struct rounded_products *p, int row, int x, const int n_rows,
                      const int n_x)
{
    const uint16_t *const w = (const uint16_t *)p->w + (ptrdiff_t)row * p->n;
    fvec sum[PAIR_GEMV_ROWS][PAIR_TOKENS];

    UNROLL
    for (int r = 0; r < n_rows; r++)
        UNROLL
    for (int t = 0; t < n_x; t++)
        sum[r][t] = all_v(0);
    for (int i = 0; i < p->n; i += PAIR_COLUMNS) {
        const int n_left = p->n - i;
        uvec at[PAIR_TOKENS];

        UNROLL
        for (int t = 0; t < n_x; t++)
            at[t] = load_pairs(p->x[x + t] + i);
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            const uint16_t *from = w + (ptrdiff_t)r * p->n + i;
            const uvec pairs =
                n_left < PAIR_COLUMNS ? load_pairs_part(from, n_left) : load_pairs(from);

            UNROLL
            for (int t = 0; t < n_x; t++)
                sum[r][t] = dot_pairs(sum[r][t], pairs, at[t]);
        }
    }
    UNROLL
    for (int t = 0; t < n_x; t++) {
        float *out = p->out + (x + t) * p->out_stride + row;

        if (n_rows == 1)
            out[0] = sum_v(sum[0][t]);
        UNROLL
        for (int r = 0; r + 4 <= n_rows; r += 4)
            sums_v(out + r, sum[r][t], sum[r + 1][t], sum[r + 2][t], sum[r + 3][t]);
    }
}

INLINE void pair_rows(const struct rounded_products *p, int x, const int n_x)
{
    const int step = n_x == 1 ? PAIR_GEMV_ROWS : PAIR_ROWS;
    int row = 0;

    for (; row + step <= p->n_rows; row += step)
        pair_tile(p, row, x, step, n_x);
    for (; row < p->n_rows; row++)
        pair_tile(p, row, x, 1, n_x);
}

static void pair_products(const struct rounded_products *p)
{
    int x = 0;

    for (; x + PAIR_TOKENS <= p->n_x; x += PAIR_TOKENS)
        pair_rows(p, x, PAIR_TOKENS);
    for (; x + 2 <= p->n_x; x += 2)
        pair_rows(p, x, 2);
    if (x < p->n_x)
        pair_rows(p, x, 1);
}
#endif
