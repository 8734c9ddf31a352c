/* Products by tiles: registers of 16 rows of 64 bytes, multiplied as matrices. A level's file includes
 * kernels_int8.h and kernels_rounded.h, defines the operations below and includes this:
 *
 *     struct tile_config                    shapes of the tiles: row_bytes[8], n_rows[8], palette 1
 *     TILES_CONFIGURE(config)               for this thread; TILES_RELEASE() ends it
 *     TILE_ZERO(c)  TILE_LOAD(t, p, stride)  TILE_STORE(t, p, stride)
 *     TILE_DOT_INT8(c, a, b)                c[i][j] += sum over k of a[i][k] . b[k][j], dwords of
 *     TILE_DOT_BF16(c, a, b)                four int8, exact, or of two bf16
 *     bytes signed_low(bytes codes)         the low nibbles as 2 e2m1; signed_high
 *
 * MXFP4 times int8: A is 32 columns of up to 16 tokens, B a block of 16 weight rows as its packed
 * layout has them, 8 rows of 64 bytes. A sum is one block's, so that its scales stay exact, and that
 * is half of what a tile could hold; then it is scaled and added as at the other levels, with the same
 * bits. Bound by that: a load, a conversion, a product and a sum for every 16 dwords.
 *
 * BF16: A is 32 columns of 16 weight rows, in place; B the same columns of tokens, pair by pair: a
 * panel of 16 tokens, or one token's row as it lies. One sum over all columns. The instruction adds
 * the even columns' products, then the odd ones', then both to what was there: the same bits for any
 * number of tokens. Subnormal numbers count as zero. */

enum {
    TILE_TOKENS = 16,
    TILE_TOKENS_MIN = 25, /* below this the products without tiles are as quick */
    TILE_BATCH = 4,       /* blocks whose sums are on their way at once */
    TILE_COLUMNS = 32,    /* bf16 in a row of a tile */
    PANELS_MAX = 4        /* of 16 tokens that are multiplied with one tile of weights */
};

/* One block of a chunk, signed. */
struct tile_block {
    bytes w[STEPS];
    fvec scales;
};

/* Sums of a batch: (block, token, row). */
struct tile_sums {
    ivec of[TILE_BATCH][TILE_TOKENS];
};

/* What one chunk multiplies 16 tokens with, or fewer. */
struct tile_run {
    const struct tile_block *e;
    const int8_t *codes; /* of the first token */
    ptrdiff_t stride;    /* from token to token */
    const struct int8_block *blocks[TILE_TOKENS];
    float *out;
    int n_blocks, n_x;
};

static void tile_shape(struct tile_config *config, int tile, int n_rows, int row_bytes)
{
    config->n_rows[tile] = (uint8_t)n_rows;
    config->row_bytes[tile] = (uint16_t)row_bytes;
}

/* ---- MXFP4 times int8 ---- */

/* Tiles 0 .. 3 are sums, 4 and 5 tokens, 6 and 7 weights. */
static void configure_int8(void)
{
    struct tile_config config = {.palette = 1};

    for (int t = 0; t < 8; t++)
        tile_shape(&config, t, t < 6 ? TILE_TOKENS : STEPS, t == 4 || t == 5 ? 32 : 64);
    TILES_CONFIGURE(&config);
}

static void tile_expand(struct tile_block *out, const struct int8_products *p, int first, int n)
{
    for (int b = 0; b < n; b++) {
        const uint8_t *codes = p->codes + (ptrdiff_t)(first + b) * GROUP_BLOCK_BYTES;

        for (int v = 0; v < STEPS / 2; v++) {
            bytes both;

            memcpy(&both, codes + v * (int)sizeof(both), sizeof(both));
            out[b].w[2 * v] = signed_low(both);
            out[b].w[2 * v + 1] = signed_high(both);
        }
        out[b].scales = scales_of(p->scales + (ptrdiff_t)(first + b) * GROUP_ROWS);
    }
}

#define TILE_BLOCK(sum, tokens, weights, i)                                                        \
    do {                                                                                           \
        TILE_ZERO(sum);                                                                            \
        TILE_LOAD(tokens, r->codes + (ptrdiff_t)(b + (i)) * 32, r->stride);                        \
        TILE_LOAD(weights, r->e[b + (i)].w, 64);                                                   \
        TILE_DOT_INT8(sum, tokens, weights);                                                       \
    } while (0)

/* Blocks [b, b + n), n <= TILE_BATCH. */
static void tile_sum_blocks(struct tile_sums *out, const struct tile_run *r, int b, int n)
{
    if (n == TILE_BATCH) {
        TILE_BLOCK(0, 4, 6, 0);
        TILE_BLOCK(1, 5, 7, 1);
        TILE_BLOCK(2, 4, 6, 2);
        TILE_BLOCK(3, 5, 7, 3);
        TILE_STORE(0, out->of[0], 64);
        TILE_STORE(1, out->of[1], 64);
        TILE_STORE(2, out->of[2], 64);
        TILE_STORE(3, out->of[3], 64);
        return;
    }
    for (int i = 0; i < n; i++) {
        TILE_BLOCK(0, 4, 6, i);
        TILE_STORE(0, out->of[i], 64);
    }
}

INLINE void tile_add(fvec acc[TILE_TOKENS], const struct tile_sums *sums, const struct tile_run *r,
                     int b, int i)
{
    UNROLL
    for (int t = 0; t < TILE_TOKENS; t++)
        add_block(&acc[t], &sums->of[i][t], &r->e[b + i].scales, r->blocks[t][b + i].scale);
}

/* The tiles of one batch run while the sums of the one before are added. Where there are fewer than
 * 16 tokens, the others' sums are nothing's and go nowhere. */
static void tile_chunk(const struct tile_run *r)
{
    struct tile_sums sums[2];
    fvec acc[TILE_TOKENS];
    int n_now = r->n_blocks < TILE_BATCH ? r->n_blocks : TILE_BATCH;

    UNROLL
    for (int t = 0; t < TILE_TOKENS; t++)
        acc[t] = t < r->n_x ? load_v(r->out + t * GROUP_ROWS) : all_v(0);
    tile_sum_blocks(&sums[0], r, 0, n_now);
    for (int b = 0, which = 0; b < r->n_blocks; which = !which) {
        const int n_left = r->n_blocks - b - n_now;
        const int n_next = n_left < TILE_BATCH ? n_left : TILE_BATCH;

        if (n_next > 0)
            tile_sum_blocks(&sums[!which], r, b + n_now, n_next);
        for (int i = 0; i < n_now; i++)
            tile_add(acc, &sums[which], r, b, i);
        b += n_now;
        n_now = n_next;
    }
    UNROLL
    for (int t = 0; t < TILE_TOKENS; t++)
        if (t < r->n_x)
            store_v(r->out + t * GROUP_ROWS, acc[t]);
}

/* Whether the tokens from x on lie as far from each other, all 16. */
static bool is_even(const struct int8_row *x, ptrdiff_t stride)
{
    for (int t = 1; t < TILE_TOKENS - 1; t++)
        if ((intptr_t)x[t + 1].codes - (intptr_t)x[t].codes != stride)
            return false;
    return true;
}

struct tile_panel {
    _Alignas(64) int8_t codes[TILE_TOKENS][CHUNK_BLOCKS * 32];
};

/* Blocks [first, first + n) times n_x tokens from token x on; `panel` is room for their codes, zero
 * where there has been none. */
static void tile_tokens(const struct int8_products *p, const struct tile_block *e,
                        struct tile_panel *panel, int first, int n, int x, int n_x)
{
    const struct int8_row *rows = p->x + x;
    struct tile_run r = {
        .e = e, .out = p->out + (ptrdiff_t)x * GROUP_ROWS, .n_blocks = n, .n_x = n_x};

    r.stride = n_x < TILE_TOKENS ? 0 : (intptr_t)rows[1].codes - (intptr_t)rows[0].codes;
    r.codes = rows[0].codes + (ptrdiff_t)first * 32;
    for (int t = 0; t < TILE_TOKENS; t++)
        r.blocks[t] = rows[t < n_x ? t : 0].blocks + first;
    if (n_x < TILE_TOKENS || !is_even(rows, r.stride)) {
        for (int t = 0; t < n_x; t++)
            memcpy(panel->codes[t], rows[t].codes + (ptrdiff_t)first * 32, (size_t)n * 32);
        r.codes = panel->codes[0];
        r.stride = sizeof(panel->codes[0]);
    }
    tile_chunk(&r);
}

static void tile_products_int8(const struct int8_products *p)
{
    struct tile_block chunk[CHUNK_BLOCKS];
    struct tile_panel panel;

    if (p->n_x < TILE_TOKENS_MIN) {
        level_products_int8(p);
        return;
    }
    memset(p->out, 0, (size_t)p->n_x * GROUP_ROWS * sizeof(float));
    memset(&panel, 0, sizeof(panel));
    configure_int8();
    for (int first = 0; first < p->n_blocks; first += CHUNK_BLOCKS) {
        const int n_left = p->n_blocks - first, n = n_left < CHUNK_BLOCKS ? n_left : CHUNK_BLOCKS;

        tile_expand(chunk, p, first, n);
        for (int x = 0; x < p->n_x; x += TILE_TOKENS)
            tile_tokens(p, chunk, &panel, first, n, x,
                        p->n_x - x < TILE_TOKENS ? p->n_x - x : TILE_TOKENS);
    }
    TILES_RELEASE();
}

/* ---- BF16 times rounded rows ---- */

/* One step of transposing 16 x 16 dwords: lane l of a and b changes places with lane l + s. */
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

/* A panel has, for every 32 columns, 16 rows of 16 dwords: a pair of columns each, token by token. */
static void tile_panel_bf16(uint16_t *panel, const uint16_t *rows, int n_rows, int n)
{
    const int n_columns = rounded_columns(n);

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

/* Tiles 0 .. 3 are sums, 4 weights, 5 .. 7 tokens: 16 of them, or one. */
static void configure_bf16(int n_rows, int n_x)
{
    struct tile_config config = {.palette = 1};

    for (int t = 0; t < 8; t++)
        tile_shape(&config, t, t < 5 ? n_rows : TILE_COLUMNS / 2, t == 4 ? 64 : 4 * n_x);
    TILES_CONFIGURE(&config);
}

struct tile_corner {
    _Alignas(64) uint16_t w[TILE_TOKENS][TILE_COLUMNS];
};

/* Weights of the columns from n_whole on, with zeros behind them. */
static void fill_corner(struct tile_corner *corner, const struct rounded_products *p, int n_whole)
{
    memset(corner, 0, sizeof(*corner));
    for (int r = 0; r < p->n_rows; r++)
        memcpy(corner->w[r], (const uint16_t *)p->w + (ptrdiff_t)r * p->n + n_whole,
               (size_t)(p->n - n_whole) * sizeof(uint16_t));
}

/* Where up to four operands B lie: panels, or rows of one token each. */
struct tile_operands {
    const uint16_t *b[PANELS_MAX];
    ptrdiff_t step, stride; /* in elements from 32 columns to the next; in bytes from row to row */
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

/* All columns of the weights times n operands; sums go to out: (operand, weight row, token). */
INLINE void tile_columns_all(float *out, const struct rounded_products *p,
                             const struct tile_corner *corner, const struct tile_operands *x,
                             const int n)
{
    const int n_whole = p->n / TILE_COLUMNS * TILE_COLUMNS;
    const uint16_t *w = p->w;
    ptrdiff_t at = 0;

    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (int i = 0; i < n_whole; i += TILE_COLUMNS, at += x->step)
        tile_columns(w + i, (ptrdiff_t)p->n * 2, x, at, n);
    if (n_whole < p->n)
        tile_columns(corner->w, sizeof(corner->w[0]), x, at, n);
    TILE_STORE(0, out, 64);
    if (n > 1)
        TILE_STORE(1, out + 256, 64);
    if (n > 2)
        TILE_STORE(2, out + 512, 64);
    if (n > 3)
        TILE_STORE(3, out + 768, 64);
}

static void tile_operands_times(float *out, const struct rounded_products *p,
                                const struct tile_corner *corner, const struct tile_operands *x,
                                int n)
{
    if (n == 1)
        tile_columns_all(out, p, corner, x, 1);
    else if (n == 2)
        tile_columns_all(out, p, corner, x, 2);
    else if (n == 3)
        tile_columns_all(out, p, corner, x, 3);
    else
        tile_columns_all(out, p, corner, x, 4);
}

/* Sums of one panel, (weight row, token), to the rows of up to 16 tokens. */
static void store_panel(const struct rounded_products *p, int x, int n_x, const float *sums)
{
    fvec v[TILE_TOKENS];

    for (int r = 0; r < TILE_TOKENS; r++)
        v[r] = load_v(sums + r * TILE_TOKENS);
    transpose(v);
    for (int t = 0; t < n_x; t++)
        memcpy(p->out + (x + t) * p->out_stride, &v[t], (size_t)p->n_rows * sizeof(float));
}

static void tile_panels(const struct rounded_products *p, const struct tile_corner *corner)
{
    const ptrdiff_t panel = (ptrdiff_t)TILE_TOKENS * rounded_columns(p->n);
    _Alignas(64) float sums[PANELS_MAX * 256] = {0};

    configure_bf16(p->n_rows, TILE_TOKENS);
    for (int x = 0; x < p->n_x; x += PANELS_MAX * TILE_TOKENS) {
        const int n_left = (p->n_x - x + TILE_TOKENS - 1) / TILE_TOKENS;
        const int n = n_left < PANELS_MAX ? n_left : PANELS_MAX;
        struct tile_operands operands = {.step = TILE_TOKENS * TILE_COLUMNS, .stride = 64};

        for (int i = 0; i < n; i++)
            operands.b[i] = p->panels + (x / TILE_TOKENS + i) * panel;
        tile_operands_times(sums, p, corner, &operands, n);
        for (int i = 0; i < n; i++) {
            const int first = x + i * TILE_TOKENS, n_rest = p->n_x - first;

            store_panel(p, first, n_rest < TILE_TOKENS ? n_rest : TILE_TOKENS, sums + 256 * i);
        }
    }
}

/* Tokens one by one; a pair of columns is a row of the tile. */
static void tile_single(const struct rounded_products *p, const struct tile_corner *corner)
{
    _Alignas(64) float sums[PANELS_MAX * 256];

    configure_bf16(p->n_rows, 1);
    for (int x = 0; x < p->n_x; x += PANELS_MAX) {
        const int n = p->n_x - x < PANELS_MAX ? p->n_x - x : PANELS_MAX;
        struct tile_operands operands = {.step = TILE_COLUMNS, .stride = 4};

        for (int i = 0; i < n; i++)
            operands.b[i] = p->x[x + i];
        tile_operands_times(sums, p, corner, &operands, n);
        for (int i = 0; i < n; i++)
            for (int r = 0; r < p->n_rows; r++)
                p->out[(x + i) * p->out_stride + r] = sums[256 * i + r * TILE_TOKENS];
    }
}

static void tile_products_rounded(const struct rounded_products *p)
{
    const int n_whole = p->n / TILE_COLUMNS * TILE_COLUMNS;
    struct tile_corner corner;

    if (n_whole < p->n)
        fill_corner(&corner, p, n_whole);
    if (p->panels != NULL)
        tile_panels(p, &corner);
    else
        tile_single(p, &corner);
    TILES_RELEASE();
}
