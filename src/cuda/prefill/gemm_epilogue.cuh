/* Epilogue of gemm_sm90.cu: accumulators to rows of floats, or through SwiGLU to the next GEMM's
 * operand. It is long straight-line code, executed once per tile, and bound by instruction fetch.
 * Therefore common subexpressions are computed once and kept in registers. */
#ifndef CUDA_PREFILL_GEMM_EPILOGUE_CUH
#define CUDA_PREFILL_GEMM_EPILOGUE_CUH

#include "cuda/prefill/gemm_weights.cuh"
#include "cuda/common/mma.cuh"
#include "cuda/common/wgmma.cuh"

/* Keeps a value in a register, so that the compiler does not recompute it at each use. */
static __device__ __forceinline__ uint32_t in_register(uint32_t value)
{
    asm volatile("" : "+r"(value));
    return value;
}

static __device__ __forceinline__ float in_register(float value)
{
    asm volatile("" : "+f"(value));
    return value;
}

/* Factor and bias of a thread's rows. */
template <class FORM> struct epilogue {
    float factor[FORM::UNITS][2], bias[FORM::UNITS][2];
};

template <class FORM>
static __device__ __forceinline__ void load_epilogue(uint32_t info, struct epilogue<FORM> *out)
{
#pragma unroll
    for (int u = 0; u < FORM::UNITS; u++) {
        const uint4 two = load_16(info + (my_row() + u * UNIT_ROWS) * ROW_INFO_BYTES);
        const uint32_t scale_shift[2] = {two.x, two.z}, bias[2] = {two.y, two.w};

#pragma unroll
        for (int i = 0; i < 2; i++) {
            out->bias[u][i] = __uint_as_float(bias[i]);
            out->factor[u][i] =
                in_register(FORM::IS_MXFP4 ? 0.5f * scale_of(30 - scale_shift[i]) : 1.0f);
        }
    }
}

/* Accumulator d of a row with factor and bias applied. */
template <class FORM>
static __device__ __forceinline__ float with_bias(float d, const struct epilogue<FORM> &epilogue,
                                                  int unit, int odd)
{
    return __fmaf_rn(d, epilogue.factor[unit][odd], epilogue.bias[unit][odd]);
}

/* ---- stores ---- */

/* Each thread loads the output row and gate of one token into shared memory at `to`. */
static __device__ __forceinline__ void load_row_use(const struct gemm &g, const struct tile &tile,
                                                    uint32_t to)
{
    const int column = threadIdx.x % GROUP_THREADS;
    struct row_use use = {tile.first + column, 1.0f};

    if (g.uses != NULL && column < tile.n)
        use = g.uses[tile.first + column];
    store_8(to + column * 8, (uint32_t)use.to, __float_as_uint(use.gate));
}

static __device__ __forceinline__ struct row_use use_at(uint32_t address)
{
    uint32_t to, gate;

    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to), "=r"(gate) : "r"(address));
    return (struct row_use){(int32_t)to, __uint_as_float(gate)};
}

/* Stores a thread's results of one token, v[2 unit + (even 0, odd 1)], one by one: for the last
 * rows of a matrix, or for rows that are not aligned. */
template <int N>
static __device__ __forceinline__ void store_partial(float *to, int n_left, float (&v)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        if (n_left > i / 2 * UNIT_ROWS + i % 2)
            to[i / 2 * UNIT_ROWS + i % 2] = v[i];
}

template <int N> static __device__ __forceinline__ void store_all(float *to, float (&v)[N])
{
#pragma unroll
    for (int i = 0; i < N; i += 2)
        *reinterpret_cast<float2 *>(to + i / 2 * UNIT_ROWS) = make_float2(v[i], v[i + 1]);
}

/* Stores the accumulators as rows of floats. Row offsets fit into 32 bits; `row` is the thread's
 * first. */
template <class FORM, bool IS_WHOLE>
static __device__ __forceinline__ void
store_tile_rows(const struct launch_plan &p, const struct tile &tile,
                const float (&d)[FORM::UNITS][FORM::SUMS], const struct epilogue<FORM> &epilogue,
                int row, uint32_t uses)
{
    const uint32_t first = threadIdx.x % 4 * 2, n = in_register(tile.n - first);
    const uint32_t width = in_register((uint32_t)p.g.out_width[tile.job]);
    const uint32_t mine = in_register(uses + first * 8);
    float *const out = p.g.out[tile.job] + row;

#pragma unroll
    for (int i = 0; i < FORM::SUMS / 2; i++) {
        const int column = i / 2 * 8 + i % 2, at = i / 2 * 4 + i % 2; /* from `first` on */

        if (column < (int)n) {
            const struct row_use use = use_at(mine + column * 8);
            float *const to = out + (uint32_t)use.to * width;
            float v[2 * FORM::UNITS];

#pragma unroll
            for (int k = 0; k < 2 * FORM::UNITS; k++)
                v[k] = use.gate * with_bias<FORM>(d[k / 2][at + k % 2 * 2], epilogue, k / 2, k % 2);
            if (IS_WHOLE)
                store_all(to, v);
            else
                store_partial(to, p.jobs[tile.job].n_rows - row, v);
        }
    }
}

/* Minimum and maximum; NaN if an operand is NaN. */
static __device__ __forceinline__ float at_most(float x, float limit)
{
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(limit));
    return x;
}

static __device__ __forceinline__ float at_least(float x, float limit)
{
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(limit));
    return x;
}

/* x / (1 + 2^y), relative error about 2^-21 */
static __device__ __forceinline__ float over_one_and_power(float x, float y)
{
    float power, inverse;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(y));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
    return x * inverse;
}

/* min(g, limit) sigmoid(alpha min(g, limit)) (clamp(u, -limit, limit) + 1); NaN stays NaN.
 * `slope` is -alpha log2 e. */
static __device__ __forceinline__ float swiglu(float gate, float up, float limit, float slope)
{
    const float g = at_most(gate, limit), u = at_least(at_most(up, limit), -limit);

    return over_one_and_power(g, slope * g) * (u + 1.0f);
}

/* Packs two numbers of an operand, the first in the lower half. */
static __device__ __forceinline__ uint32_t pair_of(const struct operand &to, float x, float y)
{
    const float f16_largest = 65504.0f;

    if (to.rounding == ROUNDS_TO_BF16)
        return pair_bf16(x, y);
    x = at_least(at_most(x, f16_largest), -f16_largest);
    y = at_least(at_most(y, f16_largest), -f16_largest);
    const __half2 pair = __floats2half2_rn(x, y);

    return *reinterpret_cast<const uint32_t *>(&pair);
}

/* Writes one unit's 32 gated numbers per token, half a chunk of the next operand, to the staging
 * tile at `to` in shared memory; `row` is the thread's first of the unit. A lane has number lane /
 * 4 of its warp's eight, for two tokens. Lanes exchange one number by shuffle, so that each has two
 * numbers of one token. */
template <class FORM>
static __device__ __forceinline__ void
stage_units(const struct launch_plan &p, const struct tile &tile, const float (&d)[FORM::SUMS],
            const struct epilogue<FORM> &epilogue, int row, uint32_t to, int u, int half)
{
    const int warp = threadIdx.x / WARP_LANES % GROUP_WARPS, lane = threadIdx.x % WARP_LANES;
    const int number = lane / 4, piece = half * 4 + number / 2, token = lane % 4 * 2 + number % 2;
    const bool is_here = row + 1 < p.jobs[tile.job].n_rows;
    const bool is_odd = number % 2 != 0;
    const float limit = in_register(p.g.limit), slope = in_register(-p.g.alpha * 1.44269504f);
    const uint32_t at =
        to + token * OPERAND_ROW_BYTES + (piece ^ token) * OPERAND_PIECE_BYTES + warp * 4;

#pragma unroll
    for (int i = 0; i < FORM::SUMS / 4; i++) {
        float v[2];

        if (i * 8 >= tile.n)
            break;
#pragma unroll
        for (int k = 0; k < 2; k++)
            v[k] = is_here ? swiglu(with_bias<FORM>(d[i * 4 + k], epilogue, u, 0),
                                    with_bias<FORM>(d[i * 4 + k + 2], epilogue, u, 1), limit, slope)
                           : 0.0f;
        const float other = __shfl_xor_sync(0xFFFFFFFFu, is_odd ? v[0] : v[1], 4);
        const float first = is_odd ? other : v[0], second = is_odd ? v[1] : other;
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + i * 8 * OPERAND_ROW_BYTES),
                     "r"(pair_of(p.g.units, first, second))
                     : "memory");
    }
}

/* Stores half a chunk. If the matrix ends with it, the other half is zeroed. */
static __device__ __forceinline__ void store_half(const struct tile &tile, char *to,
                                                  uint32_t staging, int half, bool is_last)
{
    enum {
        HALF_BYTES = OPERAND_ROW_BYTES / 2,
        HALF_PIECES = HALF_BYTES / OPERAND_PIECE_BYTES,
        TOKENS = GROUP_THREADS / HALF_PIECES /* at once */
    };
    const int thread = threadIdx.x % GROUP_THREADS, piece = thread % HALF_PIECES;

    for (int token = thread / HALF_PIECES; token < tile.n; token += TOKENS) {
        const int at = token * OPERAND_ROW_BYTES + (token / 4 % 2 ^ half) * HALF_BYTES +
                       piece * OPERAND_PIECE_BYTES;

        *reinterpret_cast<uint4 *>(to + at) = load_16(staging + at);
        if (is_last && half == 0)
            *reinterpret_cast<uint4 *>(to + (at ^ HALF_BYTES)) = make_uint4(0, 0, 0, 0);
    }
}

/* Stores the group's gated numbers: one chunk of the next operand, whose rows are adjacent, or half
 * of one. The group's rows of W begin at first_row. */
template <class FORM>
static __device__ __forceinline__ void
store_swiglu(const struct launch_plan &p, const struct tile &tile,
             const float (&d)[FORM::UNITS][FORM::SUMS], const struct epilogue<FORM> &epilogue,
             int first_row, uint32_t staging, int group)
{
    const struct operand *units = &p.g.units;
    const int64_t chunk = first_row / 2 / UNIT_COLUMNS;
    const int half = FORM::UNITS > 1 ? 0 : first_row / UNIT_ROWS % 2;
    const bool is_first = threadIdx.x % GROUP_THREADS == 0;
    char *const to = (char *)units->data + (chunk * units->n_rows + tile.first) * OPERAND_ROW_BYTES;

    if (is_first && FORM::UNITS > 1)
        bulk_stores_read();
    group_sync(group);
#pragma unroll
    for (int u = 0; u < FORM::UNITS; u++)
        stage_units<FORM>(p, tile, d[u], epilogue, first_row + u * UNIT_ROWS + my_row(), staging, u,
                          half + u);
    if (FORM::UNITS > 1)
        fence_proxy_async();
    group_sync(group);
    if (FORM::UNITS == 1)
        store_half(tile, to, staging, half, first_row + UNIT_ROWS >= p.jobs[tile.job].n_rows);
    else if (is_first)
        bulk_store(to, staging, tile.n * OPERAND_ROW_BYTES);
}

/* True if all rows of the group are within the matrix and pairs of floats are aligned. */
template <class FORM>
static __device__ __forceinline__ bool is_whole(const struct launch_plan &p,
                                                const struct tile &tile, int first_row)
{
    return p.g.out_width[tile.job] % 2 == 0 &&
           first_row + FORM::GROUP_ROWS <= p.jobs[tile.job].n_rows;
}

#endif
