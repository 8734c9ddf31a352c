/* LM head for many decode rows: GEMM with a long MXFP4 matrix, with the bits of decode_gemm.cu.
 * There every block rereads the tokens, 1.8 GB from L2 for 64 rows of gpt-oss. Here one persistent
 * block per SM keeps its 32 tokens in shared memory and streams only the weights.
 *
 * Work division: a warp has two tiles of 16 rows at a time and all columns, through its own ring;
 * warps do not synchronize. It processes the columns by eighths, as the warps of other kernels
 * share them: sums over every eighth unit, added in order.
 *
 * Traffic: the weights once per 32 tokens; all groups of tokens run concurrently, so the weights
 * are read from memory once. Bound by instruction issue: a hundred instructions per 16 MMAs. H200,
 * 2026-11-22, 201,088 x 2,880: 142 us for 32 rows, 273 for 64; decode_gemm.cu takes 175 and 337. */
#include "cuda/decode/columns.cuh"

enum {
    WARPS = 12,
    THREADS = WARPS * WARP_LANES,
    COLS = 4,
    TOKENS = COLS * COLUMN_TOKENS,
    UNIT_TOKENS_BYTES = UNIT_BLOCKS * TOKENS * TOKEN_BLOCK_BYTES
};
typedef ring_shape<DTYPE_MXFP4, 2, 1, 3> shape;

enum {
    PAIR_ROWS = shape::TILES * TILE_ROWS,
    UNIT_PAIRS = UNIT_ROWS / PAIR_ROWS,
    SHARED_RING_BYTES = WARPS * shape::WARP_BYTES
};

/* A group of tokens, and the index of the warp among all warps of that group. */
struct warp_pos {
    int first, warp, n_warps;
};

static __device__ __forceinline__ struct warp_pos warp_pos_of(const struct decode_gemm &p)
{
    const int n_groups = (p.n_tokens + TOKENS - 1) / TOKENS;

    return warp_pos{(int)blockIdx.x % n_groups * TOKENS,
                    (int)blockIdx.x / n_groups * WARPS + (int)threadIdx.x / WARP_LANES,
                    (int)gridDim.x / n_groups * WARPS};
}

/* ---- the ring: units of a warp's rows by eighths ---- */

struct walk {
    int pair, unit; /* the next one */
    uint32_t slot;  /* destination */
};

static __device__ __forceinline__ int pairs_of(const struct decode_matrix &w)
{
    return (w.n_rows + PAIR_ROWS - 1) / PAIR_ROWS;
}

/* The unit after this one; n_units: it was the last. There are at least eight units. */
static __device__ __forceinline__ int next_unit(int unit, int n_units)
{
    const int eighth = unit % RING_WARPS + 1;

    if (unit + RING_WARPS < n_units)
        return unit + RING_WARPS;
    return eighth < RING_WARPS ? eighth : n_units;
}

/* Starts the copies of the next unit, if there is one. */
static __device__ __forceinline__ void fill(struct walk *walk, const struct decode_matrix &w,
                                            uint32_t slots, int n_warps)
{
    if (walk->pair < pairs_of(w)) {
        const int lane = threadIdx.x % WARP_LANES, tile = walk->pair % UNIT_PAIRS * shape::TILES;
        const unsigned char *unit =
            w.units +
            (int64_t)(walk->pair / UNIT_PAIRS * w.n_units + walk->unit) * MXFP4_UNIT_BYTES;
        const unsigned char *from = unit + tile * MXFP4_TILE_BYTES + lane * LANE_BYTES;
        const uint32_t to = walk->slot + lane * LANE_BYTES;

#pragma unroll
        for (int i = 0; i < shape::TILES; i++)
            copy_at(to + i * MXFP4_TILE_BYTES, from + i * MXFP4_TILE_BYTES);
        if (lane < (MXFP4_UNIT_BYTES - MXFP4_SCALES_OFFSET) / LANE_BYTES)
            copy_at(to + shape::SCALES_AT, unit + MXFP4_SCALES_OFFSET + lane * LANE_BYTES);
        walk->unit = next_unit(walk->unit, w.n_units);
        if (walk->unit == w.n_units) {
            walk->unit = 0;
            walk->pair += n_warps;
        }
    }
    copy_commit();
    walk->slot = walk->slot == slots + (shape::STAGES - 1) * shape::STAGE_BYTES
                     ? slots
                     : walk->slot + shape::STAGE_BYTES;
}

/* ---- tokens ---- */

/* Loads all columns of the group; tokens past the end are zeros. */
static __device__ __forceinline__ void fill_tokens(uint32_t tokens, const struct decode_gemm &p,
                                                   int first, int n_live)
{
    const int n_units = p.w[0].n_units, row_bytes = n_units * UNIT_COLUMNS * 2;

    for (int i = threadIdx.x; i < n_units * UNIT_PIECES * TOKENS; i += THREADS) {
        const int unit = i / (UNIT_PIECES * TOKENS), token = i / UNIT_PIECES % TOKENS;
        const int piece = i % UNIT_PIECES, row = min(first + token, n_live - 1);

        copy_or_zero_at(tokens + unit * UNIT_TOKENS_BYTES +
                            (piece / BLOCK_PIECES * TOKENS + token) * TOKEN_BLOCK_BYTES +
                            piece % BLOCK_PIECES * LANE_BYTES,
                        (const char *)p.rows + (int64_t)row * row_bytes +
                            (unit * UNIT_PIECES + piece) * LANE_BYTES,
                        first + token < n_live);
    }
}

/* ---- MMAs ---- */

/* acc += a unit times its tokens; `tokens` is the address of the lane's pieces. */
static __device__ __forceinline__ void multiply(float acc[shape::TILES][COLS][4], uint32_t slot,
                                                uint32_t tokens, int tile)
{
    const int lane = threadIdx.x % WARP_LANES;

    multiply_tiles<shape::TILES, COLS, UNIT_BLOCKS * 2>(
        acc, slot + lane * LANE_BYTES,
        slot + shape::SCALES_AT + lane / 4 * MXFP4_GROUP_SCALES_BYTES + tile * UNIT_BLOCKS * 2,
        tokens);
}

static __device__ __forceinline__ void store(const struct decode_gemm &p, int pair, int first,
                                             int n_live, const float sums[shape::TILES][COLS][4])
{
    const int lane = threadIdx.x % WARP_LANES, n_rows = p.w[0].n_rows;

#pragma unroll
    for (int i = 0; i < shape::TILES; i++) {
        const int row = pair * PAIR_ROWS + i * TILE_ROWS + lane / 4 * 2;
        const float low = row < n_rows ? vector_at(p.bias[0], 0, row) : 0.0f;
        const float high = row + 1 < n_rows ? vector_at(p.bias[0], 0, row + 1) : 0.0f;

#pragma unroll
        for (int c = 0; c < COLS; c++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const int token = first + c * COLUMN_TOKENS + lane % 4 * 2 + k;
                float *to = p.out[0] + (int64_t)token * p.out_width[0] + row;

                if (token < n_live && row < n_rows)
                    to[0] = sums[i][c][k] * CODE_UNIT + low;
                if (token < n_live && row + 1 < n_rows)
                    to[1] = sums[i][c][k + 2] * CODE_UNIT + high;
            }
    }
}

/* One block per SM. */
static __global__ void __launch_bounds__(THREADS, 1)
    head_kernel(const __grid_constant__ struct decode_gemm p)
{
    extern __shared__ uint4 shared[];
    const struct decode_matrix &w = p.w[0];
    const struct warp_pos warp_pos = warp_pos_of(p);
    const int n_live = live_rows(p.n_live, p.n_tokens);
    const uint32_t tokens = (uint32_t)__cvta_generic_to_shared(shared);
    const uint32_t tokens_at = tokens + threadIdx.x % WARP_LANES * LANE_BYTES;
    const uint32_t slots =
        tokens + w.n_units * UNIT_TOKENS_BYTES + threadIdx.x / WARP_LANES * shape::WARP_BYTES;
    struct walk walk = {warp_pos.warp, 0, slots};
    uint32_t slot = slots;

#pragma unroll
    for (int i = 0; i < shape::STAGES; i++)
        fill(&walk, w, slots, warp_pos.n_warps);
    pdl_wait();
    pdl_launch_dependents();
    fill_tokens(tokens, p, warp_pos.first, n_live);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    for (int pair = warp_pos.warp; pair < pairs_of(w); pair += warp_pos.n_warps) {
        float sums[shape::TILES][COLS][4] = {};

        for (int eighth = 0; eighth < RING_WARPS; eighth++) {
            float acc[shape::TILES][COLS][4] = {};

            for (int unit = eighth; unit < w.n_units; unit += RING_WARPS) {
                copy_wait<shape::STAGES - 1>();
                __syncwarp();
                multiply(acc, slot, tokens_at + unit * UNIT_TOKENS_BYTES,
                         pair % UNIT_PAIRS * shape::TILES);
                __syncwarp();
                fill(&walk, w, slots, warp_pos.n_warps);
                slot = slot == slots + (shape::STAGES - 1) * shape::STAGE_BYTES
                           ? slots
                           : slot + shape::STAGE_BYTES;
            }
#pragma unroll
            for (int i = 0; i < shape::TILES * COLS * 4; i++)
                sums[i / 4 / COLS][i / 4 % COLS][i % 4] += acc[i / 4 / COLS][i / 4 % COLS][i % 4];
        }
        store(p, pair, warp_pos.first, n_live, sums);
    }
    copy_wait<0>();
}

bool launch_decode_head(struct launch_list *list, const struct decode_gemm *p)
{
    const int n_processors = list->gpu->n_sms;
    const int n_groups = (int)units_of(p->n_tokens, TOKENS);
    const int n_each = n_processors > n_groups ? n_processors / n_groups : 1;

    return p->is_mxfp4 && p->n_jobs == 1 && p->w[0].n_units >= RING_WARPS &&
           p->heads.pages == NULL &&
           decode_launch_of<head_kernel>(
               list, dim3((unsigned)(n_each * n_groups)), THREADS,
               (int64_t)p->w[0].n_units * UNIT_TOKENS_BYTES + SHARED_RING_BYTES, *p);
}
