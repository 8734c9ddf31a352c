/* ISA "ref": the oracle, scalar semantics in f32. A dot product has sixteen partial sums, by index
 * modulo 16, then one fixed reduction tree. Each product is rounded before it is added (no fused
 * multiply-add), so that every machine gives the same bits.
 *
 * Bytes and flops: 4 bytes a weight are read from the cache for 2 flops a token. Bound by
 * arithmetic: two multiplications and additions of four floats a cycle. Two tokens at a time use
 * each loaded weight twice. */
#include "cpu/kernels/kernels.h"

#include <math.h>
#include <stddef.h>

#include "backend/residual_sum.h"
#include "backend/tensor.h"
#include "cpu/kernels/exp4.h"

enum { LANES = 16 }; /* enough independent sums to hide the latency of an addition */

/* ---- weights to f32 ---- */

/* bf16 is the upper half of an f32. A 32-bit word has two: the first is shifted up, the second is
 * masked in place. */
static void ref_widen_bf16(float *out, const void *in, int64_t n)
{
    const unsigned char *bytes = in;
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        u32x4 words;
        f32x4 even, odd;

        memcpy(&words, bytes + 2 * i, sizeof(words));
        even = (f32x4)(words << 16);
        odd = (f32x4)(words & 0xFFFF0000u);
        store4(out + i, __builtin_shufflevector(even, odd, 0, 4, 1, 5));
        store4(out + i + 4, __builtin_shufflevector(even, odd, 2, 6, 3, 7));
    }
    for (; i < n; i++) {
        uint16_t upper;
        uint32_t bits;

        memcpy(&upper, bytes + 2 * i, sizeof(upper));
        bits = (uint32_t)upper << 16;
        memcpy(&out[i], &bits, sizeof(bits));
    }
}

/* The two values of each byte of e2m1 codes, the low nibble first. */
#define E2M1_SIGNED(X, s)                                                                          \
    X(s 0.0f) X(s 0.5f) X(s 1.0f) X(s 1.5f) X(s 2.0f) X(s 3.0f) X(s 4.0f) X(s 6.0f)
#define E2M1_PAIRS(high)                                                                           \
    {0.0f, high}, {0.5f, high}, {1.0f, high}, {1.5f, high}, {2.0f, high}, {3.0f, high},            \
        {4.0f, high}, {6.0f, high}, {-0.0f, high}, {-0.5f, high}, {-1.0f, high}, {-1.5f, high},    \
        {-2.0f, high}, {-3.0f, high}, {-4.0f, high}, {-6.0f, high},
static const float e2m1_pairs[256][2] = {E2M1_SIGNED(E2M1_PAIRS, +) E2M1_SIGNED(E2M1_PAIRS, -)};
#undef E2M1_PAIRS
#undef E2M1_SIGNED

/* The four values of two bytes. */
static inline f32x4 e2m1_four(uint8_t first, uint8_t second)
{
    f64x2 both; /* each half is a pair of floats; only the bits are copied */

    memcpy(&both, e2m1_pairs[first], sizeof(e2m1_pairs[0]));
    memcpy((char *)&both + sizeof(both) / 2, e2m1_pairs[second], sizeof(e2m1_pairs[0]));
    return (f32x4)both;
}

/* 2^(scale - 127); 255 is NaN. */
static float e8m0_value(uint8_t scale)
{
    const uint32_t tiny = 0x00400000u, nan = 0x7FC00000u;
    const uint32_t bits = scale == 255 ? nan : scale == 0 ? tiny : (uint32_t)scale << 23;
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

void dequant_mxfp4_ref(float *out, const uint8_t *blocks, const uint8_t *scales, int64_t n)
{
    for (int64_t b = 0; b < n / MXFP4_BLOCK; b++) {
        const uint8_t *codes = blocks + b * MXFP4_BLOCK_BYTES;
        const f32x4 scale = all4(e8m0_value(scales[b]));
        float *values = out + b * MXFP4_BLOCK;

        for (int i = 0; i < MXFP4_BLOCK_BYTES; i += 2)
            store4(values + 2 * i, e2m1_four(codes[i], codes[i + 1]) * scale);
    }
}

/* ---- dot products ---- */

/* Sixteen partial sums in four named vectors, which compilers keep in registers. */
struct lanes {
    f32x4 a, b, c, d;
};

static inline struct lanes lanes_load(const float *p)
{
    return (struct lanes){load4(p), load4(p + 4), load4(p + 8), load4(p + 12)};
}

static inline void lanes_add(struct lanes *sum, const struct lanes *w, const float *x)
{
    sum->a += w->a * load4(x);
    sum->b += w->b * load4(x + 4);
    sum->c += w->c * load4(x + 8);
    sum->d += w->d * load4(x + 12);
}

static inline float lanes_total(const struct lanes *sum)
{
    return sum4((sum->a + sum->c) + (sum->b + sum->d));
}

/* The last n % LANES elements, zero-padded. */
static inline const float *padded(float tail[LANES], const float *row, int n)
{
    const int n_whole = n / LANES * LANES;

    memset(tail, 0, LANES * sizeof(float));
    memcpy(tail, row + n_whole, (size_t)(n - n_whole) * sizeof(float));
    return tail;
}

static float dot(const float *row, const float *x, int n)
{
    struct lanes sum = {0};

    for (int i = 0; i + LANES <= n; i += LANES) {
        const struct lanes w = lanes_load(row + i);

        lanes_add(&sum, &w, x + i);
    }
    if (n % LANES != 0) {
        float row_tail[LANES], x_tail[LANES];
        const struct lanes w = lanes_load(padded(row_tail, row, n));

        lanes_add(&sum, &w, padded(x_tail, x, n));
    }
    return lanes_total(&sum);
}

/* Columns [first, first + n) of a matmul, whose sums go to out. */
struct columns {
    int first, n;
    float *out;
};

static const float *weights_at(const struct gemm *p, int row, const struct columns *c)
{
    return (const float *)p->w + (ptrdiff_t)row * p->n + c->first;
}

/* Two tokens at a time use each loaded weight twice; the sums are those of dot(). */
static void dots_of_two(const struct gemm *p, int x, const struct columns *c)
{
    const int n_whole = c->n / LANES * LANES;
    const float *x0 = p->x[x] + c->first, *x1 = p->x[x + 1] + c->first;
    float *out0 = c->out + x * p->out_stride, *out1 = out0 + p->out_stride;

    for (int r = 0; r < p->n_rows; r++) {
        const float *row = weights_at(p, r, c);
        struct lanes sum0 = {0}, sum1 = {0};

        for (int i = 0; i < n_whole; i += LANES) {
            const struct lanes l = lanes_load(row + i);

            lanes_add(&sum0, &l, x0 + i);
            lanes_add(&sum1, &l, x1 + i);
        }
        if (n_whole < c->n) {
            float row_tail[LANES], x_tail[LANES];
            const struct lanes l = lanes_load(padded(row_tail, row, c->n));

            lanes_add(&sum0, &l, padded(x_tail, x0, c->n));
            lanes_add(&sum1, &l, padded(x_tail, x1, c->n));
        }
        out0[r] = lanes_total(&sum0);
        out1[r] = lanes_total(&sum1);
    }
}

static void gemm_columns(const struct gemm *p, const struct columns *c)
{
    int x = 0;

    for (; x + 2 <= p->n_x; x += 2)
        dots_of_two(p, x, c);
    for (int r = 0; x < p->n_x && r < p->n_rows; r++)
        c->out[x * p->out_stride + r] = dot(weights_at(p, r, c), p->x[x] + c->first, c->n);
}

static void ref_gemm_f32(const struct gemm *p)
{
    struct columns c = {.out = p->out};

    do {
        c.n = slice_end(p->slices, c.first, p->n) - c.first;
        gemm_columns(p, &c);
        c.first += c.n;
        c.out += p->slices.stride;
    } while (c.first < p->n);
}

/* ---- fixed-point sums ---- */

int64_t sum_slices_ref(const struct slice_sums *p, int token, int row)
{
    const float gate = p->gates == NULL ? 1.0f : p->gates[token];
    const float *slices = p->slices + (ptrdiff_t)token * GROUP_ROWS + row;
    struct residual_sum sum = {0};

    for (int s = 0; s < p->n_slices; s++, slices += p->slice_stride)
        residual_add(&sum, gate, *slices);
    return sum.is_nan ? SUM_NAN : sum.units;
}

static void ref_sum_slices(const struct slice_sums *p)
{
    for (int t = 0; t < p->n_x; t++)
        for (int r = 0; r < p->n_rows; r++)
            p->out[t * p->out_stride + r] = sum_slices_ref(p, t, r);
}

float sum_value_ref(const int64_t *const *sums, int n_sums, int i)
{
    struct residual_sum sum = {0};

    for (int k = 0; k < n_sums; k++)
        if (sums[k][i] == SUM_NAN)
            sum.is_nan = true;
        else
            sum.units += sums[k][i];
    return residual_value(sum);
}

static void ref_sum_values(float *out, const int64_t *const *sums, int n_sums, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = sum_value_ref(sums, n_sums, i);
}

/* ---- elementwise kernels ---- */

/* Sixteen columns at a time stay in registers during the loop over the rows. */
static void sum_columns(float *acc, struct rows v, const float *p, int column)
{
    struct lanes sum = lanes_load(acc + column);

    for (int r = 0; r < v.n_rows; r++) {
        const float *row = v.data + (ptrdiff_t)r * v.n + column;
        const f32x4 weight = all4(p[r]);

        sum.a += weight * load4(row);
        sum.b += weight * load4(row + 4);
        sum.c += weight * load4(row + 8);
        sum.d += weight * load4(row + 12);
    }
    store4(acc + column, sum.a);
    store4(acc + column + 4, sum.b);
    store4(acc + column + 8, sum.c);
    store4(acc + column + 12, sum.d);
}

static void ref_weighted_sum(float *acc, struct rows v, const float *p)
{
    int column = 0;

    for (; column + LANES <= v.n; column += LANES)
        sum_columns(acc, v, p, column);
    for (int r = 0; r < v.n_rows; r++)
        for (int i = column; i < v.n; i++)
            acc[i] += p[r] * v.data[(ptrdiff_t)r * v.n + i];
}

static float ref_scale(float *x, int n, float factor, float largest)
{
    for (int i = 0; i < n; i++) {
        x[i] *= factor;
        if (!(x[i] <= largest))
            largest = x[i];
    }
    return largest;
}

static float ref_exp_sum(float *x, int n, float shift)
{
    f32x4 sum = {0};
    float rest = 0;
    int i = 0;

    for (; i + 4 <= n; i += 4) {
        const f32x4 e = exp4(load4(x + i) - all4(shift));

        store4(x + i, e);
        sum += e;
    }
    for (; i < n; i++) {
        x[i] = exp1(x[i] - shift);
        rest += x[i];
    }
    return sum4(sum) + rest;
}

static void ref_norm(float *out, const float *x, const float *weight, int n, float eps)
{
    const float inverse = 1.0f / sqrtf(dot(x, x, n) / (float)n + eps);

    for (int i = 0; i < n; i++)
        out[i] = x[i] * inverse * weight[i];
}

static inline f32x4 swiglu4(f32x4 gate, f32x4 up, struct swiglu s)
{
    const f32x4 most = all4(s.limit), least = all4(-s.limit), one = all4(1.0f);
    const f32x4 g = choose4(gate > most, most, gate);
    const f32x4 u = choose4(up > most, most, choose4(up < least, least, up));
    const f32x4 sigmoid = one / (one + exp4(all4(-s.alpha) * g));

    return g * sigmoid * (u + one);
}

/* Four outputs from eight interleaved floats. */
static inline f32x4 swiglu_pairs(const float *u, struct swiglu s)
{
    const f32x4 low = load4(u), high = load4(u + 4);

    return swiglu4(__builtin_shufflevector(low, high, 0, 2, 4, 6),
                   __builtin_shufflevector(low, high, 1, 3, 5, 7), s);
}

static void ref_swiglu(float *out, const float *u, int n, struct swiglu s)
{
    int i = 0;

    for (; i + 4 <= n; i += 4)
        store4(out + i, swiglu_pairs(u + 2 * i, s));
    if (i < n) {
        float tail[8] = {0}, units[4];

        memcpy(tail, u + 2 * i, (size_t)(n - i) * 2 * sizeof(float));
        store4(units, swiglu_pairs(tail, s));
        memcpy(out + i, units, (size_t)(n - i) * sizeof(float));
    }
}

const struct kernels kernels_ref = {.name = "ref",
                                    .widen_bf16 = ref_widen_bf16,
                                    .dequant_mxfp4 = dequant_mxfp4_ref,
                                    .gemm_f32 = ref_gemm_f32,
                                    .weighted_sum = ref_weighted_sum,
                                    .scale = ref_scale,
                                    .exp_sum = ref_exp_sum,
                                    .sum_slices = ref_sum_slices,
                                    .sum_values = ref_sum_values,
                                    .norm = ref_norm,
                                    .swiglu = ref_swiglu};
