/* Attention over I16 pages by 16-bit integer dot products, whose sums are exact. An ISA's file
 * defines madd_v, float_v and narrow, and includes this once after kernels_attn.h.
 *
 * A word of keys has two elements of a slot and is multiplied with the same two of a query. A word
 * of values has one column of two slots and is multiplied with their weights. The instruction
 * multiplies both halves of each lane and adds the two products. The accumulators of 32 bits stay
 * in registers, as in kernels_attn.h.
 *
 * No sum exceeds 31 bits. Queries are quantized as keys are, with a norm of at most KV_I16_NORM,
 * and a dot product is at most the product of the norms (Cauchy-Schwarz). Weights are rounded to
 * integers whose sum is at most WEIGHT_SUM_MAX plus half a unit each, and values are at most
 * KV_I16_VALUE_MAX. */
#include <assert.h>

enum {
    GROUP_HEADS = 8, /* heads that use a page together: their scores are 2 KB */
    HEAD_LANES = GROUP_HEADS > LANES ? GROUP_HEADS : LANES,
    MADD_VECTORS = KV_COLUMNS / LANES,
    MADD_HEADS = GROUP_HEADS / MADD_VECTORS,             /* heads whose sums stay in registers */
    MADD_ROWS = 2,                                       /* rows of a page in one iteration */
    MADD_FETCHES = MADD_ROWS * MADD_HEADS / GROUP_HEADS, /* lines prefetched then */
    CODE_MAX = 32767,
    WEIGHT_SUM_MAX = 131000
};
static_assert((WEIGHT_SUM_MAX + PAGE_TOKENS / 2 + 1) * (int64_t)KV_I16_VALUE_MAX <= INT32_MAX,
              "sums of values fit");
static_assert((KV_I16_NORM + 8) * (int64_t)(KV_I16_NORM + 8) <= INT32_MAX,
              "scores fit: rounding adds 8 at most for 256 elements");

/* Scores, weights and factors of a group's heads for one page. */
struct page_work {
    float scores[GROUP_HEADS][PAGE_TOKENS];    /* unscaled scores; then weights */
    int16_t weights[GROUP_HEADS][PAGE_TOKENS]; /* rounded weights */
    float shares[PAGE_TOKENS];                 /* value scale / the largest; 0 if not seen */
    float factors[GROUP_HEADS];                /* score times factor is the score in base 2 */
    float shrink[HEAD_LANES];                  /* factor of the old sums */
    float grow[HEAD_LANES];                    /* factor of the page's weights */
    float q_scales[GROUP_HEADS];               /* factor of the page's sums of values */
    int begin, end; /* slots, extended to whole tile rows around those that the row sees */
    bool is_whole;  /* the row sees the whole page */
};

/* 2^x for x <= 0 with a relative error below 3e-6, which is enough for weights rounded to 15 bits.
 * Special cases as in exp2_v(). */
INLINE fvec exp2_short_v(fvec x)
{
    const fvec round = all_v(12582912.0f + 127.0f);
    const fvec within = max_v(all_v(-127.0f), x);
    const fvec shifted = within + round;
    const fvec f = within - (shifted - round);
    const fvec p01 = fma_v(all_v(6.93124202e-1f), f, all_v(1.0f));
    const fvec p23 = fma_v(all_v(5.59063529e-2f), f, all_v(2.40240988e-1f));
    const fvec f2 = f * f;
    const fvec p = fma_v(fma_v(all_v(9.58281895e-3f), f2, p23), f2, p01);

    return p * (fvec)((uvec)shifted << 23);
}

/* A vector of slots in which the slots that the row does not see are `other`. */
INLINE fvec visible_v(const struct attend *a, bool is_whole, int slot, fvec v, fvec other)
{
    ivec at;

    if (is_whole)
        return v;
    if (slot >= a->first && slot + LANES <= a->end)
        return v;
    at = slots_v(slot);
    return choose_v((at >= a->first) & (at < a->end), v, other);
}

/* Two codes, broadcast to all lanes. */
INLINE uvec pair_v(const int16_t *codes)
{
    const uvec zeros = {0};
    uint32_t bits;

    memcpy(&bits, codes, sizeof(bits));
    return zeros + bits;
}

/* ---- quantized queries ---- */

/* The factor that turns a head's elements into codes. */
static float inverse_scale(const float *x, int n, float *unit)
{
    fvec squares = all_v(0), most = all_v(0);
    float norm, largest, inverse;

    for (int i = 0; i < n; i += LANES) {
        const fvec v = i + LANES <= n ? load_v(x + i) : load_part(x + i, n - i);

        squares = fma_v(v, v, squares);
        most = max_v(most, (fvec)((uvec)v & 0x7FFFFFFFu));
    }
    norm = sqrtf(sum_v(squares));
    largest = most_v(most);
    *unit = 0;
    if (norm < KV_TINY)
        return 0;
    inverse = (float)KV_I16_NORM / norm;
    if (inverse * largest > (float)CODE_MAX)
        inverse = (float)CODE_MAX / largest;
    *unit = 1.0f / inverse; /* NaN if the norm is */
    return inverse;
}

static void isa_codes_i16(int16_t *codes, float *q_scales, const float *x, int n_heads,
                          int head_dim)
{
    const int width = kv_width(head_dim);

    for (int h = 0; h < n_heads; h++, x += head_dim, codes += width) {
        const fvec inverse = all_v(inverse_scale(x, head_dim, &q_scales[h]));

        for (int i = 0; i < width; i += KV_COLUMNS) {
            fvec v[MADD_VECTORS];

            UNROLL
            for (int k = 0; k < MADD_VECTORS; k++) {
                const int at = i + k * LANES, n_left = head_dim - at;

                v[k] = inverse * (n_left >= LANES ? load_v(x + at)
                                  : n_left > 0    ? load_part(x + at, n_left)
                                                  : all_v(0));
            }
            narrow(codes + i, v);
        }
    }
}

/* ---- dot products ---- */

struct madd {
    const int16_t *pairs;  /* of the first head, one pair for each row */
    const uint32_t *words; /* rows of a tile of the page */
    int stride;            /* codes from head to head */
    int n_rows;            /* a multiple of MADD_ROWS */
    const char *prefetch;  /* lines to prefetch: MADD_FETCHES for each MADD_ROWS rows */
};

/* sum[h] += the products of the rows with head h. */
INLINE void madd_rows(ivec sum[][MADD_VECTORS], struct madd m, const int n)
{
    const uint32_t *const end = m.words + m.n_rows * KV_COLUMNS;

    for (; m.words != end; m.words += MADD_ROWS * KV_COLUMNS) {
        UNROLL
        for (int i = 0; i < MADD_FETCHES; i++, m.prefetch += LINE_BYTES)
            __builtin_prefetch(m.prefetch);
        UNROLL
        for (int row = 0; row < MADD_ROWS; row++) {
            uvec words[MADD_VECTORS];

            UNROLL
            for (int v = 0; v < MADD_VECTORS; v++)
                words[v] = load_words(m.words, row * KV_COLUMNS + v * LANES);
            UNROLL
            for (int h = 0; h < n; h++) {
                const uvec pair = pair_v(m.pairs + h * m.stride + 2 * row);

                UNROLL
                for (int v = 0; v < MADD_VECTORS; v++)
                    sum[h][v] = madd_v(sum[h][v], pair, words[v]);
            }
        }
        m.pairs += 2 * MADD_ROWS;
    }
}

/* Scores of n heads from `head` on, for the tile that starts at `slot`. */
INLINE void madd_scores(const struct attend *a, struct page_work *w, int head, const int n,
                        int slot, const char *prefetch)
{
    const int width = kv_width(a->head_dim);
    ivec sum[MADD_HEADS][MADD_VECTORS] = {0};

    madd_rows(sum,
              (struct madd){.pairs = a->codes + (ptrdiff_t)head * width,
                            .words = column_words(a->sides[0], slot, width / 2, 0),
                            .stride = width,
                            .n_rows = width / 2,
                            .prefetch = prefetch},
              n);
    UNROLL
    for (int v = 0; v < MADD_VECTORS; v++) {
        const int at = slot + v * LANES;
        const fvec scale = load_v(a->scales[0] + at);

        UNROLL
        for (int h = 0; h < n; h++)
            store_v(w->scores[head + h] + at,
                    visible_v(a, w->is_whole, at, float_v(sum[h][v]) * scale, all_v(-INFINITY)));
    }
}

/* acc = shrink acc + weights times values, for n heads and a tile of columns. */
INLINE void madd_values(const struct attend *a, const struct page_work *w, int head, const int n,
                        int column, const char *prefetch)
{
    const int width = kv_width(a->head_dim);
    float *acc = a->acc + (ptrdiff_t)head * width + column;
    ivec sum[MADD_HEADS][MADD_VECTORS] = {0};

    madd_rows(sum,
              (struct madd){.pairs = w->weights[head] + w->begin,
                            .words = column_words(a->sides[1], column, PAGE_TOKENS / 2, 0) +
                                     w->begin / 2 * KV_COLUMNS,
                            .stride = PAGE_TOKENS,
                            .n_rows = (w->end - w->begin) / 2,
                            .prefetch = prefetch},
              n);
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < MADD_VECTORS; v++) {
        float *at = acc + h * width + v * LANES;
        const fvec page = float_v(sum[h][v]) * all_v(w->q_scales[head + h]);

        store_v(at, fma_v(load_v(at), all_v(w->shrink[head + h]), page));
    }
}

/* ---- softmax ---- */

/* Sets `shares`: each slot's scale of values / the largest scale that the row sees. Returns the
 * largest scale; NaN if one of them is. */
INLINE float share_out(const struct attend *a, struct page_work *w)
{
    fvec most = all_v(0), sum = all_v(0);
    float largest;

    for (int slot = w->begin; slot < w->end; slot += LANES) {
        const fvec scale = visible_v(a, w->is_whole, slot, load_v(a->scales[1] + slot), all_v(0));

        most = max_v(most, scale);
        sum += scale;
        store_v(w->shares + slot, scale);
    }
    largest = most_v(most);
    for (int slot = w->begin; slot < w->end; slot += LANES)
        store_v(w->shares + slot,
                load_v(w->shares + slot) * all_v(largest > 0 ? 1.0f / largest : 0.0f));
    return largest + 0.0f * sum_v(sum);
}

INLINE float largest_score(const struct page_work *w, int head)
{
    fvec most = load_v(w->scores[head] + w->begin);

    for (int slot = w->begin + LANES; slot < w->end; slot += LANES)
        most = max_v(most, load_v(w->scores[head] + slot));
    return most_v(most);
}

/* Turns a head's scores into shares times exp(score - largest of the page); returns the sums of the
 * exponentials by lane. */
INLINE fvec softmax_page(struct page_work *w, int head, float largest)
{
    const fvec factor = all_v(w->factors[head]), shift = all_v(-largest);
    fvec sum[MADD_VECTORS] = {0}, total = all_v(0);

    for (int slot = w->begin; slot < w->end; slot += KV_COLUMNS)
        UNROLL
    for (int v = 0; v < MADD_VECTORS; v++) {
        float *at = w->scores[head] + slot + v * LANES;
        const fvec p = exp2_short_v(fma_v(load_v(at), factor, shift));

        sum[v] += p;
        store_v(at, p * load_v(w->shares + slot + v * LANES));
    }
    UNROLL
    for (int v = 0; v < MADD_VECTORS; v++)
        total += sum[v];
    return total;
}

INLINE void round_weights(struct page_work *w, int head, float factor)
{
    for (int slot = w->begin; slot < w->end; slot += KV_COLUMNS) {
        fvec v[MADD_VECTORS];

        UNROLL
        for (int k = 0; k < MADD_VECTORS; k++)
            v[k] = load_v(w->scores[head] + slot + k * LANES) * all_v(factor);
        narrow(w->weights[head] + slot, v);
    }
}

/* Updates the largest scores, and sets the exponents by which the old sums and the page's weights
 * are scaled down. */
INLINE void update_max(const struct attend *a, struct page_work *w, float *largest)
{
    for (int h = 0; h < a->n_heads; h++) {
        struct softmax *m = &a->states[h];
        const float before = m->largest;

        largest[h] = largest_score(w, h) * w->factors[h];
        m->largest = largest[h] > before ? largest[h] : before;
        w->shrink[h] = before - m->largest;
        w->grow[h] = largest[h] - m->largest;
    }
    for (int h = a->n_heads; h < HEAD_LANES; h++)
        w->shrink[h] = w->grow[h] = 0;
    for (int h = 0; h < GROUP_HEADS; h += LANES) {
        store_v(w->shrink + h, exp2_v(load_v(w->shrink + h)));
        store_v(w->grow + h, exp2_v(load_v(w->grow + h)));
    }
}

/* The step of online softmax. The weights of a page are relative to the page's own largest
 * score. */
INLINE void rescale_page(const struct attend *a, struct page_work *w)
{
    const float scale = share_out(a, w);
    float largest[GROUP_HEADS], sums[GROUP_HEADS];
    fvec sum[GROUP_HEADS] = {0};

    update_max(a, w, largest);
    for (int h = 0; h < a->n_heads; h++)
        sum[h] = softmax_page(w, h, largest[h]);
    for (int h = 0; h < GROUP_HEADS; h += 4)
        sums_v(sums + h, sum[h], sum[h + 1], sum[h + 2], sum[h + 3]);
    for (int h = 0; h < a->n_heads; h++) {
        const float most = (float)WEIGHT_SUM_MAX / sums[h];
        const float factor = most < (float)CODE_MAX ? most : (float)CODE_MAX;

        a->states[h].denominator = a->states[h].denominator * w->shrink[h] + sums[h] * w->grow[h];
        w->q_scales[h] = w->grow[h] * scale / factor;
        round_weights(w, h, factor);
    }
}

/* ---- a page ---- */

INLINE void score_heads(const struct attend *a, struct page_work *w, int slot, const char *prefetch)
{
    const int n_bytes = kv_width(a->head_dim) / 2 / MADD_ROWS * MADD_FETCHES * LINE_BYTES;
    int head = 0;

    for (; head + MADD_HEADS <= a->n_heads; head += MADD_HEADS, prefetch += n_bytes)
        madd_scores(a, w, head, MADD_HEADS, slot, prefetch);
    for (; head + 2 <= a->n_heads; head += 2, prefetch += n_bytes)
        madd_scores(a, w, head, 2, slot, prefetch);
    if (head < a->n_heads)
        madd_scores(a, w, head, 1, slot, prefetch);
}

INLINE void value_heads(const struct attend *a, const struct page_work *w, int column,
                        const char *prefetch)
{
    const int n_bytes = PAGE_TOKENS / 2 / MADD_ROWS * MADD_FETCHES * LINE_BYTES;
    int head = 0;

    for (; head + MADD_HEADS <= a->n_heads; head += MADD_HEADS, prefetch += n_bytes)
        madd_values(a, w, head, MADD_HEADS, column, prefetch);
    for (; head + 2 <= a->n_heads; head += 2, prefetch += n_bytes)
        madd_values(a, w, head, 2, column, prefetch);
    if (head < a->n_heads)
        madd_values(a, w, head, 1, column, prefetch);
}

INLINE void fetch_scales(const void *scales)
{
    for (int i = 0; i < PAGE_TOKENS * (int)sizeof(float); i += LINE_BYTES)
        __builtin_prefetch((const char *)scales + i);
}

/* Prefetches half a page ahead, so that the lines in use and the prefetched ones fit into the L1
 * cache together: this page's values during its keys, the next page's keys during its values. With
 * eight heads the two halves of a tile prefetch as many lines as a tile has. */
INLINE void attend_slots(const struct attend *a, const int begin, const int end,
                         const bool is_whole)
{
    const int width = kv_width(a->head_dim);
    const ptrdiff_t side_bytes = (ptrdiff_t)PAGE_TOKENS * width * 2;
    const char *values = a->sides[1], *next = a->n_prefetch_lines > 0 ? a->prefetch[0] : values;
    _Alignas(LINE_BYTES) struct page_work w;

    w.begin = begin;
    w.end = end;
    w.is_whole = is_whole;
    fetch_scales(values + side_bytes);
    for (int h = 0; h < a->n_heads; h++)
        w.factors[h] = a->q_scales[h] * a->scale * LOG2_E;
    for (int slot = begin; slot < end; slot += KV_COLUMNS)
        score_heads(a, &w, slot, values + (ptrdiff_t)slot * width * 2);
    rescale_page(a, &w);
    for (int column = 0; column < width; column += KV_COLUMNS)
        value_heads(a, &w, column, next + (ptrdiff_t)column * PAGE_TOKENS * 2);
    fetch_scales(next + side_bytes);
}

static void attend_group(const struct attend *a)
{
    const int begin = a->first / KV_COLUMNS * KV_COLUMNS;

    if (a->first == 0 && a->end == PAGE_TOKENS)
        attend_slots(a, 0, PAGE_TOKENS, true);
    else
        attend_slots(a, begin, (a->end + KV_COLUMNS - 1) / KV_COLUMNS * KV_COLUMNS, false);
}

/* Groups of more than GROUP_HEADS heads, GROUP_HEADS at a time. */
static void attend_parts(const struct attend *a)
{
    const int width = kv_width(a->head_dim);
    struct attend part = *a;

    for (int n_left = a->n_heads; n_left > 0; n_left -= GROUP_HEADS) {
        part.n_heads = n_left < GROUP_HEADS ? n_left : GROUP_HEADS;
        attend_group(&part);
        part.codes += GROUP_HEADS * width;
        part.q_scales += GROUP_HEADS;
        part.states += GROUP_HEADS;
        part.acc += GROUP_HEADS * width;
        part.n_prefetch_lines = 0; /* prefetch once for each page */
    }
}

static void isa_attend_i16(const struct attend *a)
{
    if (a->n_heads <= GROUP_HEADS)
        attend_group(a);
    else
        attend_parts(a);
}

#define ATTN_I16_FUNCTIONS .attend_i16 = isa_attend_i16, .codes_i16 = isa_codes_i16
