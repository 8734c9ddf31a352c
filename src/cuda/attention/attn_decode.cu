/* Paged attention for decode rows (flash decoding). For query row t and head h, over the keys j
 * that the row sees,
 *     s_j = scale q.k_j,  M = max(sink, max s),  att = sum exp(s_j - M) v_j
 *                                                      / (exp(sink - M) + sum exp(s_j - M)).
 *
 * Work division: a block has one row, one key/value head with up to eight of its query heads, and
 * one split of the keys. Its warps take units of 16 keys round-robin. Q K^T: the keys of a unit are
 * the 16-row operand A of the MMA, the query heads are its eight columns. P V: the transposed
 * values are A, the softmax weights are B. A shuffle transpose turns a register of scores into a
 * register of weights. Words of a page are fragment registers without rearrangement. Each warp has
 * its own cp.async ring; it issues the copies of units that earlier steps wrote before
 * griddepcontrol.wait.
 *
 * Precision: queries are split into three bf16 terms and weights into two; keys and values are
 * exact. The result is float32 except for the last bits. An F8 code is used as a bf16 number 2^-120
 * times its value.
 *
 * Reduction: the partial sums of the warps are added in warp order. If a row has several splits,
 * the block of the last split adds the split-K partials and the sink, in order. With few rows and
 * few splits the splits form a cluster and use its distributed shared memory. Otherwise they use
 * global memory (attn_merge.cuh). The order of all sums depends on the row's position alone.
 * Several rows of a sequence share a block (attn_rows.cu).
 *
 * Traffic: the keys and values that a row sees, once. Memory bound from about 16,384 tokens on,
 * below that bound by the latency of the chain from query to sum. H200, 2026-11-22, BF16, us per
 * layer in a chain of launches: 2.5 with a window of 128, 5.7 at 2,048 tokens, 22.2 at 32,768 (65 %
 * of read bandwidth), 66.2 at 131,072 (87 %). */
#include "cuda/attention/attn_merge.cuh"
#include "cuda/common/cluster.cuh"

enum {
    CLUSTER_ROWS_MAX = 2, /* of a launch that uses clusters of splits */
    RING_BYTES = 9 << 10  /* per warp, at most, if it has more than one unit */
};

/* Stage i of this warp's ring. */
template <int DTYPE> static __device__ __forceinline__ char *stage_of(char *rings, int i)
{
    return rings + (i * WARPS + (int)threadIdx.x / WARP_LANES) * unit<DTYPE>::BYTES;
}

/* Processes the warp's units, AT_ONCE at a time. Returns the header of the row's merge buffer. */
template <int DTYPE, int STAGES, int AT_ONCE, bool IS_CLUSTER>
static __device__ __forceinline__ struct attn_merge_header
run_warp(struct state *st, char *rings, const struct attn_launch &l, const struct block &k)
{
    const int first = k.unit + (int)threadIdx.x / WARP_LANES;
    const float scale = l.args.scale * LOG2_E * result_scale<DTYPE>();
    int32_t pages[STAGES]; /* page numbers, loaded early */
    const float *head = query_of_block(l, k);
    const struct source from = source_of<DTYPE>(k, first);
    struct query q;
    struct attn_merge_header header = {};
    int stage = 0;

    static_assert(STAGES % AT_ONCE == 0, "STAGES is a multiple of AT_ONCE");

#pragma unroll
    for (int i = 0; i < STAGES; i++)
        pages[i] = page_of(k, first + i * k.step);
#pragma unroll
    for (int i = 0; i < STAGES; i++)
        if (!is_written(k, first + i * k.step))
            copy_unit<DTYPE>(stage_of<DTYPE>(rings, i), from, pages[i],
                             first + i * k.step < k.unit_end);
    materialize(head);
    pdl_wait(); /* a single call site: a warp that waited elsewhere, too, would delay the others */
#pragma unroll
    for (int i = 0; i < STAGES; i++)
        if (is_written(k, first + i * k.step))
            copy_unit<DTYPE>(stage_of<DTYPE>(rings, i), from, pages[i],
                             first + i * k.step < k.unit_end);
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        pages[i] = page_of(k, first + (STAGES + i) * k.step);
    if (!IS_CLUSTER && k.n_splits > 1) {
        const uint4 words = __ldcg((const uint4 *)merge_buf_of(l, blockIdx.z));

        header = {words.x, words.y, words.z, words.w};
    }
    load_query<DTYPE>(&q, head, k);
    for (int index = first; index < k.unit_end; index += AT_ONCE * k.step) {
        char *at[AT_ONCE];

#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            at[i] = stage_of<DTYPE>(rings, stage + i);
        cp_async_wait<STAGES - AT_ONCE>();
        __syncwarp();
        add_units<DTYPE, AT_ONCE>(st, q, at, k, index, scale);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            copy_unit<DTYPE>(at[i], from, pages[i], index + (STAGES + i) * k.step < k.unit_end);
            pages[i] = page_of(k, index + (STAGES + AT_ONCE + i) * k.step);
        }
        stage = stage + AT_ONCE < STAGES ? stage + AT_ONCE : 0;
    }
    cp_async_wait<0>();
    __syncwarp();
    return header;
}

/* Stores a split's partial sums in the shared memory of the last split's block, within a
 * cluster. */
static __device__ __forceinline__ void cluster_store(struct walked *splits, int n_splits,
                                                     struct sums sums)
{
    struct walked *mine = splits + blockIdx.x;
    const int head = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;

    store_to_block((uint32_t)__cvta_generic_to_shared(&mine->out[threadIdx.x]), n_splits - 1,
                   sums.out);
    if (lane == 0)
        store_to_block((uint32_t)__cvta_generic_to_shared(&mine->numbers[head]), n_splits - 1,
                       make_float2(sums.largest, sums.weights));
}

/* Grid: splits (the blocks of a cluster if IS_CLUSTER), blocks per row, rows. */
template <int DTYPE, int STAGES, bool IS_CLUSTER>
static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    attn_decode(const __grid_constant__ struct attn_launch l)
{
    extern __shared__ __align__(16) char rings[];
    __shared__ struct shared s;
    struct walked *const splits = (struct walked *)(rings + STAGES * WARPS * unit<DTYPE>::BYTES);
    struct state st = {{}, {-INFINITY, -INFINITY}, {}};
    struct block k;
    struct sums sums;
    struct attn_merge_header header;

    pdl_launch_dependents();
    if (IS_CLUSTER)
        cluster_arrive(); /* this block has started: others may store into it */
    if (!block_of(&k, l)) {
        if (blockIdx.x + blockIdx.y + blockIdx.z == 0)
            pdl_wait(); /* a kernel that waits for this one must also wait for the earlier ones */
        if (IS_CLUSTER) {
            cluster_wait();
            cluster_arrive();
            cluster_wait();
        }
        return;
    }
    const int head = threadIdx.x / WARP_LANES; /* as many heads as warps */
    const float sink = load_sink(l, k, head);

    header = run_warp < DTYPE, STAGES, STAGES == 1 ? 1 : 2, IS_CLUSTER > (&st, rings, l, k);
    store_sums(&s, stage_of<DTYPE>(rings, 0), &st, head);
    __syncthreads();
    sums = sum_warps<DTYPE>(&s, rings, unit<DTYPE>::BYTES, head);
    if (IS_CLUSTER) {
        cluster_wait();
        if (k.n_splits > 1)
            cluster_store(splits, k.n_splits, sums);
        __syncwarp();
        cluster_arrive();
        cluster_wait();
        if ((int)blockIdx.x == k.n_splits - 1)
            finish(l, k, k.n_splits > 1 ? sum_walked_splits(splits, k.n_splits) : sums, sink, head);
        return;
    }
    finish_split(l, k, &sums, header, sink);
}

template <int DTYPE, int STAGES, bool IS_CLUSTER>
static void launch_stages(struct launch_list *list, const struct attn_launch *l)
{
    const size_t shared_bytes = (size_t)STAGES * WARPS * unit<DTYPE>::BYTES +
                                (IS_CLUSTER ? CLUSTER_SPLITS_MAX * sizeof(struct walked) : 0);

    add_dependent_clusters<attn_decode<DTYPE, STAGES, IS_CLUSTER>>(
        list, dim3((unsigned)l->n_splits, (unsigned)attn_row_blocks(&l->args), (unsigned)l->n_rows),
        dim3(THREADS), shared_bytes, IS_CLUSTER ? (unsigned)l->n_splits : 1, *l);
}

static bool has_one_unit_a_warp(const struct attn_launch *l)
{
    return l->n_units <= l->n_splits * WARPS;
}

static bool is_cluster_launch(const struct launch_list *list, const struct attn_launch *l)
{
    return !has_one_unit_a_warp(l) && l->n_splits > 1 && l->n_splits <= CLUSTER_SPLITS_MAX &&
           l->n_rows <= CLUSTER_ROWS_MAX && gpu_has_pdl(list->gpu);
}

template <int DTYPE> static void launch_dtype(struct launch_list *list, const struct attn_launch *l)
{
    enum { STAGES = RING_BYTES / unit<DTYPE>::BYTES / 2 * 2 };

    /* Rows with one unit per warp may use either kernel, with the same bits; other rows use
     * pairs. */
    if (has_one_unit_a_warp(l))
        launch_stages<DTYPE, 1, false>(list, l);
    else if (is_cluster_launch(list, l))
        launch_stages<DTYPE, STAGES, true>(list, l);
    else
        launch_stages<DTYPE, STAGES, false>(list, l);
}

void launch_attn_decode(struct launch_list *list, const struct attn_launch *l)
{
    if (l->n_splits <= ATTN_SPLITS_NEAR &&
        (launch_attn_one_block(list, l) || launch_attn_window(list, l)))
        return;
    if (!is_cluster_launch(list, l) && launch_attn_rows(list, l))
        return;
    if (l->args.kv.dtype == DTYPE_F8)
        launch_dtype<DTYPE_F8>(list, l);
    else
        launch_dtype<DTYPE_BF16>(list, l);
}
