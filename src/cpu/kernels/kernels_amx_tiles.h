/* Matmuls with AMX tiles: registers of 16 rows of 64 bytes, multiplied as matrices. An ISA's file
 * includes kernels_int8.h and kernels_bf16.h, defines the operations below and then includes this:
 *
 *     struct tile_config                    shapes of the tiles: row_bytes[8], n_rows[8], palette 1
 *     TILES_CONFIGURE(config)               for this thread; TILES_RELEASE() ends it
 *     TILE_ZERO(c)  TILE_LOAD(t, p, stride)  TILE_STORE(t, p, stride)
 *     TILE_DOT_BF16(c, a, b)                c[i][j] += sum over k of a[i][k] . b[k][j],
 *                                           dwords of two bf16
 *     words look_up_words(words codes)      e2m1 2^126 as bf16, by the low four bits of every word
 *     words subtract_words(words from, words less)     saturates at zero
 *
 * For each of 16 dwords, the instruction adds the products of the even columns, then those of the
 * odd columns, then the accumulator: the bits do not depend on the number of tokens. It flushes
 * subnormal numbers to zero.
 *
 * BF16 weights: A is 16 weight rows of 32 columns, read in place. B has the same columns of the
 * tokens, pair by pair: a panel of 16 tokens, or the row of one token as it is.
 *
 * Packed MXFP4: B is 16 weight rows of 32 columns as bf16, which is exact, with the block scales in
 * the exponents; A has these columns of up to 16 tokens. Few tokens: bound by expanding B, 11
 * vector instructions for 64 bytes of weights. Many: bound by the loads of A. int8 tiles would have
 * to store the sums of every 32 columns, then convert, scale and add them: half as fast here. */

enum {
    TILE_TOKENS = 16,
    TILE_COLUMNS = 32, /* bf16 of a tile row */
    PANELS_MAX = 4     /* panels of 16 tokens that one tile of weights is multiplied with */
};

static void tile_shape(struct tile_config *config, int tile, int n_rows, int row_bytes)
{
    config->n_rows[tile] = (uint8_t)n_rows;
    config->row_bytes[tile] = (uint16_t)row_bytes;
}

/* ---- BF16 weights times bf16 activations ---- */

/* One step of the transpose of 16 x 16 dwords: swaps lane l of a and lane l + s of b. */
#define SWAP_LANE(l, s) ((l) & (s) ? 16 + (l) - (s) : (l))
#define KEEP_LANE(l, s) ((l) & (s) ? 16 + (l) : (l) + (s))
#define LANES_16(X, s)                                                                             \
    X(0, s), X(1, s), X(2, s), X(3, s), X(4, s), X(5, s), X(6, s), X(7, s), X(8, s), X(9, s),      \
        X(10, s), X(11, s), X(12, s), X(13, s), X(14, s), X(15, s)
#define SWAP_STEP(v, s)                                                                            \
    UNROLL                                                                                         \
    for (int i = 0; i < 16; i++)                                                                   \
        if (!(i & (s))) {                                                                          \
            const fvec a = v[i], b = v[i + (s)];                                                   \
                                                                                                   \
            v[i] = __builtin_shufflevector(a, b, LANES_16(SWAP_LANE, s));                          \
            v[i + (s)] = __builtin_shufflevector(a, b, LANES_16(KEEP_LANE, s));                    \
        }

INLINE void transpose(fvec v[16])
{
    SWAP_STEP(v, 8)
    SWAP_STEP(v, 4)
    SWAP_STEP(v, 2)
    SWAP_STEP(v, 1)
}

/* For every 32 columns, a panel has 16 rows of 16 dwords: row i has column pair i of each token. */
static void tile_panel_bf16(uint16_t *panel, const uint16_t *rows, int n_rows, int n)
{
    const int n_columns = bf16_row_columns(n);

    for (int i = 0; i < n_columns; i += TILE_COLUMNS, panel += TILE_TOKENS * TILE_COLUMNS) {
        fvec v[TILE_TOKENS];

        for (int t = 0; t < TILE_TOKENS; t++)
            if (t < n_rows)
                memcpy(&v[t], rows + (ptrdiff_t)t * n_columns + i, sizeof(v[t]));
            else
                v[t] = all_v(0);
        transpose(v);
        memcpy(panel, v, sizeof(v));
    }
}

/* Tiles 0 .. 3 are accumulators, 4 weights, 5 .. 7 activations of 16 tokens, or of one. */
static void configure_bf16(int n_rows, int n_x)
{
    struct tile_config config = {.palette = 1};

    for (int t = 0; t < 8; t++)
        tile_shape(&config, t, t < 5 ? n_rows : TILE_COLUMNS / 2, t == 4 ? 64 : 4 * n_x);
    TILES_CONFIGURE(&config);
}

struct tile_corner {
    uint16_t w[TILE_TOKENS][TILE_COLUMNS];
};

/* Weights of the columns from n_whole on, zero-padded. */
static void fill_corner(struct tile_corner *corner, const struct bf16_act_gemm *p, int n_whole)
{
    memset(corner, 0, sizeof(*corner));
    for (int r = 0; r < p->n_rows; r++)
        memcpy(corner->w[r], (const uint16_t *)p->w + (ptrdiff_t)r * p->n + n_whole,
               (size_t)(p->n - n_whole) * sizeof(uint16_t));
}

/* Up to four B operands: panels, or rows of one token each. */
struct tile_operands {
    const uint16_t *b[PANELS_MAX];
    ptrdiff_t step, stride; /* elements to the next 32 columns; bytes to the next tile row */
};

INLINE void tile_columns(const void *w, ptrdiff_t w_stride, const struct tile_operands *x,
                         ptrdiff_t at, const int n)
{
    TILE_LOAD(4, w, w_stride);
    TILE_LOAD(5, x->b[0] + at, x->stride);
    TILE_DOT_BF16(0, 4, 5);
    if (n > 1) {
        TILE_LOAD(6, x->b[1] + at, x->stride);
        TILE_DOT_BF16(1, 4, 6);
    }
    if (n > 2) {
        TILE_LOAD(7, x->b[2] + at, x->stride);
        TILE_DOT_BF16(2, 4, 7);
    }
    if (n > 3) {
        TILE_LOAD(5, x->b[3] + at, x->stride);
        TILE_DOT_BF16(3, 4, 5);
    }
}

/* Columns [first, end) of a slice, of which the row's last ones may be in the corner. */
struct tile_slice {
    int first, end;
    const struct tile_corner *corner;
};

/* A slice of the weights times n operands; writes (operand, weight row, token) to out. */
INLINE void tile_columns_all(float *out, const struct bf16_act_gemm *p, const struct tile_slice *s,
                             const struct tile_operands *x, const int n)
{
    const int n_whole = s->end / TILE_COLUMNS * TILE_COLUMNS;
    const uint16_t *w = p->w;
    ptrdiff_t at = s->first / TILE_COLUMNS * x->step;

    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (int i = s->first; i < n_whole; i += TILE_COLUMNS, at += x->step)
        tile_columns(w + i, (ptrdiff_t)p->n * 2, x, at, n);
    if (n_whole < s->end)
        tile_columns(s->corner->w, sizeof(s->corner->w[0]), x, at, n);
    TILE_STORE(0, out, 64);
    if (n > 1)
        TILE_STORE(1, out + 256, 64);
    if (n > 2)
        TILE_STORE(2, out + 512, 64);
    if (n > 3)
        TILE_STORE(3, out + 768, 64);
}

static void tile_operands_times(float *out, const struct bf16_act_gemm *p,
                                const struct tile_slice *s, const struct tile_operands *x, int n)
{
    if (n == 1)
        tile_columns_all(out, p, s, x, 1);
    else if (n == 2)
        tile_columns_all(out, p, s, x, 2);
    else if (n == 3)
        tile_columns_all(out, p, s, x, 3);
    else
        tile_columns_all(out, p, s, x, 4);
}

/* Transposes the sums of one panel, (weight row, token), into the output rows of up to 16
 * tokens. */
static void store_panel(const struct bf16_act_gemm *p, float *out, int n_x, const float *sums)
{
    fvec v[TILE_TOKENS];

    for (int r = 0; r < TILE_TOKENS; r++)
        v[r] = load_v(sums + r * TILE_TOKENS);
    transpose(v);
    for (int t = 0; t < n_x; t++)
        memcpy(out + t * p->out_stride, &v[t], (size_t)p->n_rows * sizeof(float));
}

static void tile_panels(const struct bf16_act_gemm *p, const struct tile_slice *s, float *out)
{
    const ptrdiff_t panel = (ptrdiff_t)TILE_TOKENS * bf16_row_columns(p->n);
    _Alignas(64) float sums[PANELS_MAX * 256] = {0};

    for (int x = 0; x < p->n_x; x += PANELS_MAX * TILE_TOKENS) {
        const int n_left = (p->n_x - x + TILE_TOKENS - 1) / TILE_TOKENS;
        const int n = n_left < PANELS_MAX ? n_left : PANELS_MAX;
        struct tile_operands operands = {.step = TILE_TOKENS * TILE_COLUMNS, .stride = 64};

        for (int i = 0; i < n; i++)
            operands.b[i] = p->panels + (x / TILE_TOKENS + i) * panel;
        tile_operands_times(sums, p, s, &operands, n);
        for (int i = 0; i < n; i++) {
            const int first = x + i * TILE_TOKENS, n_rest = p->n_x - first;

            store_panel(p, out + first * p->out_stride, n_rest < TILE_TOKENS ? n_rest : TILE_TOKENS,
                        sums + 256 * i);
        }
    }
}

/* One token an operand: each row of its B tile is a pair of columns. */
static void tile_single(const struct bf16_act_gemm *p, const struct tile_slice *s, float *out)
{
    _Alignas(64) float sums[PANELS_MAX * 256];

    for (int x = 0; x < p->n_x; x += PANELS_MAX) {
        const int n = p->n_x - x < PANELS_MAX ? p->n_x - x : PANELS_MAX;
        struct tile_operands operands = {.step = TILE_COLUMNS, .stride = 4};

        for (int i = 0; i < n; i++)
            operands.b[i] = p->x[x + i];
        tile_operands_times(sums, p, s, &operands, n);
        for (int i = 0; i < n; i++)
            for (int r = 0; r < p->n_rows; r++)
                out[(x + i) * p->out_stride + r] = sums[256 * i + r * TILE_TOKENS];
    }
}

static void tile_gemm_bf16(const struct bf16_act_gemm *p)
{
    const int n_whole = p->n / TILE_COLUMNS * TILE_COLUMNS;
    struct tile_corner corner;
    struct tile_slice s = {.corner = &corner};
    float *out = p->out;

    if (n_whole < p->n)
        fill_corner(&corner, p, n_whole);
    configure_bf16(p->n_rows, p->panels != NULL ? TILE_TOKENS : 1);
    do {
        s.end = slice_end(p->slices, s.first, p->n);
        if (p->panels != NULL)
            tile_panels(p, &s, out);
        else
            tile_single(p, &s, out);
        s.first = s.end;
        out += p->slices.stride;
    } while (s.first < p->n);
    TILES_RELEASE();
}

/* ---- packed MXFP4 weights times bf16 activations ---- */

typedef uint16_t words __attribute__((vector_size(64)));

enum {
    PERMUTED_BATCH = 8, /* blocks, 8 KB: expanded while the previous batch is multiplied */
    PERMUTED_FETCH_BYTES = 3072
};

/* The weights of a block: 16 rows of 16 dwords; row i has column pair i of each weight row. */
struct permuted_block {
    words w[TILE_COLUMNS / 2];
};

/* Rounds to bf16 with the columns of every eight in the order 0 2 4 6 1 3 5 7. */
static void tile_round_permuted(uint16_t *out, const float *x, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const halves_of v = rounded_v(load_v(x + i));
        const halves_of permuted =
            __builtin_shufflevector(v, v, 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);

        memcpy(out + i, &permuted, sizeof(permuted));
    }
}

/* What is subtracted from the looked-up values, in both halves of a weight row's dword: (253 -
 * scale) << 7. The whole range for scale 2^-127, which counts as 0, as at the other ISAs. */
INLINE words less_of(const uint8_t *scales)
{
    const uvec exponent = (uvec)scales_of(scales) >> 23;
    const uvec less = (253u - exponent) << 7;
    const uvec all = (uvec){0} + 0xFFFFu;
    const uvec one = (uvec)choose_v((ivec)(exponent == 0), (fvec)all, (fvec)less);

    return (words)(one | one << 16);
}

/* Expands blocks [first, first + n) of a group. A word of the packed vectors has four codes. Of the
 * two words of a weight row, the lowest nibbles are columns 0 and 2, the next ones 4 and 6, then 1
 * and 3, then 5 and 7. */
static void permuted_expand(struct permuted_block *out, const uint8_t *group, int first, int n)
{
    for (int b = 0; b < n; b++) {
        const uint8_t *codes = group + group_codes_at(first + b);
        const words less = less_of(group + group_scales_at(first + b));

        UNROLL
        for (int v = 0; v < STEPS / 2; v++) {
            words raw;

            __builtin_prefetch(codes + PERMUTED_FETCH_BYTES + v * 64);
            memcpy(&raw, codes + v * 64, sizeof(raw));
            out[b].w[4 * v] = subtract_words(look_up_words(raw), less);
            out[b].w[4 * v + 1] = subtract_words(look_up_words(raw >> 4), less);
            out[b].w[4 * v + 2] = subtract_words(look_up_words(raw >> 8), less);
            out[b].w[4 * v + 3] = subtract_words(look_up_words(raw >> 12), less);
        }
    }
}

/* Tiles 0 .. 3 are accumulators, one for each pair of a weight group and 16 tokens. Tile 6 has the
 * last 16 tokens, of which some may be missing; 4 has weights, 5 and 7 other tokens or weights. */
static void configure_permuted(int n_x)
{
    struct tile_config config = {.palette = 1};
    const int n = (n_x + TILE_TOKENS - 1) / TILE_TOKENS, n_last = n_x - (n - 1) * TILE_TOKENS;

    for (int t = 0; t < 8; t++)
        tile_shape(&config, t, t == 6 || (t < 4 && t % n == n - 1) ? n_last : TILE_TOKENS, 64);
    TILES_CONFIGURE(&config);
}

#define PERMUTED_TOKENS(tile, g) TILE_LOAD(tile, x + (g)*TILE_TOKENS * stride, 2 * stride)
#define PERMUTED_DOT(sum, tokens, weights, g)                                                      \
    do {                                                                                           \
        TILE_LOAD(weights, e[g]->w, 64);                                                           \
        TILE_DOT_BF16(sum, tokens, weights);                                                       \
    } while (0)

/* One block of up to 4 groups times 16 tokens. */
INLINE void permuted_dots_1(const struct permuted_block *const e[4], const uint16_t *x,
                            ptrdiff_t stride, const int n_groups)
{
    PERMUTED_TOKENS(6, 0);
    PERMUTED_DOT(0, 6, 4, 0);
    if (n_groups > 1)
        PERMUTED_DOT(1, 6, 5, 1);
    if (n_groups > 2) {
        PERMUTED_DOT(2, 6, 7, 2);
        PERMUTED_DOT(3, 6, 4, 3);
    }
}

/* One block of up to 2 groups times 32 tokens. */
INLINE void permuted_dots_2(const struct permuted_block *const e[4], const uint16_t *x,
                            ptrdiff_t stride, const int n_groups)
{
    PERMUTED_TOKENS(5, 0);
    PERMUTED_TOKENS(6, 1);
    PERMUTED_DOT(0, 5, 4, 0);
    TILE_DOT_BF16(1, 6, 4);
    if (n_groups > 1) {
        PERMUTED_DOT(2, 5, 7, 1);
        TILE_DOT_BF16(3, 6, 7);
    }
}

/* Expands a batch: PERMUTED_BATCH / n_groups blocks of each group, group by group. */
INLINE void permuted_batch(struct permuted_block *out, const struct permuted_gemm *p,
                           const uint8_t *groups, int first, int n, const int n_groups)
{
    for (int g = 0; g < n_groups; g++)
        permuted_expand(out + g * (PERMUTED_BATCH / n_groups), groups + g * p->group_bytes, first,
                        n);
}

INLINE void permuted_dots(const struct permuted_block *batch, const struct permuted_gemm *p,
                          int block, int i, const int n_groups, const int n)
{
    const uint16_t *x = p->x + (ptrdiff_t)(block + i) * TILE_COLUMNS;
    const struct permuted_block *e[4];

    UNROLL
    for (int g = 0; g < n_groups; g++)
        e[g] = batch + g * (PERMUTED_BATCH / n_groups) + i;
    if (n == 1)
        permuted_dots_1(e, x, p->x_stride, n_groups);
    else
        permuted_dots_2(e, x, p->x_stride, n_groups);
}

/* The accumulator of group g and tokens from 16 t on is tile g * n + t. */
INLINE void permuted_store(const struct permuted_gemm *p, float *out, const int n_groups,
                           const int n)
{
    const ptrdiff_t tokens = (ptrdiff_t)TILE_TOKENS * GROUP_ROWS;
    const ptrdiff_t group = (ptrdiff_t)p->n_x * GROUP_ROWS;

    TILE_STORE(0, out, 64);
    if (n_groups * n > 1)
        TILE_STORE(1, out + 1 / n * group + 1 % n * tokens, 64);
    if (n_groups * n > 2)
        TILE_STORE(2, out + 2 / n * group + 2 % n * tokens, 64);
    if (n_groups * n > 3)
        TILE_STORE(3, out + 3 / n * group + 3 % n * tokens, 64);
}

INLINE void permuted_clear(void)
{
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
}

/* All blocks of n_groups groups times 16 n tokens. n_groups * n independent accumulators hide the
 * latency of a tile product, which is three times its throughput. */
INLINE void permuted_groups(const struct permuted_gemm *p, int g, const int n_groups, const int n)
{
    const int batch = PERMUTED_BATCH / n_groups;
    const uint8_t *groups = p->groups + g * p->group_bytes;
    float *out = p->out + (ptrdiff_t)g * p->n_x * GROUP_ROWS;
    struct permuted_block e[2][PERMUTED_BATCH];
    int n_now = p->n_blocks < batch ? p->n_blocks : batch;
    int slice = slice_end(p->slices, 0, p->n_blocks); /* the slice's end */

    permuted_clear();
    permuted_batch(e[0], p, groups, 0, n_now, n_groups);
    for (int b = 0, which = 0; b < p->n_blocks; which = !which) {
        const int n_left = p->n_blocks - b - n_now, n_next = n_left < batch ? n_left : batch;

        if (n_next > 0)
            permuted_batch(e[!which], p, groups, b + n_now, n_next, n_groups);
        for (int i = 0; i < n_now; i++) {
            permuted_dots(e[which], p, b, i, n_groups, n);
            if (b + i + 1 < slice)
                continue;
            permuted_store(p, out, n_groups, n);
            permuted_clear();
            out += p->slices.stride;
            slice = slice_end(p->slices, slice, p->n_blocks);
        }
        b += n_now;
        n_now = n_next;
    }
}

/* Returns how many groups were computed. */
static int permuted_some(const struct permuted_gemm *p, int g)
{
    const int n = (p->n_x + TILE_TOKENS - 1) / TILE_TOKENS, n_left = p->n_groups - g;

    if (n == 1 && n_left >= 4)
        return permuted_groups(p, g, 4, 1), 4;
    if (n == 1 && n_left >= 2)
        return permuted_groups(p, g, 2, 1), 2;
    if (n == 2 && n_left >= 2)
        return permuted_groups(p, g, 2, 2), 2;
    if (n == 1)
        permuted_groups(p, g, 1, 1);
    else
        permuted_groups(p, g, 1, 2);
    return 1;
}

static void tile_gemm_permuted(const struct permuted_gemm *p)
{
    configure_permuted(p->n_x);
    for (int g = 0; g < p->n_groups;)
        g += permuted_some(p, g);
    TILES_RELEASE();
}
