/* MXFP4 weights times int8 activations: the loops, shared by all ISAs. An ISA's file includes
 * kernels_float.h, defines the operations below on its vectors of LANES dwords, and then includes
 * this once.
 *
 *     bytes                                 a vector of LANES dwords of four bytes
 *     bytes  expand_low(bytes codes)        the low nibbles as operands of dot(); expand_high
 *     bytes  four(const int8_t *a)          four activations, broadcast to every dword
 *     ivec   begin(int32_t bias)            an accumulator that starts with the bias
 *     ivec   dot(ivec sum, bytes w, bytes a)
 *     fvec   total(ivec sum)                the sum in each dword as a float
 *     fvec   scales_of(const uint8_t *p)    2^(p[i] - 127); 0 for 2^-127
 *     int32_t bias_of(const int8_t *codes)  of a block of 32 activations
 *     INT8_TOKENS                           tokens of the register tile
 *
 * Few tokens: codes are expanded in registers while they are read. Bound by memory. Many tokens:
 * the next CHUNK_BLOCKS blocks of a group are expanded once into the L1 cache and multiplied with
 * all tokens. Bound by dot(): 64 products an instruction of 512 bits. */

enum {
    STEPS = 8,         /* steps of four columns in a block of 32 */
    CHUNK_BLOCKS = 30, /* 15 KB expanded: half the L1 cache; K = 2880 is 90 blocks, 3 chunks */
    SMALL_M_MAX = 4,
    NEAR_BLOCKS = 16,  /* of four groups: half the L1 cache, with the columns of their outliers */
    OUTLIERS_MANY = 3, /* a block, of all tokens: above, expanding again is faster */
    STREAMS = 5, /* parts of a group that are prefetched in parallel, one line of each a block */
    FETCH_BYTES = 64, /* a cache line */
    /* With several groups: the prefetch distance into the L2 cache, and into the L1 cache. On a
     * Xeon 2,000 to 9,000 bytes and 500 to 1,500 bytes are equally fast. */
    FAR_BYTES = 34 * FETCH_BYTES,
    NEAR_BYTES = 12 * FETCH_BYTES
};

/* An expanded chunk: the vectors of a step follow those of the previous step, across blocks. */
struct expanded {
    bytes w[CHUNK_BLOCKS * STEPS][PARTS];
    fvec scales[CHUNK_BLOCKS][PARTS];
};

/* Scales the integer sums of a block and adds them to the float accumulators. */
INLINE void add_block(fvec acc[PARTS], const ivec sum[PARTS], const fvec scales[PARTS], float scale)
{
    UNROLL
    for (int h = 0; h < PARTS; h++)
        acc[h] = fma_v(total(sum[h]), scales[h] * all_v(scale), acc[h]);
}

/* ---- few tokens ---- */

/* The sums of a call: of one group and some tokens, or of some groups and one token. Outliers have
 * sums of their own, with one token only. */
struct small_m {
    const struct int8_gemm *p;
    fvec acc[GROUPS_AT_ONCE][PARTS], outliers[GROUPS_AT_ONCE][PARTS];
};

/* 64 bytes of each group, 8 columns: two dot() steps of four columns for every group and token. */
INLINE void small_m_columns(const struct int8_gemm *p, ivec sum[][PARTS], ptrdiff_t at, int column,
                            const int n_x, const int n_groups)
{
    bytes a[SMALL_M_MAX][2];

    UNROLL
    for (int t = 0; t < n_x; t++) {
        a[t][0] = four(p->x[t].codes + column);
        a[t][1] = four(p->x[t].codes + column + 4);
    }
    UNROLL
    for (int g = 0; g < n_groups; g++)
        UNROLL
    for (int h = 0; h < PARTS; h++) {
        bytes both, low, high;

        memcpy(&both, p->groups[g] + at + h * (int)sizeof(both), sizeof(both));
        low = expand_low(both);
        high = expand_high(both);
        UNROLL
        for (int t = 0; t < n_x; t++) {
            sum[g + t][h] = dot(sum[g + t][h], low, a[t][0]);
            sum[g + t][h] = dot(sum[g + t][h], high, a[t][1]);
        }
    }
}

INLINE void small_m_block(struct small_m *f, int block, const int n_x, const int n_groups)
{
    const struct int8_gemm *p = f->p;
    ivec sum[GROUPS_AT_ONCE][PARTS];

    UNROLL
    for (int i = 0; i < n_groups + n_x - 1; i++)
        UNROLL
    for (int h = 0; h < PARTS; h++)
        sum[i][h] = begin(p->x[n_x == 1 ? 0 : i].blocks[block].bias);
    UNROLL
    for (int v = 0; v < STEPS / 2; v++)
        small_m_columns(p, sum, group_codes_at(block) + (ptrdiff_t)v * 64, block * 32 + 8 * v, n_x,
                        n_groups);
    UNROLL
    for (int g = 0; g < n_groups; g++) {
        fvec scales[PARTS];

        UNROLL
        for (int h = 0; h < PARTS; h++)
            scales[h] = scales_of(p->groups[g] + group_scales_at(block) + h * LANES);
        UNROLL
        for (int t = 0; t < n_x; t++)
            add_block(f->acc[g + t], sum[g + t], scales, p->x[t].blocks[block].scale);
    }
}

/* Prefetches the next group while block b is multiplied, in STREAMS parallel parts: memory
 * bandwidth is higher with several streams than with one. */
INLINE void fetch_next(const struct int8_gemm *p, int b)
{
    const ptrdiff_t part = group_bytes(p->n_blocks) / (STREAMS * FETCH_BYTES) * FETCH_BYTES;

    UNROLL
    for (int i = 0; i < STREAMS; i++)
        __builtin_prefetch(p->next + i * part + (ptrdiff_t)b * FETCH_BYTES, 0, 2);
}

INLINE void fetch_line(const uint8_t *line)
{
    __builtin_prefetch(line + FAR_BYTES, 0, 2);
    __builtin_prefetch(line + NEAR_BYTES, 0, 3);
}

/* Prefetches ahead of block b of several groups, each of which is a stream. */
INLINE void prefetch_ahead(const struct int8_gemm *p, int b, const int n_groups)
{
    UNROLL
    for (int g = 0; g < n_groups; g++) {
        const uint8_t *codes = p->groups[g] + group_codes_at(b);

        if (b % GROUP_LINE_BLOCKS == 0)
            fetch_line(codes - GROUP_LINE_BYTES);
        UNROLL
        for (int v = 0; v < STEPS / 2; v++)
            fetch_line(codes + (ptrdiff_t)v * FETCH_BYTES);
    }
}

/* One outlier of one token times its column of weights, for all groups. */
INLINE void outlier_step(const struct int8_gemm *p, const struct int8_outlier *o, fvec acc[][PARTS],
                         const int n_groups)
{
    const unsigned step = (unsigned)o->step, shift = step % 2 * 4;
    const int block = (int)(step / STEPS);
    const ptrdiff_t codes = group_codes_at(block) + (ptrdiff_t)(step % STEPS / 2 * 64);
    const ptrdiff_t scales = group_scales_at(block);
    const bytes a = four(o->codes);

    UNROLL
    for (int g = 0; g < n_groups; g++) {
        ivec sum[PARTS];
        fvec of_rows[PARTS];

        UNROLL
        for (int h = 0; h < PARTS; h++) {
            uvec both;

            memcpy(&both, p->groups[g] + codes + h * (int)sizeof(both), sizeof(both));
            sum[h] = dot(begin(o->block.bias), expand_low((bytes)(both >> shift)), a);
            of_rows[h] = scales_of(p->groups[g] + scales + h * LANES);
        }
        add_block(acc[g], sum, of_rows, o->block.scale);
    }
}

/* One token's outliers from number i on, as far as their blocks precede `end`: these were just
 * multiplied and are in the L1 cache. Returns the number of the next outlier. */
INLINE int small_m_outliers(struct small_m *f, int i, int end, const int n_groups)
{
    const struct int8_row *row = f->p->x;

    for (; i < row->n_outliers && row->outliers[i].step < end * STEPS; i++)
        outlier_step(f->p, &row->outliers[i], f->outliers, n_groups);
    return i;
}

INLINE void small_m_clear(struct small_m *f, const int n_x, const int n_groups)
{
    UNROLL
    for (int i = 0; i < n_groups + n_x - 1; i++)
        UNROLL
    for (int h = 0; h < PARTS; h++)
        f->acc[i][h] = f->outliers[i][h] = all_v(0);
}

INLINE void small_m_store(const struct small_m *f, float *out, const int n_x, const int n_groups)
{
    const bool has_outliers = n_x == 1 && f->p->x->n_outliers > 0;

    UNROLL
    for (int i = 0; i < n_groups + n_x - 1; i++)
        UNROLL
    for (int h = 0; h < PARTS; h++)
        store_v(out + i * GROUP_ROWS + h * LANES,
                has_outliers ? f->acc[i][h] + f->outliers[i][h] : f->acc[i][h]);
}

INLINE void small_m_tokens(const struct int8_gemm *p, const int n_x, const int n_groups)
{
    struct small_m f = {.p = p};
    float *out = p->out;
    int next = 0, slice = slice_end(p->slices, 0, p->n_blocks); /* the slice's end */

    small_m_clear(&f, n_x, n_groups);
    for (int first = 0, end; first < p->n_blocks; first = end) {
        end = slice - first < NEAR_BLOCKS ? slice : first + NEAR_BLOCKS;
        for (int b = first; b < end; b++) {
            if (n_groups == 1)
                fetch_next(p, b);
            else if (p->has_prefetch)
                prefetch_ahead(p, b, n_groups);
            small_m_block(&f, b, n_x, n_groups);
        }
        if (n_x == 1)
            next = small_m_outliers(&f, next, end, n_groups);
        if (end < slice)
            continue;
        small_m_store(&f, out, n_x, n_groups);
        small_m_clear(&f, n_x, n_groups);
        out += p->slices.stride;
        slice = slice_end(p->slices, end, p->n_blocks);
    }
}

/* ---- many tokens ---- */

static void expand(struct expanded *out, const struct int8_gemm *p, int first, int n)
{
    for (int b = 0; b < n; b++) {
        const uint8_t *codes = p->groups[0] + group_codes_at(first + b);

        for (int v = 0; v < STEPS / 2; v++)
            for (int h = 0; h < PARTS; h++) {
                bytes both;

                memcpy(&both, codes + v * 64 + h * (int)sizeof(both), sizeof(both));
                out->w[b * STEPS + 2 * v][h] = expand_low(both);
                out->w[b * STEPS + 2 * v + 1][h] = expand_high(both);
            }
        for (int h = 0; h < PARTS; h++)
            out->scales[b][h] = scales_of(p->groups[0] + group_scales_at(first + b) + h * LANES);
    }
}

/* The blocks of an expanded chunk that belong to one slice. */
struct segment {
    int first, n;  /* blocks [first, first + n) of the row */
    int at;        /* the first one's place in the chunk */
    bool is_start; /* of the slice: its sums are still to be set to 0 */
    float *out;    /* the slice's sums */
};

/* The segment from block `first` on of a chunk of blocks [chunk, end). */
static struct segment segment_at(const struct int8_gemm *p, int first, int chunk, int end)
{
    const int slice = p->slices.size == 0 ? 0 : first / p->slices.size;
    const int start = slice * p->slices.size;
    const int behind = slice_end(p->slices, start, p->n_blocks);

    return (struct segment){.first = first,
                            .n = (behind < end ? behind : end) - first,
                            .at = first - chunk,
                            .is_start = first == start,
                            .out = p->out + slice * p->slices.stride};
}

/* A segment times n_x tokens from token x on; accumulates in s->out. */
INLINE void large_m_tile(const struct int8_gemm *p, const struct expanded *e,
                         const struct segment *s, int x, const int n_x)
{
    const int8_t *codes[INT8_TOKENS];
    const struct int8_block *blocks[INT8_TOKENS];
    float *const outs = s->out + (ptrdiff_t)x * GROUP_ROWS;

    UNROLL
    for (int t = 0; t < n_x; t++) {
        codes[t] = p->x[x + t].codes + (ptrdiff_t)s->first * 32;
        blocks[t] = p->x[x + t].blocks + s->first;
    }
    for (int b = 0; b < s->n; b++) {
        const bytes(*w)[PARTS] = e->w + (ptrdiff_t)(s->at + b) * STEPS;
        ivec sum[INT8_TOKENS][PARTS];

        UNROLL
        for (int t = 0; t < n_x; t++)
            UNROLL
        for (int h = 0; h < PARTS; h++)
            sum[t][h] = begin(blocks[t][b].bias);
        UNROLL
        for (int i = 0; i < STEPS; i++)
            UNROLL
        for (int t = 0; t < n_x; t++) {
            const bytes a = four(codes[t] + (ptrdiff_t)b * 32 + 4 * i);

            UNROLL
            for (int h = 0; h < PARTS; h++)
                sum[t][h] = dot(sum[t][h], w[i][h], a);
        }
        UNROLL
        for (int t = 0; t < n_x; t++) {
            float *out = outs + t * GROUP_ROWS;
            fvec acc[PARTS];

            UNROLL
            for (int h = 0; h < PARTS; h++)
                acc[h] = load_v(out + h * LANES);
            add_block(acc, sum[t], e->scales[s->at + b], blocks[t][b].scale);
            UNROLL
            for (int h = 0; h < PARTS; h++)
                store_v(out + h * LANES, acc[h]);
        }
    }
}

static void large_m_segment(const struct int8_gemm *p, const struct expanded *e,
                            const struct segment *s)
{
    int x = 0;

    if (s->is_start)
        memset(s->out, 0, (size_t)p->n_x * GROUP_ROWS * sizeof(float));
    for (; x + INT8_TOKENS <= p->n_x; x += INT8_TOKENS)
        large_m_tile(p, e, s, x, INT8_TOKENS);
    for (; x + 2 <= p->n_x; x += 2)
        large_m_tile(p, e, s, x, 2);
    if (x < p->n_x)
        large_m_tile(p, e, s, x, 1);
}

/* Blocks [first, end), expanded, segment by segment. */
INLINE void run_chunk(const struct int8_gemm *p, const struct expanded *e, int first, int end,
                      void (*of_segment)(const struct int8_gemm *, const struct expanded *,
                                         const struct segment *))
{
    for (int b = first; b < end;) {
        const struct segment s = segment_at(p, b, first, end);

        of_segment(p, e, &s);
        b += s.n;
    }
}

static void large_m_tokens(const struct int8_gemm *p)
{
    struct expanded chunk;

    for (int first = 0; first < p->n_blocks; first += CHUNK_BLOCKS) {
        const int n_left = p->n_blocks - first, n = n_left < CHUNK_BLOCKS ? n_left : CHUNK_BLOCKS;

        expand(&chunk, p, first, n);
        run_chunk(p, &chunk, first, first + n, large_m_segment);
    }
}

/* ---- outliers ---- */

/* The sum of a token's outliers in a slice starts at 0 and is added at the end. So the bits do not
 * depend on when outliers are multiplied: during the stream, after it, or chunk by chunk. */
INLINE void add_outliers(float *out, const fvec sums[PARTS])
{
    UNROLL
    for (int h = 0; h < PARTS; h++)
        store_v(out + h * LANES, load_v(out + h * LANES) + sums[h]);
}

/* How far the list of a token's outliers has been multiplied. */
struct outlier_cursor {
    float *out; /* the token's sums of the slice */
    int end;    /* of the slice: a step */
    int n_done; /* outliers */
};

static struct outlier_cursor outlier_cursor_of(const struct int8_gemm *p, int token)
{
    return (struct outlier_cursor){.out = p->out + (ptrdiff_t)token * GROUP_ROWS,
                                   .end = slice_end(p->slices, 0, p->n_blocks) * STEPS};
}

INLINE void clear_outliers(fvec sums[PARTS])
{
    UNROLL
    for (int h = 0; h < PARTS; h++)
        sums[h] = all_v(0);
}

/* Ends a slice, and goes on to the slice with this step. */
INLINE void next_slice(struct outlier_cursor *c, fvec sums[PARTS], const struct int8_gemm *p,
                       int step)
{
    add_outliers(c->out, sums);
    clear_outliers(sums);
    for (; step >= c->end; c->out += p->slices.stride)
        c->end += p->slices.size * STEPS;
}

static void outliers_packed(const struct int8_gemm *p, int token)
{
    const struct int8_row *row = &p->x[token];
    struct outlier_cursor c = outlier_cursor_of(p, token);
    fvec sums[1][PARTS];

    clear_outliers(sums[0]);
    for (int i = 0; i < row->n_outliers; i++) {
        if (row->outliers[i].step >= c.end)
            next_slice(&c, sums[0], p, row->outliers[i].step);
        outlier_step(p, &row->outliers[i], sums, 1);
    }
    add_outliers(c.out, sums[0]);
}

/* The next outliers of a token that are in the chunk of blocks [first, end). */
INLINE void outliers_expanded(const struct int8_gemm *p, const struct int8_row *row,
                              const struct expanded *e, int first, int end, fvec acc[PARTS],
                              struct outlier_cursor *cursor)
{
    const struct int8_outlier *o = row->outliers + cursor->n_done;
    const struct int8_outlier *last = row->outliers + row->n_outliers;
    struct outlier_cursor c = *cursor;
    fvec sums[PARTS]; /* no pointer aliases it: stays in registers */

    if (o == last || o->step >= end * STEPS)
        return;
    memcpy(sums, acc, sizeof(sums));
    for (; o < last && o->step < end * STEPS; o++) {
        const int step = o->step - first * STEPS;
        const bytes a = four(o->codes);
        ivec sum[PARTS];

        if (o->step >= c.end)
            next_slice(&c, sums, p, o->step);
        UNROLL
        for (int h = 0; h < PARTS; h++)
            sum[h] = dot(begin(o->block.bias), e->w[step][h], a);
        add_block(sums, sum, e->scales[step / STEPS], o->block.scale);
    }
    c.n_done = (int)(o - row->outliers);
    *cursor = c;
    memcpy(acc, sums, sizeof(sums));
}

/* Expands the group chunk by chunk; multiplies the segments of each chunk, and then the outliers of
 * all tokens. of_segment is a constant at each call and is inlined; NULL: only outliers. */
INLINE void expanded_gemm(const struct int8_gemm *p,
                          void (*of_segment)(const struct int8_gemm *, const struct expanded *,
                                             const struct segment *))
{
    struct expanded chunk;
    fvec sums[INT8_X_MAX][PARTS];
    struct outlier_cursor cursors[INT8_X_MAX];

    for (int t = 0; t < p->n_x; t++) {
        clear_outliers(sums[t]);
        cursors[t] = outlier_cursor_of(p, t);
    }
    for (int first = 0; first < p->n_blocks; first += CHUNK_BLOCKS) {
        const int n_left = p->n_blocks - first, n = n_left < CHUNK_BLOCKS ? n_left : CHUNK_BLOCKS;

        expand(&chunk, p, first, n);
        if (of_segment != NULL)
            run_chunk(p, &chunk, first, first + n, of_segment);
        for (int t = 0; t < p->n_x; t++)
            outliers_expanded(p, &p->x[t], &chunk, first, first + n, sums[t], &cursors[t]);
    }
    for (int t = 0; t < p->n_x; t++)
        if (p->x[t].n_outliers > 0)
            add_outliers(cursors[t].out, sums[t]);
}

/* With many outliers it is faster to expand the group again. */
static void outliers_many(const struct int8_gemm *p)
{
    expanded_gemm(p, NULL);
}

/* The outliers of one group and its tokens. */
static void isa_outliers_int8(const struct int8_gemm *p)
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
            outliers_packed(p, t);
}

/* ---- dispatch ---- */

static void gemv_int8(const struct int8_gemm *p)
{
    if (p->n_groups == 4)
        small_m_tokens(p, 1, 4);
    else if (p->n_groups == 3)
        small_m_tokens(p, 1, 3);
    else if (p->n_groups == 2)
        small_m_tokens(p, 1, 2);
    else
        small_m_tokens(p, 1, 1);
}

static void isa_gemm_int8(const struct int8_gemm *p)
{
    if (p->n_x == 1) {
        gemv_int8(p);
        return;
    }
    if (p->n_x == 2)
        small_m_tokens(p, 2, 1);
    else if (p->n_x == 3)
        small_m_tokens(p, 3, 1);
    else if (p->n_x == 4)
        small_m_tokens(p, 4, 1);
    else
        large_m_tokens(p);
    isa_outliers_int8(p);
}

/* ---- quantization of activations ---- */

/* The largest magnitude, by integer comparison of the bits: NaN and infinity compare above any
 * number, and propagate through the scale. */
INLINE float largest_of(const float *x)
{
    ivec bits, most = {0};
    int32_t lanes[LANES], top = 0;
    float largest;

    UNROLL
    for (int i = 0; i < 32; i += LANES) {
        memcpy(&bits, x + i, sizeof(bits));
        bits &= 0x7FFFFFFF;
        most = (ivec)choose_v(bits > most, (fvec)bits, (fvec)most);
    }
    memcpy(lanes, &most, sizeof(lanes));
    for (int i = 0; i < LANES; i++)
        top = lanes[i] > top ? lanes[i] : top;
    memcpy(&largest, &top, sizeof(largest));
    return largest;
}

/* code = round(x * 127 / largest), ties to even; x is about code * largest / 127. A block whose
 * largest magnitude is below 1e-30 becomes zeros. */
static void isa_quantise(int8_t *codes, struct int8_block *blocks, const float *x, int n_blocks)
{
    const float round = 12582912.0f; /* 1.5 * 2^23: the low bits become the integer */

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

/* An ISA with its own kernel for many tokens defines ISA_GEMM_INT8 before it includes this. */
#ifndef ISA_GEMM_INT8
#define ISA_GEMM_INT8 isa_gemm_int8
#endif

/* The members of struct kernels that kernels_float.h, kernels_sums.h and this header define. */
#define ISA_FUNCTIONS                                                                              \
    .widen_bf16 = isa_widen_bf16, .dequant_mxfp4 = dequant_mxfp4_ref, .gemm_f32 = isa_gemm_f32,    \
    .gemm_bf16 = isa_gemm_bf16, .quantise = isa_quantise, .gemm_int8 = ISA_GEMM_INT8,              \
    .weighted_sum = isa_weighted_sum, .scale = isa_scale, .exp_sum = isa_exp_sum,                  \
    .sum_slices = isa_sum_slices, .sum_values = isa_sum_values, .norm = isa_norm,                  \
    .swiglu = isa_swiglu
