/* Paged attention for decode rows with one split (sliding-window layers), for batches that fill the
 * GPU. It runs the operations of attn_decode.cu in the same order, so the bits are the same, with
 * half as many warps: a warp does the work of two of the eight warps there, one after the other.
 * Four blocks fit on an SM, so 64 rows with eight key/value heads are all resident. The copies of
 * the second part are issued when the first part has arrived: that is enough in flight to saturate
 * memory, and the softmax of one part overlaps with the copies of the other. When all copies were
 * issued at once, all data arrived late, and none of the arithmetic overlapped.
 *
 * Traffic: the keys and values that the rows see, once. H200, 2026-11-23, BF16, 64 rows with a
 * window of 128, us after a kernel that occupies the whole GPU: 7.8; attn_decode.cu 10.8; all
 * copies at once 9.2. */
#include "cuda/attention/attn_row.cuh"

enum {
    PARTS = 2, /* of the eight warps' work, per warp */
    BLOCK_WARPS = WARPS / PARTS,
    BLOCK_THREADS = BLOCK_WARPS * WARP_LANES,
    BLOCKS_AT_ONCE = 4,
    PAIR = 2,              /* units that share a softmax step */
    BLOCKS_AT_LEAST = 256, /* per launch: with fewer blocks more warps are faster */
    UNITS_MAX = WARPS * PAIR,
    EACH = UNITS_MAX / BLOCK_WARPS /* units per warp */
};
static_assert((int)BLOCK_WARPS % (int)PAGE_UNITS == 0, "same page offset for all units of a warp");

template <int DTYPE>
static __device__ __forceinline__ char *scratch_of(char *scratches, int unit_of_row)
{
    return scratches + unit_of_row * unit<DTYPE>::BYTES;
}

/* The source of a warp's units, and their pages. */
struct units {
    struct source from;
    int32_t pages[EACH];
    int first;
};

/* Copies unit i of the warp, if it exists and is visible. */
template <int DTYPE>
static __device__ __forceinline__ void prefetch(char *scratches, const struct units &u,
                                                const struct block &k, int i, bool is_wanted)
{
    const int warp = threadIdx.x / WARP_LANES;

    copy_unit<DTYPE>(scratch_of<DTYPE>(scratches, warp + i * BLOCK_WARPS), u.from, u.pages[i],
                     is_wanted && u.first + i * BLOCK_WARPS < k.unit_end);
}

/* Processes the units of one of the eight warps, in its part of the ring, and stores its partial
 * sums there. */
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

/* Grid: 1, blocks per row, rows. The kernel report identifies decode attention by this function
 * name. */
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

    if (!begin_row(&k, l))
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

template <int DTYPE> static void launch_dtype(struct launch_list *list, const struct attn_launch *l)
{
    const int n_units = attn_units_of_row(l);
    const size_t shared_bytes = (size_t)(n_units > WARPS ? n_units : WARPS) * unit<DTYPE>::BYTES;

    add_dependent<attn_decode<DTYPE>>(
        list, dim3(1, (unsigned)attn_row_blocks(&l->args), (unsigned)l->n_rows),
        dim3(BLOCK_THREADS), shared_bytes, *l);
}

bool launch_attn_window(struct launch_list *list, const struct attn_launch *l)
{
    if (l->n_splits > 1 || attn_units_of_row(l) > UNITS_MAX ||
        l->n_rows * attn_row_blocks(&l->args) < BLOCKS_AT_LEAST)
        return false;
    if (launch_attn_many_window(list, l))
        return true;
    if (l->args.kv.dtype == DTYPE_F8)
        launch_dtype<DTYPE_F8>(list, l);
    else
        launch_dtype<DTYPE_BF16>(list, l);
    return true;
}
