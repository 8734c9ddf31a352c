/* Prefill GEMM by block-scaled MMAs: out[t][r] = sum over k of W[r][k] x[t][k] + b[r], W MXFP4 and
 * x MXFP8; or SwiGLU of pairs of rows, stored as MXFP8. Written for sm_120a and sm_121a: compiled
 * and emulated, not executed there. Other GPUs run it with the emulated instruction.
 *
 * Work division: a block computes 64 or 128 rows for 128 tokens, a warp 32 rows for 64 of them.
 * Operands go through a cp.async ring in shared memory, 128 columns per stage (mxfp8_ring.cuh).
 * Codes are expanded in registers, 14 instructions for eight. Both operands use the column
 * permutation of a block that makes this cheapest (block_scaled.h).
 *
 * Traffic: the weights as stored once per 128 tokens, x once per 64 or 128 rows, from L2 except for
 * the first read. Every sum runs over the columns in order in one accumulator: a token's bits
 * depend neither on other tokens nor on the tile. */
#include "cuda/common/mma_block_scaled.cuh"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/mxfp8.cuh"
#include "cuda/prefill/mxfp8_ring.cuh"
#include "cuda/common/swiglu.cuh"

enum {
    WARP_TILES = WARP_ROWS / TILE_ROWS,
    WARP_COLS = WARP_TOKENS / MMA_BLOCK_COLUMNS,
    TOKEN_BLOCKS_MAX = 8 /* blocks that share the tokens of an expert */
};

struct mxfp8_gemm {
    struct matmul m;
    struct mxfp8_rows x, units;
};

/* The position of a warp in its block's tile. */
struct warp_pos {
    int row_warp; /* index of its 32 rows */
    int token;    /* its first */
};

/* ---- main loop of a warp ---- */

/* A lane's part of a unit of weights, and the scales of its tokens. */
struct unit_regs {
    uint4 codes[WARP_TILES];
    uint32_t row_scales[WARP_TILES], token_scales[WARP_COLS];
};

static __device__ __forceinline__ void load_unit_regs(struct unit_regs *h,
                                                      const unsigned char *unit, int first_tile)
{
    const int lane = threadIdx.x % WARP_LANES;
    const uint2 scales = *reinterpret_cast<const uint2 *>(unit + MXFP4_SCALES_OFFSET +
                                                          lane / 4 * MXFP4_GROUP_SCALES_BYTES +
                                                          first_tile * UNIT_BLOCKS * 2);

#pragma unroll
    for (int i = 0; i < WARP_TILES; i++)
        h->codes[i] =
            reinterpret_cast<const uint4 *>(unit + (first_tile + i) * MXFP4_TILE_BYTES)[lane];
    /* the instruction reads bytes 0 and 2: row g in lanes 4 g, row g + 8 in lanes 4 g + 1 */
    h->row_scales[0] = scales.x >> lane % 2 * 8;
    h->row_scales[1] = scales.y >> lane % 2 * 8;
}

/* One block of the stage's four; tokens: address of the warp's first token. */
template <int BLOCK>
static __device__ __forceinline__ void add_block(float acc[WARP_TILES][WARP_COLS][4],
                                                 const struct unit_regs &h,
                                                 const unsigned char *tokens)
{
    const int lane = threadIdx.x % WARP_LANES;
    uint32_t a[WARP_TILES][4];

#pragma unroll
    for (int i = 0; i < WARP_TILES; i++) {
        uint32_t low[2], high[2];

        containers_of_word(low, BLOCK % 2 == 0 ? h.codes[i].x : h.codes[i].z);
        containers_of_word(high, BLOCK % 2 == 0 ? h.codes[i].y : h.codes[i].w);
        a[i][0] = low[0], a[i][1] = high[0], a[i][2] = low[1], a[i][3] = high[1];
    }
#pragma unroll
    for (int c = 0; c < WARP_COLS; c++) {
        const uint2 bytes =
            *reinterpret_cast<const uint2 *>(tokens + c * MMA_BLOCK_COLUMNS * STAGE_COLUMNS +
                                             codes_offset(lane / 4, BLOCK) + lane % 4 * 8);
        const uint32_t b[2] = {bytes.x, bytes.y};

#pragma unroll
        for (int i = 0; i < WARP_TILES; i++)
            mma_block_scaled<BLOCK % 2 * 2, BLOCK>(acc[i][c], a[i], b, h.row_scales[i],
                                                   h.token_scales[c]);
    }
}

template <int ROWS>
static __device__ __forceinline__ void add_stage(float acc[WARP_TILES][WARP_COLS][4],
                                                 const unsigned char *stage,
                                                 const struct warp_pos &warp_pos)
{
    typedef struct shape<ROWS> S;
    const unsigned char *tokens = stage + S::CODES_AT + warp_pos.token * STAGE_COLUMNS;
    const uint32_t *scales = reinterpret_cast<const uint32_t *>(stage + S::SCALES_AT) +
                             warp_pos.token + threadIdx.x % WARP_LANES / 4;
    const unsigned char *unit = stage + warp_pos.row_warp / 2 * UNITS_BYTES;
    const int first_tile = warp_pos.row_warp % 2 * WARP_TILES;
    struct unit_regs h;

#pragma unroll
    for (int c = 0; c < WARP_COLS; c++)
        h.token_scales[c] = scales[c * MMA_BLOCK_COLUMNS];
    load_unit_regs(&h, unit, first_tile);
    add_block<0>(acc, h, tokens);
    add_block<1>(acc, h, tokens);
    load_unit_regs(&h, unit + MXFP4_UNIT_BYTES, first_tile);
    add_block<2>(acc, h, tokens);
    add_block<3>(acc, h, tokens);
}

/* acc += all columns. Warps without tokens only copy. */
template <int ROWS>
static __device__ __forceinline__ void
add_columns(float acc[WARP_TILES][WARP_COLS][4], const struct source<ROWS> &source,
            const struct warp_pos &warp_pos, unsigned char *ring, int n_stages, bool is_needed)
{
    typedef struct shape<ROWS> S;

    for (int i = 0; i < S::STAGES - 1; i++)
        copy_stage<ROWS>(ring + i * S::STAGE_BYTES, source, i, n_stages);
    for (int i = 0, slot = 0; i < n_stages; i++) {
        const int last = (slot == 0 ? S::STAGES : slot) - 1; /* the stage read last */

        cp_async_wait<S::STAGES - 2>();
        __syncthreads();
        copy_stage<ROWS>(ring + last * S::STAGE_BYTES, source, i + S::STAGES - 1, n_stages);
        if (is_needed)
            add_stage<ROWS>(acc, ring + slot * S::STAGE_BYTES, warp_pos);
        slot = slot + 1 == S::STAGES ? 0 : slot + 1;
    }
    __syncthreads();
}

/* ---- epilogue: a lane has rows 2 g and 2 g + 1 of a tile, tokens 2 t and 2 t + 1 of eight ---- */

static __device__ float bias_at(const struct mxfp8_gemm &p, const struct task &task, int64_t row)
{
    const struct tensor *bias = &p.m.bias[task.job];

    if (bias->data == NULL || row >= matrix_rows(task.w))
        return 0.0f;
    return weight_at(bias, 0, bias->n_dims == 1 ? 0 : task.expert, row);
}

/* Biases of a lane's rows in each of the warp's tiles; row: the first of them. */
static __device__ __forceinline__ void find_bias(float bias[WARP_TILES][2],
                                                 const struct mxfp8_gemm &p,
                                                 const struct task &task, int64_t row)
{
#pragma unroll
    for (int i = 0; i < WARP_TILES * 2; i++)
        bias[i / 2][i % 2] = bias_at(p, task, row + i / 2 * TILE_ROWS + i % 2);
}

/* row: the lane's first, in the warp's first tile. */
static __device__ void store_rows(const float acc[WARP_TILES][WARP_COLS][4],
                                  const struct mxfp8_gemm &p, const struct task &task, int64_t row,
                                  int token)
{
    const int64_t n_rows = matrix_rows(task.w), width = p.m.out_width[task.job];
    float bias[WARP_TILES][2];

    find_bias(bias, p, task, row);
#pragma unroll
    for (int k = 0; k < WARP_COLS * 2; k++) {
        const int at = token + k / 2 * MMA_BLOCK_COLUMNS + k % 2;
        float *out = p.m.out[task.job] + (task.first + at) * width + row;

        if (at >= task.n)
            continue;
#pragma unroll
        for (int i = 0; i < WARP_TILES; i++, out += TILE_ROWS) {
            if (row + i * TILE_ROWS < n_rows)
                out[0] = acc[i][k / 2][k % 2] + bias[i][0];
            if (row + i * TILE_ROWS + 1 < n_rows)
                out[1] = acc[i][k / 2][k % 2 + 2] + bias[i][1];
        }
    }
}

/* acc[..][..][0 and 1] = gated units; sizes: for each token, the largest magnitude of the warp's
 * 16. */
static __device__ void gate_units(float acc[WARP_TILES][WARP_COLS][4], uint32_t *sizes,
                                  const struct mxfp8_gemm &p, const struct task &task, int64_t row)
{
    const int lane = threadIdx.x % WARP_LANES;
    float bias[WARP_TILES][2];

    find_bias(bias, p, task, row);
#pragma unroll
    for (int k = 0; k < WARP_COLS * 2; k++) {
        uint32_t size = 0;

#pragma unroll
        for (int i = 0; i < WARP_TILES; i++) {
            float *d = acc[i][k / 2];

            d[k % 2] =
                swiglu(d[k % 2] + bias[i][0], d[k % 2 + 2] + bias[i][1], p.m.limit, p.m.alpha);
            size = size_of(d[k % 2]) > size ? size_of(d[k % 2]) : size;
        }
        size = largest_over<28>(size);
        if (lane / 4 == 0)
            sizes[k / 2 * MMA_BLOCK_COLUMNS + lane * 2 + k % 2] = size;
    }
}

/* A block of 32 units belongs to two warps: the even one has the first 16 and stores the scale.
 * Lane 4 g + t has units 8 i + g. */
static __device__ void store_units(const float acc[WARP_TILES][WARP_COLS][4], const uint32_t *sizes,
                                   const uint32_t *others, const struct mxfp8_rows &units,
                                   const struct task &task, const struct warp_pos &warp_pos,
                                   int token)
{
    const int lane = threadIdx.x % WARP_LANES;
    const int64_t block = task.row / UNIT_ROWS + warp_pos.row_warp / 2;
    const int byte = warp_pos.row_warp % 2 * WARP_TILES * 8 + mxfp8_position(lane / 4);

    if (block * MXFP4_BLOCK >= units.n_columns)
        return;
#pragma unroll
    for (int k = 0; k < WARP_COLS * 2; k++) {
        const int of_eight = k / 2 * MMA_BLOCK_COLUMNS + k % 2, here = of_eight + lane % 4 * 2;
        const uint32_t size = sizes[here] > others[here] ? sizes[here] : others[here];
        const uint32_t scale = mxfp8_scale(size);
        const int64_t entry = task.first + token + of_eight;
        uint8_t *codes = units.codes + entry * units.n_columns + block * MXFP4_BLOCK + byte;

        if (token + of_eight >= task.n)
            continue;
#pragma unroll
        for (int i = 0; i < WARP_TILES; i++)
            codes[i * 8] =
                scale == SCALE_NAN
                    ? 0
                    : (uint8_t)pair_e4m3(acc[i][k / 2][k % 2] * mxfp8_factor(scale), 0.0f);
        if (lane / 4 == 0 && warp_pos.row_warp % 2 == 0)
            units.scales[entry * mxfp8_scales_stride(units.n_columns) + block] = (uint8_t)scale;
    }
}

/* ---- the kernel ---- */

template <int ROWS>
static __global__ void __launch_bounds__(shape<ROWS>::THREADS, shape<ROWS>::BLOCKS_AT_ONCE)
    mxfp8_matmul_kernel(const __grid_constant__ struct mxfp8_gemm p)
{
    typedef struct shape<ROWS> S;
    extern __shared__ __align__(128) unsigned char ring[];
    __shared__ uint32_t sizes[S::WARPS][WARP_TOKENS];
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    /* adjacent warps have the same tokens, so that warps without tokens are spread over the
     * schedulers */
    const struct warp_pos warp_pos = {warp % S::ROW_WARPS, warp / S::ROW_WARPS * WARP_TOKENS};
    struct task task;

    if (!find_task<ROWS>(p.m, &task))
        return;
    for (int t0 = blockIdx.z * TOKENS; t0 < task.n; t0 += gridDim.z * TOKENS) {
        const int64_t row = task.row + warp_pos.row_warp * WARP_ROWS + lane / 4 * 2;
        const int token = t0 + warp_pos.token + lane % 4 * 2;
        float acc[WARP_TILES][WARP_COLS][4] = {};
        struct source<ROWS> source;

        find_source<ROWS>(&source, p.m, p.x, task, t0);
        add_columns<ROWS>(acc, source, warp_pos, ring,
                          (int)units_of(matrix_columns(task.w), STAGE_COLUMNS),
                          t0 + warp_pos.token < task.n);
        if (!p.m.is_swiglu) {
            store_rows(acc, p, task, row, token);
            continue;
        }
        gate_units(acc, sizes[warp], p, task, row);
        __syncthreads();
        store_units(acc, sizes[warp], sizes[warp ^ 1], p.units, task, warp_pos, token);
    }
}

template <int ROWS>
static void launch_shape(struct launch_list *list, dim3 grid, const struct mxfp8_gemm *p)
{
    add_kernel<mxfp8_matmul_kernel<ROWS>>(list, grid, shape<ROWS>::THREADS,
                                          shape<ROWS>::SHARED_BYTES, *p);
}

static dim3 grid_of(const struct matmul *m, int n_tile_rows)
{
    const int64_t n_token_blocks = units_of(m->n_tokens, TOKENS);
    int64_t n_tiles = 0;
    dim3 grid;

    for (int i = 0; i < m->n_jobs; i++)
        n_tiles += units_of(matrix_rows(&m->w[i]), n_tile_rows);
    grid.x = (unsigned)n_tiles;
    grid.y = m->first == NULL ? 1 : (unsigned)m->n_active_max;
    grid.z = (unsigned)n_token_blocks;
    if (m->first != NULL && n_token_blocks > TOKEN_BLOCKS_MAX)
        grid.z = TOKEN_BLOCKS_MAX;
    return grid;
}

void launch_mxfp8_matmul(struct launch_list *list, const struct matmul *m,
                         const struct mxfp8_rows *x, const struct mxfp8_rows *units, int tile_rows)
{
    struct mxfp8_gemm p = {*m, *x, {}};

    if (m->n_tokens == 0)
        return;
    if (m->is_swiglu)
        p.units = *units;
    if (tile_rows == UNIT_ROWS)
        launch_shape<UNIT_ROWS>(list, grid_of(m, UNIT_ROWS), &p);
    else
        launch_shape<2 * UNIT_ROWS>(list, grid_of(m, 2 * UNIT_ROWS), &p);
}
