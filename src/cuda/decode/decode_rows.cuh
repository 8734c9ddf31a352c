/* Input rows of a decode GEMM as MMA fragments in shared memory: unchanged, split into terms, or
 * normalized.
 *
 * Layout: (term, block of 32 columns, token, 32 numbers of 16 bits); a lane reads the eight numbers
 * of its four columns of k at once. Kernels for one row compute everything that does not depend on
 * the previous kernel before pdl_wait(): code after it is on the critical path of every layer. */
#ifndef CUDA_DECODE_DECODE_ROWS_CUH
#define CUDA_DECODE_DECODE_ROWS_CUH

#include "cuda/decode/decode.h"
#include "cuda/common/mma.cuh"
#include "cuda/common/expert_sums.cuh"
#include "cuda/common/norm.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/ring.cuh"

enum { TOKEN_BLOCK_BYTES = MXFP4_BLOCK * 2 };
static_assert(NORM_PER_THREAD % 2 == 0, "numbers are stored in pairs");
static_assert((int)RING_THREADS == (int)NORM_THREADS, "the block size fits the norm");

static inline HOST_DEVICE int fragments_bytes(int n_units, int n_tokens)
{
    return n_units * UNIT_BLOCKS * n_tokens * TOKEN_BLOCK_BYTES;
}

/* Offset of number k of a token. */
static __device__ __forceinline__ int fragment_at(int k, int token, int n_tokens)
{
    return (k / MXFP4_BLOCK * n_tokens + token) * TOKEN_BLOCK_BYTES + k % MXFP4_BLOCK * 2;
}

static __device__ __forceinline__ uint16_t half_bits(float x)
{
    return __half_as_ushort(__float2half_rn(clamp_f16(x)));
}

static __device__ __forceinline__ const float *source_row(const struct decode_rows &rows, int token)
{
    const int row = rows.gather == NULL ? token : rows.gather[token * rows.gather_stride];

    return rows.x + (int64_t)row * rows.n;
}

/* Packs eight numbers: FP16 for MXFP4 weights, otherwise BF16. */
template <bool IS_MXFP4> static __device__ __forceinline__ uint4 pairs_of_piece(const float4 v[2])
{
    const float4 low = v[0], high = v[1];

    return IS_MXFP4 ? make_uint4(pair_f16(low.x, low.y), pair_f16(low.z, low.w),
                                 pair_f16(high.x, high.y), pair_f16(high.z, high.w))
                    : make_uint4(pair_bf16(low.x, low.y), pair_bf16(low.z, low.w),
                                 pair_bf16(high.x, high.y), pair_bf16(high.z, high.w));
}

/* Copies unchanged rows to fragments and zero-fills up to whole units. The whole block calls it
 * after pdl_wait(); a barrier must follow. `first` is the first token; AT_ONCE pieces of eight
 * numbers are in flight. */
template <bool IS_MXFP4, int AT_ONCE>
static __device__ __forceinline__ void copy_rows(char *fragments, const struct decode_rows &rows,
                                                 int first, int n_tokens, int n_units)
{
    const int n_pieces = n_units * UNIT_COLUMNS / 8, n = n_tokens * n_pieces;

    for (int i0 = threadIdx.x; i0 < n; i0 += RING_THREADS * AT_ONCE) {
        float4 v[AT_ONCE][2];

#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * RING_THREADS, token = i / n_pieces,
                      k = (i - token * n_pieces) * 8;

            v[j][0] = v[j][1] = make_float4(0, 0, 0, 0);
            if (i < n && k < rows.n) {
                const float4 *from = (const float4 *)(source_row(rows, first + token) + k);

                v[j][0] = __ldcg(from);
                v[j][1] = __ldcg(from + 1);
            }
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * RING_THREADS, token = i / n_pieces,
                      k = (i - token * n_pieces) * 8;

            if (i < n)
                *(uint4 *)(fragments + fragment_at(k, token, n_tokens)) =
                    pairs_of_piece<IS_MXFP4>(v[j]);
        }
    }
}

/* The same for one row x, by a block of GROUPS groups of RING_THREADS. The fragments are in the
 * order of the row. */
template <bool IS_MXFP4, int GROUPS = 1>
static __device__ __forceinline__ void copy_row(char *fragments, const float *x, int n, int n_units)
{
    enum { AT_ONCE = 2 / GROUPS, PIECE_NUMBERS = 8, THREADS = GROUPS * RING_THREADS };
    const int n_pieces = n_units * UNIT_COLUMNS / PIECE_NUMBERS;
    const int first = (int)(threadIdx.y * RING_THREADS + threadIdx.x);

#pragma unroll 1
    for (int i = first; i < n_pieces; i += THREADS * AT_ONCE) {
        float4 v[AT_ONCE][2];

#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const float4 *from = (const float4 *)x + 2 * (i + j * THREADS);
            const bool is_there = i + j * THREADS < n / PIECE_NUMBERS;

            v[j][0] = is_there ? __ldcg(from) : make_float4(0, 0, 0, 0);
            v[j][1] = is_there ? __ldcg(from + 1) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (i + j * THREADS < n_pieces)
                ((uint4 *)fragments)[i + j * THREADS] = pairs_of_piece<IS_MXFP4>(v[j]);
        }
    }
}

/* The same with each number split into TERMS BF16 terms. */
template <int TERMS, int AT_ONCE>
static __device__ __forceinline__ void split_rows(char *fragments, const struct decode_rows &rows,
                                                  int first, int n_tokens, int n_units)
{
    const int n_pieces = n_units * UNIT_COLUMNS / 8, n = n_tokens * n_pieces;
    const int term_bytes = fragments_bytes(n_units, n_tokens);

    for (int i0 = threadIdx.x; i0 < n; i0 += RING_THREADS * AT_ONCE) {
        float v[AT_ONCE][8];

#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * RING_THREADS, token = i / n_pieces,
                      k = (i - token * n_pieces) * 8;
            const bool is_there = i < n && k < rows.n;
            const float4 *from = (const float4 *)(source_row(rows, first + (is_there ? token : 0)) +
                                                  (is_there ? k : 0));

            ((float4 *)v[j])[0] = is_there ? __ldcg(from) : make_float4(0, 0, 0, 0);
            ((float4 *)v[j])[1] = is_there ? __ldcg(from + 1) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * RING_THREADS, token = i / n_pieces,
                      k = (i - token * n_pieces) * 8;
            char *to = fragments + fragment_at(k, token, n_tokens);

#pragma unroll
            for (int term = 0; term < TERMS && i < n; term++)
                *(uint4 *)(to + term * term_bytes) =
                    make_uint4(round_to_bf16(v[j]), round_to_bf16(v[j] + 2),
                               round_to_bf16(v[j] + 4), round_to_bf16(v[j] + 6));
        }
    }
}

/* The rows that a kernel supports, so that it has no code for others. */
enum norm_mode { ROWS_ANY, ONE_PLAIN_ROW, ONE_NORMED_ROW };

/* A thread's addresses, counts and norm weights for numbers threadIdx.x + i NORM_THREADS; computed
 * before the rows are available. */
struct rows_ready {
    const float *x;                 /* the first row */
    float *y;                       /* normalized row; NULL in blocks that do not store it */
    float weights[NORM_PER_THREAD]; /* of the norm */
    uint32_t
        units[NORM_PER_THREAD / 2]; /* of the experts' sums, in pairs: a power of two is BF16 */
    float inverse_n;
    int n_left, n_put_left; /* remaining numbers: of the row, of its fragments */
    int at, step_bytes;     /* of the first number's fragment, and the stride to the next */
};

static __device__ __forceinline__ struct rows_ready ready_rows(const struct decode_rows &rows,
                                                               int first, int n_tokens, int n_units)
{
    const int thread = threadIdx.x;
    struct rows_ready ready = {source_row(rows, first) + thread,
                               blockIdx.x == 0 && rows.y != NULL ? rows.y + first * rows.n + thread
                                                                 : NULL,
                               {},
                               {},
                               1.0f / (float)rows.n,
                               rows.n - thread,
                               n_units * UNIT_COLUMNS - thread,
                               fragment_at(thread, 0, n_tokens),
                               fragment_at(NORM_THREADS, 0, n_tokens)};

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++) {
        const int at = thread + i * NORM_THREADS;

        if (rows.norm.kind == VECTOR_F32 && at < rows.n)
            ready.weights[i] = ((const float *)rows.norm.data)[at];
        if (rows.norm.kind == VECTOR_BF16 && at < rows.n)
            ready.weights[i] =
                __uint_as_float((uint32_t)((const uint16_t *)rows.norm.data)[at] << 16);
    }
    return ready;
}

/* Units of the experts' sums, for rows with their norm. */
static __device__ __forceinline__ void ready_expert_units(struct rows_ready *ready,
                                                          const struct expert_sums &from)
{
    if (from.unit == NULL)
        return;
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        if (i * NORM_THREADS < ready->n_left)
            ready->units[i / 2] |=
                __float_as_uint(from.unit[threadIdx.x + i * NORM_THREADS]) >> 16 << i % 2 * 16;
}

/* The sums of the experts on other ranks, for a kernel that exchanges none. Kernels that do have a
 * type of their own (peer_rows.cuh). */
struct no_peers {
};

/* Adds other ranks' sums to the thread's; returns whether one of these has poisoned the row. */
static __device__ __forceinline__ int add_peer_sums(int[NORM_PER_THREAD], const struct no_peers &,
                                                    const struct rows_ready &, int, int)
{
    return 0;
}

/* Adds the sums of the experts to the thread's numbers of row `token`, of n numbers. */
template <class PEERS>
static __device__ __forceinline__ void
add_expert_sums(struct norm_regs *regs, const struct expert_sums &from,
                const struct rows_ready &ready, int token, int n, const PEERS &peers)
{
    const int32_t *sums = from.sums + token * n + threadIdx.x;
    int add[NORM_PER_THREAD];

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        add[i] = i * NORM_THREADS < ready.n_left ? __ldcg(sums + i * NORM_THREADS) : 0;
    const int poison = __ldcg(from.poison + token) | add_peer_sums(add, peers, ready, token, n);
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        regs->at[i] = regs->at[i] +
                      value_of_partials(
                          add[i], __uint_as_float(i % 2 == 0 ? ready.units[i / 2] << 16
                                                             : ready.units[i / 2] & 0xFFFF0000u));
    regs->at[0] += poison_term(poison);
}

/* Forces these values to be computed before pdl_wait(): code after it is on the critical path. */
template <int KIND>
static __device__ __forceinline__ void materialize_rows(struct rows_ready *ready)
{
    if (KIND == ROWS_ANY)
        return;
    materialize(ready->x);
    materialize(ready->y);
    materialize(ready->inverse_n);
    materialize(ready->n_left);
    materialize(ready->n_put_left);
    materialize(ready->at);
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD && KIND == ONE_NORMED_ROW; i++)
        materialize(ready->weights[i]);
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD / 2 && KIND == ONE_NORMED_ROW; i++)
        materialize(ready->units[i]);
}

/* Splits two numbers into terms; each register holds one term of both. */
template <bool IS_MXFP4, int TERMS>
static __device__ __forceinline__ void terms_of(uint32_t out[TERMS], float x, float y)
{
    float v[2] = {x, y};

#pragma unroll
    for (int term = 0; term < TERMS; term++)
        out[term] = IS_MXFP4 ? pair_f16(x, y) : round_to_bf16(v);
}

enum {
    NORM_WARPS = NORM_THREADS / WARP_LANES,
    NORM_SCRATCH =
        2 * NORM_WARPS /* floats: one half is read while the other is written for the next row */
};
static_assert((int)NORM_WARPS == 8, "sum_of_threads() adds eight sums");

/* block_sum() in the same order with one barrier; `smem` must differ from the previous call's. */
static __device__ __forceinline__ float sum_of_threads(float value, float *smem)
{
    value = warp_sum(value);
    if (threadIdx.x % WARP_LANES == 0)
        smem[threadIdx.x / WARP_LANES] = value;
    __syncthreads();

    const float4 a = ((const float4 *)smem)[0], b = ((const float4 *)smem)[1];

    return ((a.x + b.x) + (a.z + b.z)) + ((a.y + b.y) + (a.w + b.w));
}

/* Stores a row's normalized registers as fragments, and in y unless y is NULL. */
template <bool IS_MXFP4, int TERMS>
static __device__ __forceinline__ void
store_normed(char *to, int term_bytes, const struct decode_rows &rows,
             const struct rows_ready &ready, const struct norm_regs &regs, float *y, float *smem)
{
    const float factor =
        factor_of(sum_of_threads(squares_of_regs(&regs), smem), ready.inverse_n, rows.eps);

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i += 2) { /* one instruction rounds two */
        const float low = normed(regs.at[i], factor, ready.weights[i]);
        const float high = normed(regs.at[i + 1], factor, ready.weights[i + 1]);
        const bool has_low = i * NORM_THREADS < ready.n_put_left;
        const bool has_high = (i + 1) * NORM_THREADS < ready.n_put_left;
        uint32_t terms[TERMS];

        terms_of<IS_MXFP4, TERMS>(terms, low, high);
#pragma unroll
        for (int term = 0; term < TERMS; term++) {
            char *at = to + term * term_bytes + i * ready.step_bytes;

            if (has_low)
                *(uint16_t *)at = (uint16_t)terms[term];
            if (has_high)
                *(uint16_t *)(at + ready.step_bytes) = (uint16_t)(terms[term] >> 16);
        }
    }
    if (y == NULL)
        return;
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        if (i * NORM_THREADS < ready.n_left)
            y[i * NORM_THREADS] = normed(regs.at[i], factor, ready.weights[i]);
}

/* copy_rows() with RMSNorm; all threads process one row after another. */
template <bool IS_MXFP4, int TERMS, int KIND, class PEERS>
static __device__ __forceinline__ void
norm_rows(char *fragments, const struct decode_rows &rows, const struct rows_ready &ready,
          int first, int n_tokens, int n_units, float *smem, const PEERS &peers)
{
    const int term_bytes = fragments_bytes(n_units, n_tokens);

#pragma unroll 1
    for (int token = 0; token < n_tokens; token++) {
        const float *x = n_tokens == 1 ? ready.x : source_row(rows, first + token) + threadIdx.x;
        struct norm_regs regs;

#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++)
            regs.at[i] = i * NORM_THREADS < ready.n_left ? __ldcg(x + i * NORM_THREADS) : 0.0f;
        if (rows.sums.unit != NULL)
            add_expert_sums(&regs, rows.sums, ready, KIND == ROWS_ANY ? first + token : 0, rows.n,
                            peers);
        store_normed<IS_MXFP4, TERMS>(
            fragments + ready.at + token * TOKEN_BLOCK_BYTES, term_bytes, rows, ready, regs,
            ready.y == NULL ? NULL : ready.y + token * rows.n, smem + token % 2 * (int)NORM_WARPS);
    }
}

/* Loads the rows in the form that the kernel needs, followed by a barrier. `smem`: NORM_SCRATCH
 * floats, aligned to 16 bytes. */
template <bool IS_MXFP4, int TERMS, int KIND, class PEERS = struct no_peers>
static __device__ __forceinline__ void
store_norm_rows(char *fragments, const struct decode_rows &rows, const struct rows_ready &ready,
                int first, int n_tokens, int n_units, float *smem, const PEERS &peers = PEERS())
{
    if (KIND == ONE_PLAIN_ROW && TERMS == 1)
        copy_row<IS_MXFP4>(fragments, ready.x - threadIdx.x, rows.n, n_units);
    else if (KIND == ONE_NORMED_ROW || (KIND == ROWS_ANY && rows.norm.kind != VECTOR_NONE))
        norm_rows<IS_MXFP4, TERMS, KIND>(fragments, rows, ready, first,
                                         KIND == ROWS_ANY ? n_tokens : 1, n_units, smem, peers);
    else if (TERMS > 1)
        split_rows<TERMS, 3>(fragments, rows, first, n_tokens, n_units);
    else
        copy_rows<IS_MXFP4, 4>(fragments, rows, first, n_tokens, n_units);
    __syncthreads();
}

#endif
