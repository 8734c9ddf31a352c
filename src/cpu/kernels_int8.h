/* MXFP4 weights times int8 activations: the loops, once for all levels. A level's file includes
 * kernels_float.h, defines the operations below on its vectors of LANES dwords, and then includes
 * this once.
 *
 *     bytes                                 a vector of LANES dwords of four bytes
 *     bytes  expand_low(bytes codes)        the low nibbles as what dot() multiplies; expand_high
 *     bytes  four(const int8_t *a)          four activations in every dword
 *     ivec   begin(int32_t bias)            a sum that holds the bias
 *     ivec   dot(ivec sum, bytes w, bytes a)
 *     fvec   total(ivec sum)                a dword's sum as a float
 *     fvec   scales_of(const uint8_t *p)    2^(p[i] - 127); 0 for 2^-127
 *     int32_t bias_of(const int8_t *codes)  of a block of 32 activations
 *     INT8_TOKENS                           tokens of the register tile
 *
 * Few tokens: codes are expanded in registers as they stream by, while the next group is fetched.
 * Bound by memory. Many: a group's
 * next CHUNK_BLOCKS blocks are expanded once into the first-level cache and multiplied with all
 * tokens. Bound by dot(): 64 products an instruction of 512 bits. */

enum {
    PARTS = GROUP_ROWS / LANES, /* vectors that hold one column of a group */
    STEPS = 8,                  /* of four columns, in a block of 32 */
    CHUNK_BLOCKS = 30,          /* 15 KB expanded: half the first-level cache; 90 = 3 of them */
    FEW_TOKENS = 4,
    GROUPS_MAX = 2,    /* at once, of one token: more streams; four are no quicker */
    OUTLIERS_MANY = 3, /* a block, of all tokens: from there on expanding it costs less */
    STREAMS =
        4 /* parts of a group that are fetched side by side: more than one, for the prefetcher */
};

/* A chunk: a step's vectors lie behind those of the step before it, whatever the block. */
struct expanded {
    bytes w[CHUNK_BLOCKS * STEPS][PARTS];
    fvec scales[CHUNK_BLOCKS][PARTS];
};

/* What remains to do after the integer sums of a block. */
INLINE void add_block(fvec acc[PARTS], const ivec sum[PARTS], const fvec scales[PARTS], float scale)
{
    UNROLL
    for (int h = 0; h < PARTS; h++)
        acc[h] = fma_v(total(sum[h]), scales[h] * all_v(scale), acc[h]);
}

/* ---- few tokens ---- */

INLINE void few_block(const struct int8_products *p, int block, fvec acc[][PARTS], const int n_x)
{
    const uint8_t *codes = p->codes + (ptrdiff_t)block * GROUP_BLOCK_BYTES;
    ivec sum[FEW_TOKENS][PARTS];
    fvec scales[PARTS];

    UNROLL
    for (int t = 0; t < n_x; t++)
        UNROLL
    for (int h = 0; h < PARTS; h++)
        sum[t][h] = begin(p->x[t].blocks[block].bias);
    UNROLL
    for (int v = 0; v < STEPS / 2; v++)
        UNROLL
    for (int h = 0; h < PARTS; h++) {
        bytes both, low, high;

        memcpy(&both, codes + v * 64 + h * (int)sizeof(both), sizeof(both));
        low = expand_low(both);
        high = expand_high(both);
        UNROLL
        for (int t = 0; t < n_x; t++) {
            const int8_t *a = p->x[t].codes + (ptrdiff_t)block * 32 + 8 * v;

            sum[t][h] = dot(sum[t][h], low, four(a));
            sum[t][h] = dot(sum[t][h], high, four(a + 4));
        }
    }
    UNROLL
    for (int h = 0; h < PARTS; h++)
        scales[h] = scales_of(p->scales + (ptrdiff_t)block * GROUP_ROWS + h * LANES);
    UNROLL
    for (int t = 0; t < n_x; t++)
        add_block(acc[t], sum[t], scales, p->x[t].blocks[block].scale);
}

/* Asks for the b-th part of a group whose turn is next. Memory answers several streams sooner than one,
 * and a whole group ahead: the arithmetic takes as long as the memory, and misses near by would stop
 * it. */
INLINE void fetch_group(const struct int8_products *p, const uint8_t *group, int b)
{
    UNROLL
    for (int i = 0; i < STREAMS; i++)
        __builtin_prefetch(group + ((ptrdiff_t)i * p->n_blocks + b) * 64, 0, 2);
    __builtin_prefetch(group + (ptrdiff_t)p->n_blocks * GROUP_BLOCK_BYTES + b * GROUP_ROWS, 0, 2);
}

INLINE void few_tokens(const struct int8_products *p, const int n_x, const int n_groups)
{
    struct int8_products of[GROUPS_MAX];
    fvec acc[GROUPS_MAX][FEW_TOKENS][PARTS];

    UNROLL
    for (int g = 0; g < n_groups; g++) {
        of[g] = *p;
        of[g].codes += g * p->group_bytes;
        of[g].scales += g * p->group_bytes;
        UNROLL
        for (int t = 0; t < n_x; t++)
            UNROLL
        for (int h = 0; h < PARTS; h++)
            acc[g][t][h] = all_v(0);
    }
    for (int b = 0; b < p->n_blocks; b++)
        UNROLL
    for (int g = 0; g < n_groups; g++) {
        fetch_group(p, p->next + g * p->group_bytes, b);
        few_block(&of[g], b, acc[g], n_x);
    }
    UNROLL
    for (int g = 0; g < n_groups; g++)
        UNROLL
    for (int t = 0; t < n_x; t++)
        UNROLL
    for (int h = 0; h < PARTS; h++)
        store_v(p->out + (g * n_x + t) * GROUP_ROWS + h * LANES, acc[g][t][h]);
}

/* ---- many tokens ---- */

static void expand(struct expanded *out, const struct int8_products *p, int first, int n)
{
    for (int b = 0; b < n; b++) {
        const uint8_t *codes = p->codes + (ptrdiff_t)(first + b) * GROUP_BLOCK_BYTES;

        for (int v = 0; v < STEPS / 2; v++)
            for (int h = 0; h < PARTS; h++) {
                bytes both;

                memcpy(&both, codes + v * 64 + h * (int)sizeof(both), sizeof(both));
                out->w[b * STEPS + 2 * v][h] = expand_low(both);
                out->w[b * STEPS + 2 * v + 1][h] = expand_high(both);
            }
        for (int h = 0; h < PARTS; h++)
            out->scales[b][h] =
                scales_of(p->scales + (ptrdiff_t)(first + b) * GROUP_ROWS + h * LANES);
    }
}

/* A chunk's n blocks, from block `first` on, times n_x tokens from token x on; sums go on in
 * p->out. */
INLINE void many_tile(const struct int8_products *p, const struct expanded *e, int first, int n,
                      int x, const int n_x)
{
    const int8_t *codes[INT8_TOKENS];
    const struct int8_block *blocks[INT8_TOKENS];
    float *const outs = p->out + (ptrdiff_t)x * GROUP_ROWS;

    UNROLL
    for (int t = 0; t < n_x; t++) {
        codes[t] = p->x[x + t].codes + (ptrdiff_t)first * 32;
        blocks[t] = p->x[x + t].blocks + first;
    }
    for (int b = 0; b < n; b++) {
        ivec sum[INT8_TOKENS][PARTS];

        UNROLL
        for (int t = 0; t < n_x; t++)
            UNROLL
        for (int h = 0; h < PARTS; h++)
            sum[t][h] = begin(blocks[t][b].bias);
        UNROLL
        for (int s = 0; s < STEPS; s++)
            UNROLL
        for (int t = 0; t < n_x; t++) {
            const bytes a = four(codes[t] + (ptrdiff_t)b * 32 + 4 * s);

            UNROLL
            for (int h = 0; h < PARTS; h++)
                sum[t][h] = dot(sum[t][h], e->w[b * STEPS + s][h], a);
        }
        UNROLL
        for (int t = 0; t < n_x; t++) {
            float *out = outs + t * GROUP_ROWS;
            fvec acc[PARTS];

            UNROLL
            for (int h = 0; h < PARTS; h++)
                acc[h] = load_v(out + h * LANES);
            add_block(acc, sum[t], e->scales[b], blocks[t][b].scale);
            UNROLL
            for (int h = 0; h < PARTS; h++)
                store_v(out + h * LANES, acc[h]);
        }
    }
}

static void many_tokens(const struct int8_products *p)
{
    struct expanded chunk;

    memset(p->out, 0, (size_t)p->n_x * GROUP_ROWS * sizeof(float));
    for (int first = 0; first < p->n_blocks; first += CHUNK_BLOCKS) {
        const int n_left = p->n_blocks - first, n = n_left < CHUNK_BLOCKS ? n_left : CHUNK_BLOCKS;
        int x = 0;

        expand(&chunk, p, first, n);
        for (; x + INT8_TOKENS <= p->n_x; x += INT8_TOKENS)
            many_tile(p, &chunk, first, n, x, INT8_TOKENS);
        for (; x + 2 <= p->n_x; x += 2)
            many_tile(p, &chunk, first, n, x, 2);
        if (x < p->n_x)
            many_tile(p, &chunk, first, n, x, 1);
    }
}

static void level_products_int8(const struct int8_products *p)
{
    if (p->n_groups == 2)
        few_tokens(p, 1, 2);
    else if (p->n_x == 1)
        few_tokens(p, 1, 1);
    else if (p->n_x == 2)
        few_tokens(p, 2, 1);
    else if (p->n_x == 3)
        few_tokens(p, 3, 1);
    else if (p->n_x == 4)
        few_tokens(p, 4, 1);
    else
        many_tokens(p);
}

/* ---- outliers ---- */

INLINE void outlier_step(const struct int8_products *p, const struct int8_outlier *o,
                         fvec acc[PARTS])
{
    const uint8_t *codes = p->codes + (ptrdiff_t)(o->step / 2) * 64;
    const uint8_t *scales = p->scales + (ptrdiff_t)(o->step / STEPS) * GROUP_ROWS;
    const uint32_t shift = (uint32_t)(o->step % 2) * 4;
    ivec sum[PARTS];
    fvec of_rows[PARTS];

    UNROLL
    for (int h = 0; h < PARTS; h++) {
        uvec both;

        memcpy(&both, codes + h * (int)sizeof(both), sizeof(both));
        sum[h] = dot(begin(o->block.bias), expand_low((bytes)(both >> shift)), four(o->codes));
        of_rows[h] = scales_of(scales + h * LANES);
    }
    add_block(acc, sum, of_rows, o->block.scale);
}

/* One column of the weights each; the group is in the cache by now. */
static void outliers_packed(const struct int8_products *p, const struct int8_row *row, float *out)
{
    fvec acc[PARTS];

    UNROLL
    for (int h = 0; h < PARTS; h++)
        acc[h] = load_v(out + h * LANES);
    for (int i = 0; i < row->n_outliers; i++)
        outlier_step(p, &row->outliers[i], acc);
    UNROLL
    for (int h = 0; h < PARTS; h++)
        store_v(out + h * LANES, acc[h]);
}

/* Those from the i-th on that lie in the n blocks from block `first` on; gives the next one. */
static int outliers_expanded(const struct int8_products *p, const struct expanded *e, int first,
                             int n, int t, int i)
{
    const struct int8_row *row = &p->x[t];
    const struct int8_outlier *o = row->outliers + i, *end = row->outliers + row->n_outliers;
    const uint32_t first_step = (uint32_t)(first * STEPS), n_steps = (uint32_t)(n * STEPS);
    float *out = p->out + (ptrdiff_t)t * GROUP_ROWS;
    fvec acc[PARTS];

    UNROLL
    for (int h = 0; h < PARTS; h++)
        acc[h] = load_v(out + h * LANES);
    for (; o < end && (uint32_t)o->step - first_step < n_steps; o++) {
        const uint32_t step = (uint32_t)o->step - first_step;
        const bytes a = four(o->codes);
        ivec sum[PARTS];

        UNROLL
        for (int h = 0; h < PARTS; h++)
            sum[h] = dot(begin(o->block.bias), e->w[step][h], a);
        add_block(acc, sum, e->scales[step / STEPS], o->block.scale);
    }
    UNROLL
    for (int h = 0; h < PARTS; h++)
        store_v(out + h * LANES, acc[h]);
    return (int)(o - row->outliers);
}

/* With many of them it is quicker to expand the group once more. */
static void outliers_many(const struct int8_products *p)
{
    struct expanded chunk;
    int next[INT8_X_MAX] = {0};

    for (int first = 0; first < p->n_blocks; first += CHUNK_BLOCKS) {
        const int n_left = p->n_blocks - first, n = n_left < CHUNK_BLOCKS ? n_left : CHUNK_BLOCKS;

        expand(&chunk, p, first, n);
        for (int t = 0; t < p->n_x; t++)
            next[t] = outliers_expanded(p, &chunk, first, n, t, next[t]);
    }
}

/* The second of two groups. */
static struct int8_products second_group(const struct int8_products *p)
{
    struct int8_products second = *p;

    second.codes += p->group_bytes;
    second.scales += p->group_bytes;
    return second;
}

static void level_outliers_int8(const struct int8_products *p)
{
    int n = 0;

    for (int t = 0; t < p->n_x; t++)
        n += p->x[t].n_outliers;
    if (n > OUTLIERS_MANY * p->n_blocks && p->n_x > 1) {
        outliers_many(p);
        return;
    }
    for (int t = 0; t < p->n_x; t++)
        if (p->x[t].n_outliers > 0)
            outliers_packed(p, &p->x[t], p->out + (ptrdiff_t)t * GROUP_ROWS);
    if (p->n_groups == 2 && n > 0) {
        const struct int8_products second = second_group(p);

        outliers_packed(&second, p->x, p->out + GROUP_ROWS);
    }
}

/* ---- activations ---- */

/* The bits of the largest magnitude: NaN and the infinities are larger than any number, and spread
 * through the scale. */
INLINE float largest_of(const float *x)
{
    uint32_t bits[32], most = 0;
    float largest;

    memcpy(bits, x, sizeof(bits));
    for (int i = 0; i < 32; i++) {
        const uint32_t magnitude = bits[i] & 0x7FFFFFFFu;

        most = magnitude > most ? magnitude : most;
    }
    memcpy(&largest, &most, sizeof(largest));
    return largest;
}

/* code = round(x * 127 / largest), ties to even, and x is about code * largest / 127. Blocks below
 * 1e-30 become zeros. */
static void level_quantise(int8_t *codes, struct int8_block *blocks, const float *x, int n_blocks)
{
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves the integer below */

    for (int b = 0; b < n_blocks; b++, codes += 32, x += 32) {
        const float largest = largest_of(x);
        const float inverse = largest < 1e-30f ? 0.0f : 127.0f / largest;

        for (int i = 0; i < 32; i++) {
            const float shifted = x[i] * inverse + round;
            int32_t bits;

            memcpy(&bits, &shifted, sizeof(bits));
            codes[i] = (int8_t)(bits & 0xFF);
        }
        blocks[b].scale = largest < 1e-30f ? 0.0f : largest * (0.5f / 127.0f);
        blocks[b].bias = bias_of(codes);
    }
}

/* What a level multiplies many tokens with may be its own: it names that function before. */
#ifndef LEVEL_PRODUCTS_INT8
#define LEVEL_PRODUCTS_INT8 level_products_int8
#endif

/* The members of struct kernels that both headers fill. */
#define LEVEL_FUNCTIONS                                                                            \
    .widen_bf16 = level_widen_bf16, .widen_mxfp4 = widen_mxfp4_plain,                              \
    .products_f32 = level_products_f32, .products_bf16 = level_products_bf16,                      \
    .quantise = level_quantise, .products_int8 = LEVEL_PRODUCTS_INT8,                              \
    .outliers_int8 = level_outliers_int8, .weighted_sum = level_weighted_sum,                      \
    .scale = level_scale, .exp_sum = level_exp_sum, .norm = level_norm, .swiglu = level_swiglu
