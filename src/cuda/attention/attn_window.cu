/* Stage attn for generated rows of one split, as in layers with a window, of which there are so
 * many that they fill the card: the operations of attn_decode.cu in the same order, so the same
 * bits, by half as many warps. A warp does what two of the eight do there, one after the other;
 * four blocks are on a multiprocessor, and 64 rows with eight key/value heads are there at once.
 * The second part's keys and values are asked for when the first part's have come: what is under
 * way is enough for the memory, and one part is weighed while the other comes. Asked for at
 * once, all of it came late, and then all had to be weighed.
 *
 * Bytes: the keys and values that the rows see, once. H200, 2026-11-23, BF16, 64 rows with a
 * window of 128, us behind a kernel that has all of the card: 7.8, by attn_decode.cu 10.8, asked
 * for at once 9.2. */
#include "cuda/attention/attn_row.cuh"

enum {
    PARTS = 2, /* of the eight warps, that a warp does */
    BLOCK_WARPS = WARPS / PARTS,
    BLOCK_THREADS = BLOCK_WARPS * WARP_LANES,
    BLOCKS_AT_ONCE = 4,
    PAIR = 2,              /* units of one of the eight, weighed together */
    BLOCKS_AT_LEAST = 256, /* of a launch: fewer are sooner done by more warps */
    UNITS_MAX = WARPS * PAIR,
    EACH = UNITS_MAX / BLOCK_WARPS /* units of a warp */
};
static_assert((int)BLOCK_WARPS % (int)PAGE_UNITS == 0, "a warp's units have one place in pages");

template <int DTYPE>
static __device__ __forceinline__ char *scratch_of(char *scratches, int unit_of_row)
{
    return scratches + unit_of_row * unit<DTYPE>::BYTES;
}

/* Where a warp's units come from, and their pages. */
struct units {
    struct source from;
    int32_t pages[EACH];
    int first;
};

/* Asks for the warp's unit i, if there is one and it is wanted. */
template <int DTYPE>
static __device__ __forceinline__ void prefetch(char *scratches, const struct units &u,
                                                const struct block &k, int i, bool is_wanted)
{
    const int warp = threadIdx.x / WARP_LANES;

    copy_unit<DTYPE>(scratch_of<DTYPE>(scratches, warp + i * BLOCK_WARPS), u.from, u.pages[i],
                     is_wanted && u.first + i * BLOCK_WARPS < k.unit_end);
}

/* The units of one of the eight, which lie in its rooms, and its sums into the first of them. */
template <int DTYPE>
static __device__ __forceinline__ void add_part(struct shared *s, char *scratches,
                                                const struct query &q, const struct block &k,
                                                int part, float scale)
{
    struct state st = {{}, {-INFINITY, -INFINITY}, {}};
    char *const at[PAIR] = {scratch_of<DTYPE>(scratches, part),
                            scratch_of<DTYPE>(scratches, part + WARPS)};

    if (k.unit + part + WARPS < k.unit_end)
        add_units<DTYPE, PAIR>(&st, q, at, k, k.unit + part, scale);
    else if (k.unit + part < k.unit_end)
        add_units<DTYPE, 1>(&st, q, at, k, k.unit + part, scale);
    __syncwarp();
    store_sums(s, at[0], &st, part);
}

/* Grid: 1, blocks of a row, rows. The report of what ran knows attention of generated rows by
 * this name. */
template <int DTYPE>
static __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS_AT_ONCE)
    attn_decode(const __grid_constant__ struct attn_launch l)
{
    extern __shared__ __align__(16) char scratches[];
    __shared__ struct shared s;
    const int warp = threadIdx.x / WARP_LANES;
    const float scale = l.args.scale * LOG2_E * result_scale<DTYPE>();
    float sinks[PARTS];
    struct units u;
    struct block k;
    struct query q;

    if (!begin_block(&k, l))
        return;
    const float *head = query_of_block(l, k);

    u.first = k.unit + warp;
    u.from = source_of<DTYPE>(k, u.first);
#pragma unroll
    for (int i = 0; i < EACH; i++)
        u.pages[i] = page_of(k, u.first + i * BLOCK_WARPS);
#pragma unroll
    for (int i = 0; i < PARTS; i++)
        sinks[i] = load_sink(l, k, warp + i * BLOCK_WARPS);
#pragma unroll
    for (int i = 0; i < EACH; i += PARTS)
        prefetch<DTYPE>(scratches, u, k, i, !is_written(k, u.first + i * BLOCK_WARPS));
    materialize(head);
    pdl_wait();
#pragma unroll
    for (int i = 0; i < EACH; i += PARTS)
        prefetch<DTYPE>(scratches, u, k, i, is_written(k, u.first + i * BLOCK_WARPS));
    load_query<DTYPE>(&q, head, k);
#pragma unroll 1
    for (int part = warp; part < WARPS; part += BLOCK_WARPS) {
        cp_async_wait<0>();
        __syncwarp();
        if (part == warp) {
#pragma unroll
            for (int i = 1; i < EACH; i += PARTS)
                prefetch<DTYPE>(scratches, u, k, i, true);
        }
        add_part<DTYPE>(&s, scratches, q, k, part, scale);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        const int of = warp + i * BLOCK_WARPS;

        finish(l, k, sum_warps<DTYPE>(&s, scratches, unit<DTYPE>::BYTES, of), sinks[i], of);
    }
}

/* Units that a row sees at most. */
static int units_of_row(const struct attn_launch *l)
{
    const int window = l->args.window_tokens;
    const int n = (window + ATTN_UNIT_KEYS - 2) / ATTN_UNIT_KEYS + 1;

    return window > 0 && n < l->n_units ? n : l->n_units;
}

template <int DTYPE> static void launch_dtype(struct launch_list *list, const struct attn_launch *l)
{
    const int n_units = units_of_row(l);
    const size_t shared_bytes = (size_t)(n_units > WARPS ? n_units : WARPS) * unit<DTYPE>::BYTES;

    add_dependent<attn_decode<DTYPE>>(
        list, dim3(1, (unsigned)attn_row_blocks(&l->args), (unsigned)l->n_rows),
        dim3(BLOCK_THREADS), shared_bytes, *l);
}

bool launch_attn_window(struct launch_list *list, const struct attn_launch *l)
{
    if (l->n_splits > 1 || units_of_row(l) > UNITS_MAX ||
        l->n_rows * attn_row_blocks(&l->args) < BLOCKS_AT_LEAST)
        return false;
    if (l->args.kv.dtype == DTYPE_F8)
        launch_dtype<DTYPE_F8>(list, l);
    else
        launch_dtype<DTYPE_BF16>(list, l);
    return true;
}
