/* The float32 kernels of an ISA, in the compilers' generic vectors. An ISA's file defines LANES,
 * fma_v, load_bf16 and sums_v, and includes this once; all functions are static.
 *
 * A dot product has LANES partial sums, by index modulo LANES, each one chain of fused
 * multiply-adds, then one fixed reduction tree. The order does not depend on other rows or tokens.
 * Register tiles of several rows and tokens hide the latency of the chains. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

typedef int32_t ivec __attribute__((vector_size(LANES * 4)));
typedef uint32_t uvec __attribute__((vector_size(LANES * 4)));

INLINE fvec all_v(float x)
{
    fvec v = {0};

    return x - v; /* not x + 0: -0 would become +0 */
}

INLINE fvec load_v(const float *p)
{
    fvec v;

    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE void store_v(float *p, fvec v)
{
    memcpy(p, &v, sizeof(v));
}

INLINE fvec choose_v(ivec mask, fvec a, fvec b)
{
    return (fvec)((mask & (ivec)a) | (~mask & (ivec)b));
}

/* The sum of one vector, in the order of sums_v. */
INLINE float sum_v(fvec v)
{
    float sums[4];

    sums_v(sums, v, v, v, v);
    return sums[0];
}

/* The last n values of a row, zero-padded. */
INLINE fvec load_part(const float *p, int n)
{
    float tail[LANES] = {0};

    memcpy(tail, p, (size_t)n * sizeof(float));
    return load_v(tail);
}

/* ---- weights ---- */

INLINE fvec load_bf16_part(const uint16_t *p, int n)
{
    uint16_t tail[LANES] = {0};

    memcpy(tail, p, (size_t)n * sizeof(uint16_t));
    return load_bf16(tail);
}

static void isa_widen_bf16(float *out, const void *in, int64_t n)
{
    const unsigned char *bytes = in;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        uint16_t halves[LANES];

        memcpy(halves, bytes + 2 * i, sizeof(halves));
        store_v(out + i, load_bf16(halves));
    }
    for (; i < n; i++) {
        uint16_t upper;
        uint32_t bits;

        memcpy(&upper, bytes + 2 * i, sizeof(upper));
        bits = (uint32_t)upper << 16;
        memcpy(&out[i], &bits, sizeof(bits));
    }
}

/* ---- dot products ---- */

enum { DOT_ROWS = 4, DOT_TOKENS = LANES == 16 ? 4 : 3, GEMV_ROWS = 8 };

/* Weights from column i on of a row; load_weights_part() reads only n of them. */
INLINE fvec load_weights(const void *row, bool is_bf16, int i)
{
    return is_bf16 ? load_bf16((const uint16_t *)row + i) : load_v((const float *)row + i);
}

INLINE fvec load_weights_part(const void *row, bool is_bf16, int i, int n)
{
    return is_bf16 ? load_bf16_part((const uint16_t *)row + i, n)
                   : load_part((const float *)row + i, n);
}

/* Rows of weights and tokens of a register tile. */
struct dot_operands {
    const char *rows[GEMV_ROWS];
    const float *tokens[DOT_TOKENS];
};

/* Columns [first, n) of n_rows x n_x dot products; all sums stay in registers. */
INLINE void dot_columns(float *outs, int64_t out_stride, const struct dot_operands *o, bool is_bf16,
                        int first, int n, const int n_rows, const int n_x)
{
    const int n_whole = first + (n - first) / LANES * LANES;
    const char *const *rows = o->rows;
    const float *const *tokens = o->tokens;
    fvec sum[GEMV_ROWS][DOT_TOKENS];

    UNROLL
    for (int r = 0; r < n_rows; r++)
        UNROLL
    for (int t = 0; t < n_x; t++)
        sum[r][t] = all_v(0);
    for (int i = first; i < n_whole; i += LANES) {
        fvec at[DOT_TOKENS];

        UNROLL
        for (int t = 0; t < n_x; t++)
            at[t] = load_v(tokens[t] + i);
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            const fvec w = load_weights(rows[r], is_bf16, i);

            UNROLL
            for (int t = 0; t < n_x; t++)
                sum[r][t] = fma_v(w, at[t], sum[r][t]);
        }
    }
    if (n_whole < n)
        UNROLL
    for (int r = 0; r < n_rows; r++) {
        const fvec w = load_weights_part(rows[r], is_bf16, n_whole, n - n_whole);

        UNROLL
        for (int t = 0; t < n_x; t++)
            sum[r][t] = fma_v(w, load_part(tokens[t] + n_whole, n - n_whole), sum[r][t]);
    }
    UNROLL
    for (int t = 0; t < n_x; t++) {
        float *out = outs + t * out_stride;

        if (n_rows == 1)
            out[0] = sum_v(sum[0][t]);
        UNROLL
        for (int r = 0; r + 4 <= n_rows; r += 4)
            sums_v(out + r, sum[r][t], sum[r + 1][t], sum[r + 2][t], sum[r + 3][t]);
    }
}

/* n_rows x n_x dot products, slice by slice, so that each row is one sequential stream. */
INLINE void dot_tile(const struct gemm *p, bool is_bf16, int row, int x, const int n_rows,
                     const int n_x)
{
    float *out = p->out + x * p->out_stride + row;
    struct dot_operands o;
    int first = 0;

    UNROLL
    for (int r = 0; r < n_rows; r++)
        o.rows[r] = (const char *)p->w + (ptrdiff_t)(row + r) * p->n * (is_bf16 ? 2 : 4);
    UNROLL
    for (int t = 0; t < n_x; t++)
        o.tokens[t] = p->x[x + t];
    do {
        const int end = slice_end(p->slices, first, p->n);

        dot_columns(out, p->out_stride, &o, is_bf16, first, end, n_rows, n_x);
        first = end;
        out += p->slices.stride;
    } while (first < p->n);
}

INLINE void dot_rows(const struct gemm *p, bool is_bf16, int x, const int n_x)
{
    const int step = n_x == 1 ? GEMV_ROWS : DOT_ROWS;
    int row = 0;

    for (; row + step <= p->n_rows; row += step)
        dot_tile(p, is_bf16, row, x, step, n_x);
    for (; row < p->n_rows; row++)
        dot_tile(p, is_bf16, row, x, 1, n_x);
}

INLINE void gemm_all(const struct gemm *p, bool is_bf16)
{
    int x = 0;

    for (; x + DOT_TOKENS <= p->n_x; x += DOT_TOKENS)
        dot_rows(p, is_bf16, x, DOT_TOKENS);
    for (; x + 2 <= p->n_x; x += 2)
        dot_rows(p, is_bf16, x, 2);
    if (x < p->n_x)
        dot_rows(p, is_bf16, x, 1);
}

static void isa_gemm_f32(const struct gemm *p)
{
    gemm_all(p, false);
}

static void isa_gemm_bf16(const struct gemm *p)
{
    gemm_all(p, true);
}

/* ---- elementwise kernels ---- */

/* exp(x) with an error below 2 ulp: the formula of exp4.h with fused multiply-adds. */
INLINE fvec exp_v(fvec x)
{
    const fvec lowest = all_v(-87.0f), highest = all_v(88.0f);
    const fvec round = all_v(12582912.0f); /* 1.5 * 2^23: the low bits become the integer */
    const ivec tiny = x < lowest;
    const fvec within = choose_v(x > highest, highest, choose_v(tiny, lowest, x));
    const fvec shifted = fma_v(within, all_v(1.44269504088896341f), round);
    const fvec n = shifted - round;
    const fvec r = fma_v(n, all_v(2.12194440e-4f), fma_v(n, all_v(-0.693359375f), within));
    const uvec exponent = ((uvec)shifted - (uvec)round + 127u) << 23;
    fvec p = all_v(1.9875691500e-4f);

    p = fma_v(p, r, all_v(1.3981999507e-3f));
    p = fma_v(p, r, all_v(8.3334519073e-3f));
    p = fma_v(p, r, all_v(4.1665795894e-2f));
    p = fma_v(p, r, all_v(1.6666665459e-1f));
    p = fma_v(p, r, all_v(5.0000001201e-1f));
    p = fma_v(p, r * r, r) + all_v(1.0f);
    return choose_v(tiny, all_v(0.0f), p * (fvec)exponent);
}

static float isa_scale(float *x, int n, float factor, float largest)
{
    fvec most = all_v(largest);
    int i = 0;

    for (; i + LANES <= n; i += LANES) {
        const fvec v = load_v(x + i) * all_v(factor);

        store_v(x + i, v);
        most = choose_v(v <= most, most, v);
    }
    for (int k = 0; k < LANES; k++)
        if (!(most[k] <= largest))
            largest = most[k];
    for (; i < n; i++) {
        x[i] *= factor;
        if (!(x[i] <= largest))
            largest = x[i];
    }
    return largest;
}

static float isa_exp_sum(float *x, int n, float shift)
{
    fvec sum = all_v(0);
    int i = 0;

    for (; i + LANES <= n; i += LANES) {
        const fvec e = exp_v(load_v(x + i) - all_v(shift));

        store_v(x + i, e);
        sum += e;
    }
    if (i < n) {
        float tail[LANES];
        fvec e;

        for (int k = 0; k < LANES; k++)
            tail[k] = i + k < n ? x[i + k] - shift : -INFINITY;
        e = exp_v(load_v(tail));
        sum += e;
        store_v(tail, e);
        memcpy(x + i, tail, (size_t)(n - i) * sizeof(float));
    }
    return sum_v(sum);
}

/* n_columns vectors of columns stay in registers during the loop over the rows. */
INLINE void sum_columns(float *acc, struct rows v, const float *p, int column, const int n_columns)
{
    fvec sum[8];

    UNROLL
    for (int c = 0; c < n_columns; c++)
        sum[c] = load_v(acc + column + c * LANES);
    for (int r = 0; r < v.n_rows; r++) {
        const float *row = v.data + (ptrdiff_t)r * v.n + column;
        const fvec weight = all_v(p[r]);

        UNROLL
        for (int c = 0; c < n_columns; c++)
            sum[c] = fma_v(weight, load_v(row + c * LANES), sum[c]);
    }
    UNROLL
    for (int c = 0; c < n_columns; c++)
        store_v(acc + column + c * LANES, sum[c]);
}

static void isa_weighted_sum(float *acc, struct rows v, const float *p)
{
    int column = 0;

    for (; column + 8 * LANES <= v.n; column += 8 * LANES)
        sum_columns(acc, v, p, column, 8);
    for (; column + 2 * LANES <= v.n; column += 2 * LANES)
        sum_columns(acc, v, p, column, 2);
    for (; column + LANES <= v.n; column += LANES)
        sum_columns(acc, v, p, column, 1);
    for (int r = 0; r < v.n_rows; r++)
        for (int i = column; i < v.n; i++)
            acc[i] = fmaf(p[r], v.data[(ptrdiff_t)r * v.n + i], acc[i]);
}

static void isa_norm(float *out, const float *x, const float *weight, int n, float eps)
{
    fvec even = all_v(0), odd = all_v(0);
    float inverse;
    int i = 0;

    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        const fvec a = load_v(x + i), b = load_v(x + i + LANES);

        even = fma_v(a, a, even);
        odd = fma_v(b, b, odd);
    }
    for (; i < n; i += LANES) {
        const fvec a = load_part(x + i, n - i < LANES ? n - i : LANES);

        even = fma_v(a, a, even);
    }
    inverse = 1.0f / sqrtf(sum_v(even + odd) / (float)n + eps);
    for (i = 0; i < n; i++)
        out[i] = x[i] * inverse * weight[i];
}

/* LANES outputs from 2 * LANES interleaved floats. */
INLINE fvec swiglu_v(const float *pairs, struct swiglu s)
{
    const fvec most = all_v(s.limit), least = all_v(-s.limit), one = all_v(1.0f);
    float gates[LANES], ups[LANES];
    fvec g, u;

    for (int i = 0; i < LANES; i++) {
        gates[i] = pairs[2 * i];
        ups[i] = pairs[2 * i + 1];
    }
    g = load_v(gates);
    u = load_v(ups);
    g = choose_v(g > most, most, g);
    u = choose_v(u > most, most, choose_v(u < least, least, u));
    return g * (one / (one + exp_v(all_v(-s.alpha) * g))) * (u + one);
}

static void isa_swiglu(float *out, const float *u, int n, struct swiglu s)
{
    int i = 0;

    for (; i + LANES <= n; i += LANES)
        store_v(out + i, swiglu_v(u + 2 * i, s));
    if (i < n) {
        float tail[2 * LANES] = {0}, units[LANES];

        memcpy(tail, u + 2 * i, (size_t)(n - i) * 2 * sizeof(float));
        store_v(units, swiglu_v(tail, s));
        memcpy(out + i, units, (size_t)(n - i) * sizeof(float));
    }
}
