/* Stages route and experts of a few rows in two kernels: top-A of the router's logits, gate and up with
 * SwiGLU; then down, the gates, and the sum over a token's experts.
 *
 * An entry is a token at one of its experts; each has its own blocks, so that nothing is grouped: two
 * tokens at the same expert read it twice, the second from L2. Every warp chooses the experts from the
 * logits itself. The second kernel starts when the first has seen them, and so asks for its weights while
 * the first still runs. */
#include "cuda/choose.cuh"
#include "cuda/decode.cuh"

enum { ROW_PIECES = DECODE_WIDTH_MAX / 4 / RING_THREADS };
enum {
    UP_BLOCKS = 2, /* of a multiprocessor: beside them there is room for one of the next kernel */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
    UP_REGISTERS = 128, /* shared memory has room for one block there */
#else
    UP_REGISTERS = 88,
#endif
    BUFFERS = 2 /* of sums: one is read while the next is filled */
};
static __device__ __forceinline__ const float *scores_of(const struct decode_experts &p, int token)
{
    return p.scores + token * p.n_experts;
}

/* ---- gate and up ---- */

/* The rows of units of a block: every gridDim.x-th. */
struct up_parts {
    const unsigned char *weights; /* of the first */
    int64_t part_bytes;           /* from one to the next */
};

static __device__ __forceinline__ const unsigned char *part_weights(const struct up_parts &up,
                                                                    int part)
{
    return up.weights + part * up.part_bytes;
}

static __device__ __forceinline__ int part_tile(const struct up_parts &, int)
{
    return 0;
}

/* A row of inputs in registers: pieces threadIdx.x + i RING_THREADS of four numbers. */
struct row_held {
    float4 at[ROW_PIECES];
};

static __device__ __forceinline__ struct row_held hold_row(const float *x, int n)
{
    struct row_held row;

#pragma unroll
    for (int i = 0; i < ROW_PIECES; i++) {
        const int k = (threadIdx.x + i * RING_THREADS) * 4;

        row.at[i] = k < n ? __ldcg((const float4 *)(x + k)) : make_float4(0, 0, 0, 0);
    }
    return row;
}

/* One token's fragments lie as its row does. */
static __device__ __forceinline__ void put_row(char *fragments, const struct row_held &row,
                                               int n_units)
{
#pragma unroll
    for (int i = 0; i < ROW_PIECES; i++) {
        const int piece = threadIdx.x + i * RING_THREADS;

        if (piece < n_units * UNIT_COLUMNS / 4)
            ((uint2 *)fragments)[piece] =
                make_uint2(pair_f16(row.at[i].x, row.at[i].y), pair_f16(row.at[i].z, row.at[i].w));
    }
}

/* Grid: blocks that share the rows of units of an entry, entries. Blocks with a row more than others are
 * other ones in every second entry, so that no multiprocessor gets only those. The gated units are left as
 * FP16, as the next product takes them. */
template <class SHAPE>
static __global__ void __maxnreg__(UP_REGISTERS)
    up_kernel(const __grid_constant__ struct decode_experts p)
{
    enum { PAIRS = SHAPE::TILES * TILE_ROWS / 2 };
    extern __shared__ uint4 shared[];
    const int n_units = p.up.n_units, n_rows = (p.up.n_rows + UNIT_ROWS - 1) / UNIT_ROWS;
    const int entry = blockIdx.y, token = entry / p.n_ranks, n_blocks = gridDim.x;
    const int first = (int)(blockIdx.x + n_blocks / 2 * (blockIdx.y / 2)) % n_blocks;
    const int n_parts = (n_rows - first + n_blocks - 1) / n_blocks;
    char *fragments = (char *)shared + SHAPE::BYTES;
    float *sums = (float *)(fragments + fragments_bytes(n_units, 1));
    struct row_held row;
    struct ring<SHAPE> ring;
    struct up_parts up;

    pdl_wait();
    pdl_launch_dependents(); /* the router's logits are there for the next kernel, too */
    row = hold_row(p.y + token * p.n_columns, p.n_columns); /* in front of the weights */
    const int expert = chosen_at(scores_of(p, token), p.n_experts, entry - token * p.n_ranks);

    up.weights =
        p.up.units + expert * p.up.matrix_bytes + (int64_t)(first * n_units) * SHAPE::UNIT_BYTES;
    up.part_bytes = (int64_t)(n_blocks * n_units) * SHAPE::UNIT_BYTES;
    ring_begin(&ring, (char *)shared, up, n_parts, n_units);
    put_row(fragments, row, n_units);
    __syncthreads();
    for (int part = 0; part < n_parts; part++) {
        float *sums_of_part = sums + part % BUFFERS * part_sums(SHAPE::TILES, 1);
        const int unit = (first + part * n_blocks) * PAIRS + (int)threadIdx.x;
        const bool is_stored = (int)threadIdx.x < PAIRS && unit < p.n_units;
        const float2 bias =
            is_stored ? vector_pair_at(p.bias_up, expert, unit * 2) : make_float2(0.0f, 0.0f);
        float acc[SHAPE::TILES][1][4];

        multiply_part<SHAPE, 1, 1>(acc, &ring, up, 0, fragments, 0, 1);
        put_sums<SHAPE::TILES, 1>(sums_of_part, acc, 1);
        __syncthreads();
        if (is_stored)
            p.units[entry * p.n_units + unit] = half_bits(swiglu(
                sum_of_warps<true>(sums_of_part, threadIdx.x * 2, SHAPE::TILES, 1) + bias.x,
                sum_of_warps<true>(sums_of_part, threadIdx.x * 2 + 1, SHAPE::TILES, 1) + bias.y,
                p.limit, p.alpha));
    }
    copy_wait<0>();
}

/* ---- down ---- */

/* What stage route was asked for, and what this one read. */
static __device__ void store_choice(const struct decode_experts &p, int token,
                                    const struct chosen &c)
{
    const int rank = threadIdx.x;

    if (rank < p.n_ranks) {
        p.ids[token * p.n_ranks + rank] = c.ids[rank];
        p.gates[token * p.n_ranks + rank] = gate_of(c, rank, p.n_ranks);
    }
    if (token == 0 && rank == 0)
        *p.n_read += (uint64_t)(p.n_tokens * p.n_ranks);
}

/* A part an expert of the token. */
struct down_parts {
    const unsigned char *weights; /* of the block's rows, of the first matrix of the stack */
    int64_t matrix_bytes;
    int tile;
    const struct chosen *chosen;
};

static __device__ __forceinline__ const unsigned char *part_weights(const struct down_parts &parts,
                                                                    int rank)
{
    return parts.weights + parts.chosen->ids[rank] * parts.matrix_bytes;
}

static __device__ __forceinline__ int part_tile(const struct down_parts &parts, int)
{
    return parts.tile;
}

/* The gated units of a token's entries: with one token fragments lie as rows do. */
static __device__ __forceinline__ void copy_entries(char *fragments, const uint16_t *units, int n,
                                                    int n_ranks, int n_units)
{
    enum { AT_ONCE = 6 }; /* all of gpt-oss */
    const int n_pieces = n_units * UNIT_COLUMNS / 8, n_all = n_ranks * n_pieces;

    for (int i0 = threadIdx.x; i0 < n_all; i0 += RING_THREADS * AT_ONCE) {
        uint4 held[AT_ONCE];

#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * RING_THREADS, rank = i / n_pieces, k = (i - rank * n_pieces) * 8;

            held[j] = make_uint4(0, 0, 0, 0);
            if (i < n_all && k < n)
                held[j] = __ldcg((const uint4 *)(units + rank * n + k));
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (i0 + j * RING_THREADS < n_all)
                ((uint4 *)fragments)[i0 + j * RING_THREADS] = held[j];
    }
}

/* Grid: tiles of rows, tokens. */
template <class SHAPE>
static __global__ void __launch_bounds__(RING_THREADS)
    down_kernel(const __grid_constant__ struct decode_experts p)
{
    extern __shared__ uint4 shared[];
    __shared__ struct chosen chosen;
    __shared__ float of_rank[DECODE_ACTIVE_MAX][TILE_ROWS];
    const int n_ranks = p.n_ranks, token = blockIdx.y, n_units = p.down.n_units;
    const int tile = blockIdx.x % UNIT_TILES, rank_bytes = fragments_bytes(n_units, 1);
    const int rank_of_thread = threadIdx.x / TILE_ROWS, row_of_thread = threadIdx.x % TILE_ROWS;
    const int row = blockIdx.x * TILE_ROWS + row_of_thread, at = token * p.n_columns + row;
    const bool is_summed = rank_of_thread < n_ranks && row < p.down.n_rows;
    char *fragments = (char *)shared + SHAPE::BYTES;
    float *sums = (float *)(fragments + n_ranks * rank_bytes);
    float bias = 0.0f, before = 0.0f;
    struct ring<SHAPE> ring;
    struct chosen c;

    choose(&c, scores_of(p, token), p.n_experts, n_ranks);
    if (threadIdx.x == 0)
        chosen = c;
    __syncthreads();
    const struct down_parts parts = {
        p.down.units + (int64_t)(blockIdx.x / UNIT_TILES * n_units) * SHAPE::UNIT_BYTES +
            tile * SHAPE::TILE_BYTES,
        p.down.matrix_bytes, tile, &chosen};

    ring_begin(&ring, (char *)shared, parts, n_ranks, n_units);
    if (is_summed)
        bias = vector_at(p.bias_down, chosen.ids[rank_of_thread], row);
    pdl_wait();
    pdl_launch_dependents();
    if (p.x != NULL && is_summed && rank_of_thread == 0)
        before = __ldcg(p.x + at);
    copy_entries(fragments, p.units + token * n_ranks * p.n_units, p.n_units, n_ranks, n_units);
    __syncthreads();
    for (int rank = 0; rank < n_ranks; rank++) {
        float acc[SHAPE::TILES][1][4];

        multiply_part<SHAPE, 1, 1>(acc, &ring, parts, tile, fragments + rank * rank_bytes, 0, 1);
        put_sums<SHAPE::TILES, 1>(sums + rank * part_sums(SHAPE::TILES, 1), acc, 1);
    }
    __syncthreads();
    if (is_summed)
        of_rank[rank_of_thread][row_of_thread] =
            sum_of_warps<true>(sums + rank_of_thread * part_sums(SHAPE::TILES, 1), row_of_thread,
                               SHAPE::TILES, 1) +
            bias;
    __syncthreads();
    if (is_summed && rank_of_thread == 0) {
        float sum = 0.0f;

        for (int rank = 0; rank < n_ranks; rank++)
            sum = __fmaf_rn(gate_of(chosen, rank, n_ranks), of_rank[rank][row_of_thread], sum);
        if (p.x != NULL)
            p.x[at] = before + sum;
        else
            p.h[at] = sum;
    }
    if (blockIdx.x == 0)
        store_choice(p, token, chosen);
    copy_wait<0>();
}

/* ---- launches ---- */

typedef ring_shape<DTYPE_MXFP4, 4, 1, 3> up_shape;
typedef ring_shape<DTYPE_MXFP4, 1, 1, 8> down_shape;

bool launch_decode_up(cudaStream_t stream, const struct decode_experts *p)
{
    static const int n_processors = decode_processors();
    const int n_entries = p->n_tokens * p->n_ranks;
    const int n_rows = (int)units_of(p->up.n_rows, UNIT_ROWS);
    const int n_blocks = (int)units_of(UP_BLOCKS * n_processors, n_entries);
    const int64_t shared_bytes = up_shape::BYTES + fragments_bytes(p->up.n_units, 1) +
                                 BUFFERS * part_sums(up_shape::TILES, 1) * (int64_t)sizeof(float);
    const dim3 grid((unsigned)(n_blocks < n_rows ? n_blocks : n_rows), (unsigned)n_entries);

    return decode_launch<up_kernel<up_shape>>(&stream, grid, shared_bytes, *p);
}

static bool down(const cudaStream_t *stream, const struct decode_experts *p)
{
    const int64_t rank_bytes = fragments_bytes(p->down.n_units, 1) +
                               part_sums(down_shape::TILES, 1) * (int64_t)sizeof(float);
    const dim3 grid((unsigned)units_of(p->down.n_rows, TILE_ROWS), (unsigned)p->n_tokens);

    return decode_launch<down_kernel<down_shape>>(stream, grid,
                                                  down_shape::BYTES + p->n_ranks * rank_bytes, *p);
}

bool launch_decode_down(cudaStream_t stream, const struct decode_experts *p)
{
    return down(&stream, p);
}

bool decode_down_fits(const struct decode_experts *p)
{
    return down(NULL, p);
}
