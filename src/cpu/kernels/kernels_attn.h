/* The attention kernels of an ISA on F32 and BF16 pages, in the compilers' generic vectors. An
 * ISA's file defines max_v and min_v, which return b if a or b is NaN, and includes this once after
 * kernels_float.h.
 *
 * Scores: a vector holds one element d of LANES keys of a page. So a score is one chain of fused
 * multiply-adds over d, and no sum crosses lanes. The sums of TILE_HEADS heads and two vectors of
 * keys stay in registers. Values: a vector holds LANES columns; a head's sum is one chain over the
 * slots. BF16 is widened in registers: a vector of words has two elements in each lane, in its low
 * and high half.
 *
 * Flops: 4 D a head and key. In BF16 a page of one key/value head is 8 KB of keys and 8 KB of
 * values, which stay in the L1 cache while all query heads and rows use them: bound by the
 * multiply-adds. */
#include "backend/kv_page.h"

enum {
    KEY_VECTORS = 2, /* vectors of keys in a tile of scores, and of columns in a tile of values */
    TILE_HEADS = LANES == 8 ? 4 : 8, /* TILE_HEADS * KEY_VECTORS = half of the registers */
    TILE_KEYS = KEY_VECTORS * LANES,
    LINE_BYTES = 64 /* a cache line */
};

#define LOG2_E 1.44269504088896341f

/* 2^x for x <= 0 and slightly above, with an error below 2 ulp. x < -126.5 gives 0, NaN gives NaN.
 * 2^x = 2^n 2^f with n = round(x), |f| <= 1/2; the polynomial is that of Cephes' exp2f. */
INLINE fvec exp2_v(fvec x)
{
    const fvec round = all_v(12582912.0f + 127.0f); /* the sum has n + 127 in its low bits */
    const fvec within = max_v(all_v(-127.0f), x);
    const fvec shifted = within + round;
    const fvec f = within - (shifted - round);
    const fvec f2 = f * f;
    const fvec p01 = fma_v(all_v(6.931472028550421e-1f), f, all_v(1.0f));
    const fvec p23 = fma_v(all_v(5.550332471162809e-2f), f, all_v(2.402264791363012e-1f));
    const fvec p45 = fma_v(all_v(1.339887440266574e-3f), f, all_v(9.618437357674640e-3f));
    const fvec p456 = fma_v(all_v(1.535336188319500e-4f), f2, p45);
    const fvec p = fma_v(fma_v(p456, f2, p23), f2, p01); /* Estrin's scheme */

    return p * (fvec)((uvec)shifted << 23);
}

#if LANES == 16
#define SWAP_EIGHTS 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7
#define SWAP_FOURS  4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11
#define SWAP_TWOS   2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13
#define SWAP_ONES   1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#elif LANES == 8
#define SWAP_FOURS 4, 5, 6, 7, 0, 1, 2, 3
#define SWAP_TWOS  2, 3, 0, 1, 6, 7, 4, 5
#define SWAP_ONES  1, 0, 3, 2, 5, 4, 7, 6
#else
#define SWAP_TWOS 2, 3, 0, 1
#define SWAP_ONES 1, 0, 3, 2
#endif

/* The largest lane. */
INLINE float most_v(fvec v)
{
#ifdef SWAP_EIGHTS
    v = max_v(v, __builtin_shufflevector(v, v, SWAP_EIGHTS));
#endif
#ifdef SWAP_FOURS
    v = max_v(v, __builtin_shufflevector(v, v, SWAP_FOURS));
#endif
    v = max_v(v, __builtin_shufflevector(v, v, SWAP_TWOS));
    v = max_v(v, __builtin_shufflevector(v, v, SWAP_ONES));
    return v[0];
}

/* *p broadcast to all lanes; as integers, because a float addition to zeros is not optimized
 * away. */
INLINE fvec at_v(const float *p)
{
    const uvec zeros = {0};
    uint32_t bits;

    memcpy(&bits, p, sizeof(bits));
    return (fvec)(zeros + bits);
}

INLINE uvec load_words(const void *words, ptrdiff_t i)
{
    uvec v;

    memcpy(&v, (const uint32_t *)words + i, sizeof(v));
    return v;
}

/* Row 0 of the columns of vector v in a tile. */
INLINE const uint32_t *column_words(const void *side, int column, int n_rows, int v)
{
    const int at = column + v * LANES;

    return (const uint32_t *)side + (ptrdiff_t)(at / KV_COLUMNS) * n_rows * KV_COLUMNS +
           at % KV_COLUMNS;
}

/* Element j of each word: F32 has one, BF16 two. */
INLINE fvec part_v(uvec words, bool is_bf16, int j)
{
    if (!is_bf16)
        return (fvec)words;
    return (fvec)(j == 0 ? words << 16 : words & 0xFFFF0000u);
}

/* Prefetches a cache line of the next keys (0) or values (1). */
INLINE void fetch(const struct attend *a, int which, int line)
{
    if (line < a->n_prefetch_lines)
        __builtin_prefetch(a->prefetch[which] + (ptrdiff_t)line * LINE_BYTES);
}

/* ---- scores ---- */

/* q.k of n heads from `head` on and TILE_KEYS slots from `slot` on. */
INLINE void score_tile(const struct attend *a, float scores[][PAGE_TOKENS], int head, const int n,
                       int slot, const bool is_bf16)
{
    const int n_parts = is_bf16 ? 2 : 1, n_rows = a->head_dim / n_parts;
    const float *q[TILE_HEADS];
    const uint32_t *keys[KEY_VECTORS];
    fvec sum[TILE_HEADS][KEY_VECTORS];

    UNROLL
    for (int v = 0; v < KEY_VECTORS; v++)
        keys[v] = column_words(a->sides[0], slot, kv_width(a->head_dim) / n_parts, v);
    UNROLL
    for (int h = 0; h < n; h++) {
        q[h] = a->q + (ptrdiff_t)(head + h) * a->head_dim;
        UNROLL
        for (int v = 0; v < KEY_VECTORS; v++)
            sum[h][v] = all_v(0);
    }
    for (int row = 0; row < n_rows; row++) {
        uvec words[KEY_VECTORS];

        if (head == 0)
            fetch(a, 0, slot / KV_COLUMNS * n_rows + row);
        UNROLL
        for (int v = 0; v < KEY_VECTORS; v++)
            words[v] = load_words(keys[v], row * KV_COLUMNS);
        UNROLL
        for (int j = 0; j < n_parts; j++)
            UNROLL
        for (int h = 0; h < n; h++) {
            const fvec at = at_v(&q[h][row * n_parts + j]);

            UNROLL
            for (int v = 0; v < KEY_VECTORS; v++)
                sum[h][v] = fma_v(at, part_v(words[v], is_bf16, j), sum[h][v]);
        }
    }
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < KEY_VECTORS; v++)
        store_v(scores[h] + slot + v * LANES, sum[h][v]);
}

/* ---- softmax ---- */

/* The slot number of each lane: slot, slot + 1, ... */
INLINE ivec slots_v(int slot)
{
    int32_t numbers[LANES];
    ivec v;

    for (int i = 0; i < LANES; i++)
        numbers[i] = slot + i;
    memcpy(&v, numbers, sizeof(v));
    return v;
}

/* Multiplies scores by the keys' scales and sets them to -inf outside of the row's keys; returns
 * the largest. */
INLINE float prepare(const struct attend *a, float *scores, int begin)
{
    fvec most = all_v(-INFINITY);

    if (a->scales[0] == NULL && a->first == 0 && a->end == PAGE_TOKENS) {
        UNROLL
        for (int slot = 0; slot < PAGE_TOKENS; slot += LANES)
            most = max_v(most, load_v(scores + slot));
        return most_v(most);
    }
    for (int slot = begin; slot < a->end; slot += LANES) {
        fvec s = load_v(scores + slot);

        if (a->scales[0] != NULL)
            s = s * load_v(a->scales[0] + slot);
        if (slot < a->first || slot + LANES > a->end) {
            const ivec at = slots_v(slot);

            s = choose_v((at >= a->first) & (at < a->end), s, all_v(-INFINITY));
        }
        store_v(scores + slot, s);
        most = max_v(most, s);
    }
    return most_v(most);
}

/* Turns scores into weights exp(score - largest), multiplied by the values' scales; returns the
 * sums of the weights before those scales, by lane. */
INLINE fvec softmax_weights(const struct attend *a, float *scores, int begin, float largest)
{
    const fvec factor = all_v(a->scale * LOG2_E), shift = all_v(-largest);
    fvec sum = all_v(0);

    for (int slot = begin; slot < a->end; slot += LANES) {
        fvec p = exp2_v(fma_v(load_v(scores + slot), factor, shift));

        sum += p;
        if (a->scales[1] != NULL)
            p = p * load_v(a->scales[1] + slot);
        store_v(scores + slot, p);
    }
    return sum;
}

/* The step of online softmax: the weights of the page, and the factor `shrink` for the old sums. */
INLINE void rescale_acc(const struct attend *a, float scores[][PAGE_TOKENS], float *shrink,
                        int head, const int n)
{
    struct softmax *m = a->states + head;
    const int begin = a->first / LANES * LANES;
    float factors[TILE_HEADS < LANES ? LANES : TILE_HEADS] = {0}, sums[TILE_HEADS];
    fvec sum[TILE_HEADS];

    UNROLL
    for (int h = 0; h < n; h++) {
        const float largest = prepare(a, scores[h], begin) * (a->scale * LOG2_E);

        factors[h] = m[h].largest;
        m[h].largest = largest > m[h].largest ? largest : m[h].largest;
        factors[h] -= m[h].largest;
    }
    UNROLL
    for (int h = 0; h < n; h += LANES)
        store_v(factors + h, exp2_v(load_v(factors + h)));
    UNROLL
    for (int h = 0; h < n; h++)
        sum[h] = softmax_weights(a, scores[h], begin, m[h].largest);
    UNROLL
    for (int h = 0; h + 4 <= n; h += 4)
        sums_v(sums + h, sum[h], sum[h + 1], sum[h + 2], sum[h + 3]);
    UNROLL
    for (int h = 0; h < n; h++) {
        shrink[h] = factors[h];
        m[h].denominator = m[h].denominator * shrink[h] + (n < 4 ? sum_v(sum[h]) : sums[h]);
    }
}

/* ---- values ---- */

struct value_tile {
    const float *p[TILE_HEADS];
    const uint32_t *values[KEY_VECTORS];
    fvec sum[TILE_HEADS][KEY_VECTORS];
};

/* Adds elements [from, to) of the words that start at a slot. */
INLINE void add_slots(struct value_tile *t, int slot, const int n, const int n_vectors,
                      const bool is_bf16, const int from, const int to)
{
    uvec words[KEY_VECTORS];

    UNROLL
    for (int v = 0; v < n_vectors; v++)
        words[v] = load_words(t->values[v], slot / (is_bf16 ? 2 : 1) * KV_COLUMNS);
    UNROLL
    for (int j = from; j < to; j++)
        UNROLL
    for (int h = 0; h < n; h++) {
        const fvec at = at_v(&t->p[h][slot + j]);

        UNROLL
        for (int v = 0; v < n_vectors; v++)
            t->sum[h][v] = fma_v(at, part_v(words[v], is_bf16, j), t->sum[h][v]);
    }
}

/* acc = shrink acc + p v for n heads and n_vectors vectors of columns. */
INLINE void value_tile(const struct attend *a, float scores[][PAGE_TOKENS], const float *shrink,
                       int head, const int n, int column, const int n_vectors, const bool is_bf16)
{
    const int width = kv_width(a->head_dim), n_parts = is_bf16 ? 2 : 1;
    float *acc = a->acc + (ptrdiff_t)head * width + column;
    int slot = a->first;
    struct value_tile t;

    UNROLL
    for (int v = 0; v < n_vectors; v++)
        t.values[v] = column_words(a->sides[1], column, PAGE_TOKENS / n_parts, v);
    UNROLL
    for (int h = 0; h < n; h++) {
        t.p[h] = scores[h];
        UNROLL
        for (int v = 0; v < n_vectors; v++)
            t.sum[h][v] = load_v(acc + h * width + v * LANES) * all_v(shrink[h]);
    }
    if (slot % n_parts != 0) {
        add_slots(&t, slot - 1, n, n_vectors, is_bf16, 1, 2);
        slot++;
    }
    for (; slot + n_parts <= a->end; slot += n_parts) {
        if (head == 0)
            fetch(a, 1, column / KV_COLUMNS * (PAGE_TOKENS / n_parts) + slot / n_parts);
        add_slots(&t, slot, n, n_vectors, is_bf16, 0, n_parts);
    }
    if (slot < a->end)
        add_slots(&t, slot, n, n_vectors, is_bf16, 0, 1);
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < n_vectors; v++)
        store_v(acc + h * width + v * LANES, t.sum[h][v]);
}

/* ---- a page ---- */

INLINE void attend_tile(const struct attend *a, int head, const int n, const bool is_bf16)
{
    const int width = kv_width(a->head_dim);
    _Alignas(64) float scores[TILE_HEADS][PAGE_TOKENS];
    float shrink[TILE_HEADS];
    int column = 0;

    for (int slot = a->first / TILE_KEYS * TILE_KEYS; slot < a->end; slot += TILE_KEYS) {
        score_tile(a, scores, head, n, slot, is_bf16);
    }
    rescale_acc(a, scores, shrink, head, n);
    for (; column + TILE_KEYS <= width; column += TILE_KEYS) {
        value_tile(a, scores, shrink, head, n, column, KEY_VECTORS, is_bf16);
    }
    if (column < width)
        value_tile(a, scores, shrink, head, n, column, 1, is_bf16);
}

INLINE void attend_heads(const struct attend *a, const bool is_bf16)
{
    int head = 0;

    for (; head + TILE_HEADS <= a->n_heads; head += TILE_HEADS)
        attend_tile(a, head, TILE_HEADS, is_bf16);
    for (; head + 2 <= a->n_heads; head += 2)
        attend_tile(a, head, 2, is_bf16);
    if (head < a->n_heads)
        attend_tile(a, head, 1, is_bf16);
}

static void isa_attend(const struct attend *a)
{
    if (a->is_bf16)
        attend_heads(a, true);
    else
        attend_heads(a, false);
}

/* ---- F8 ---- */

/* The value of the E4M3 code in bits 24 to 31 of each lane. With y = (8 + m)/8 2^(e - 7), the value
 * is y, except for e = 0, where it is 2y - 2^-6. The smaller of both is right for every code. */
INLINE fvec f8_v(uvec codes)
{
    const uvec magnitude = ((codes & 0x7F000000u) >> 4) + (120u << 23);
    const fvec y = (fvec)magnitude;
    const fvec value = min_v(fma_v(y, all_v(2.0f), all_v(-0.015625f)), y);

    return (fvec)((uvec)value | (codes & 0x80000000u));
}

static void isa_widen_f8(float *out, const void *words, int n_rows)
{
    for (int r = 0; r < n_rows; r++)
        for (int i = 0; i < KV_COLUMNS; i += LANES) {
            const uvec w = load_words(words, (ptrdiff_t)r * KV_COLUMNS + i);
            float *to = out + (ptrdiff_t)4 * r * KV_COLUMNS + i;

            store_v(to, f8_v(w << 24));
            store_v(to + KV_COLUMNS, f8_v(w << 16));
            store_v(to + 2 * KV_COLUMNS, f8_v(w << 8));
            store_v(to + 3 * KV_COLUMNS, f8_v(w));
        }
}

/* ---- I16 ---- */

static void isa_widen_i16(float *out, const void *words, int n_rows)
{
    for (int r = 0; r < n_rows; r++)
        for (int i = 0; i < KV_COLUMNS; i += LANES) {
            const ivec w = (ivec)load_words(words, (ptrdiff_t)r * KV_COLUMNS + i);
            float *to = out + (ptrdiff_t)2 * r * KV_COLUMNS + i;

            store_v(to, __builtin_convertvector((ivec)((uvec)w << 16) >> 16, fvec));
            store_v(to + KV_COLUMNS, __builtin_convertvector(w >> 16, fvec));
        }
}

#define ATTN_FUNCTIONS .attend = isa_attend, .widen_f8 = isa_widen_f8, .widen_i16 = isa_widen_i16
