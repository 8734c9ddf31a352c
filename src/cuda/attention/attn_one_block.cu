/* Paged attention for decode rows with one block per row and head, for batches large enough to fill
 * the GPU that way. A block processes all splits of its row with the operations of attn_decode.cu
 * in the same order, so the bits are the same. Setup (block assignment, the query's three terms) is
 * done once per row instead of once per split. The next split's keys are copied while the current
 * sums are added, and the splits are merged in shared memory. Rows with more than ATTN_SPLITS_NEAR
 * splits are left to attn_decode.cu.
 *
 * Traffic: the keys and values that the rows see, once; memory bound. H200, 2026-11-22: 64 rows of
 * 1,024 tokens, eight key/value heads, BF16: 18 layers of a step take 0.29 ms less than with one
 * block per split (1.03 of 1.33 ms with as many layers that have a window). */
#include "cuda/attention/attn_row.cuh"

enum {
    PAIR = 2,              /* units of a warp's ring that share a softmax step */
    BLOCKS_AT_LEAST = 256, /* per launch: fewer leave SMs idle */
    SCRATCH_BYTES = ATTN_HEADS * HEAD_STRIDE * (int)sizeof(float)
};

/* A warp's next pair of units. */
struct split_pos {
    int split, index;
};

static __device__ __forceinline__ int first_of_split(const struct block &k, int split)
{
    return k.unit + split * ATTN_GROUP_UNITS;
}

/* Advances to the next pair; past the last split there is no unit. */
static __device__ __forceinline__ void advance_split(struct split_pos *p, const struct block &k)
{
    const int warp = threadIdx.x / WARP_LANES;

    p->index += PAIR * k.step;
    if (p->index - warp >= k.unit_end) {
        p->split++;
        p->index = p->split < k.n_splits ? first_of_split(k, p->split) + warp : k.unit_end;
    }
}

template <int DTYPE> static __device__ __forceinline__ char *unit_scratch(char *rings, int i)
{
    return rings + (i * WARPS + (int)threadIdx.x / WARP_LANES) * unit<DTYPE>::BYTES;
}

template <int DTYPE>
static __device__ __forceinline__ void copy_pair(char *rings, const struct source &from,
                                                 const struct block &k, int index,
                                                 const int32_t pages[PAIR])
{
#pragma unroll
    for (int i = 0; i < PAIR; i++)
        copy_unit<DTYPE>(unit_scratch<DTYPE>(rings, i), from, pages[i],
                         index + i * k.step < k.unit_end);
}

static __device__ __forceinline__ void pages_of(int32_t pages[PAIR], const struct block &k,
                                                int index)
{
#pragma unroll
    for (int i = 0; i < PAIR; i++)
        pages[i] = page_of(k, index + i * k.step);
}

/* Grid: 1, blocks per row, rows. The kernel report identifies decode attention by this function
 * name. */
template <int DTYPE>
static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    attn_decode(const __grid_constant__ struct attn_launch l)
{
    extern __shared__ __align__(16) char rings[];
    __shared__ struct shared s;
    const int warp = threadIdx.x / WARP_LANES;
    const float scale = l.args.scale * LOG2_E * result_scale<DTYPE>();
    char *const scratches = rings + PAIR * WARPS * unit<DTYPE>::BYTES;
    struct walked *const splits = (struct walked *)(scratches + WARPS * SCRATCH_BYTES);
    char *const at[PAIR] = {unit_scratch<DTYPE>(rings, 0), unit_scratch<DTYPE>(rings, 1)};
    int32_t pages[PAIR];
    struct block k;
    struct query q;
    struct sums sums = {};

    if (!begin_row(&k, l))
        return;
    const float sink = load_sink(l, k, warp);
    struct split_pos next = {0, k.unit + warp};
    const struct source from = source_of<DTYPE>(k, next.index);
    const bool is_late = is_written(k, next.index + k.step);

    pages_of(pages, k, next.index);
    if (!is_late)
        copy_pair<DTYPE>(rings, from, k, next.index, pages);
    pdl_wait();
    if (is_late)
        copy_pair<DTYPE>(rings, from, k, next.index, pages);
    advance_split(&next, k);
    pages_of(pages, k, next.index);
    load_query<DTYPE>(&q, query_of_block(l, k), k);
    for (int split = 0; split < k.n_splits; split++) {
        struct state st = {{}, {-INFINITY, -INFINITY}, {}};

        for (int index = first_of_split(k, split); index < k.unit_end; index += PAIR * k.step) {
            cp_async_wait<0>();
            __syncwarp();
            if (index + warp < k.unit_end)
                add_units<DTYPE, PAIR>(&st, q, at, k, index + warp, scale);
            __syncwarp();
            copy_pair<DTYPE>(rings, from, k, next.index, pages);
            advance_split(&next, k);
            pages_of(pages, k, next.index);
        }
        store_sums(&s, scratches + warp * SCRATCH_BYTES, &st, warp);
        __syncthreads();
        sums = sum_warps<DTYPE>(&s, scratches, SCRATCH_BYTES, warp);
        splits[split].out[threadIdx.x] = sums.out;
        if (threadIdx.x % WARP_LANES == 0)
            splits[split].numbers[warp] = make_float2(sums.largest, sums.weights);
        __syncthreads();
    }
    cp_async_wait<0>();
    if (k.n_splits > 1)
        sums = sum_walked_splits(splits, k.n_splits);
    finish(l, k, sums, sink, warp);
}

template <int DTYPE> static void launch_dtype(struct launch_list *list, const struct attn_launch *l)
{
    const size_t shared_bytes = (size_t)WARPS * (PAIR * unit<DTYPE>::BYTES + SCRATCH_BYTES) +
                                CLUSTER_SPLITS_MAX * sizeof(struct walked);

    add_dependent<attn_decode<DTYPE>>(
        list, dim3(1, (unsigned)attn_row_blocks(&l->args), (unsigned)l->n_rows), dim3(THREADS),
        shared_bytes, *l);
}

bool launch_attn_one_block(struct launch_list *list, const struct attn_launch *l)
{
    if (l->n_splits == 1 || l->n_rows * attn_row_blocks(&l->args) < BLOCKS_AT_LEAST)
        return false;
    if (l->args.kv.dtype == DTYPE_F8)
        launch_dtype<DTYPE_F8>(list, l);
    else
        launch_dtype<DTYPE_BF16>(list, l);
    return true;
}
