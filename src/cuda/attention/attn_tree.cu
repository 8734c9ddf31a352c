/* Paged attention for the decode rows of a step with draft trees (attn_tree.h). The operations are
 * those of attn_decode.cu in the same order, so a row has the bits of one-row decode of its path.
 *
 * A unit is copied as it is stored. Where keys of the row's path live in other slots, the unit's
 * warp copies these keys and values over those that came with the unit, in shared memory. A path
 * has 17 positions at most, so these are in one or two units of a row. Every row has its own
 * blocks, since rows of a tree see different keys there, and the splits of a row are merged in
 * global memory (attn_merge.cuh).
 *
 * Traffic: the keys and values that a row sees, once. */
#include "cuda/attention/attn_merge.cuh"
#include "cuda/attention/attn_tree.h"

enum {
    PAIR = 2,             /* units of a warp that share a softmax step */
    RING_BYTES = 9 << 10, /* per warp, at most */
    SLOTS_AT_ONCE = 4     /* of a path: their loads are in flight together */
};

/* A lane's part of a slot: a word of the key, elements `lane` and `lane` + 32 of the value, and the
 * scale of one of them. */
template <int DTYPE> struct slot_part {
};
template <> struct slot_part<DTYPE_BF16> {
    typedef unsigned short element;
    enum { N = 2 };
    uint32_t key;
    element value[2];
};
template <> struct slot_part<DTYPE_F8> {
    typedef unsigned char element;
    enum { N = 4 };
    uint32_t key;
    element value[2];
    float scale;
};

template <int DTYPE>
static __device__ __forceinline__ void load_slot(struct slot_part<DTYPE> *part,
                                                 const struct block &k, int slot)
{
    enum { N = slot_part<DTYPE>::N };
    typedef typename slot_part<DTYPE>::element element;
    const int lane = threadIdx.x % WARP_LANES, at = slot % PAGE_TOKENS;
    const char *keys = k.keys + (uint64_t)(uint32_t)k.pages[slot / PAGE_TOKENS] * k.page_bytes;
    const char *values = keys + k.values_bytes;

    if (lane * N < ATTN_HEAD_DIM)
        part->key = __ldcg((const uint32_t *)keys + kv_word(N, ATTN_HEAD_DIM, 0, at, lane * N));
#pragma unroll
    for (int i = 0; i < 2; i++)
        part->value[i] =
            __ldcg((const element *)values +
                   kv_word(N, ATTN_HEAD_DIM, 1, at, lane + i * WARP_LANES) * N + at % N);
    if constexpr (DTYPE == DTYPE_F8)
        part->scale = __ldcg((const float *)((lane % 2 == 0 ? keys : values) +
                                             PAGE_UNITS * unit<DTYPE>::KV_HALF_BYTES) +
                             at);
}

/* Writes the part to where the unit in the ring has this position. */
template <int DTYPE>
static __device__ __forceinline__ void store_slot(char *ring, const struct slot_part<DTYPE> &part,
                                                  int position)
{
    enum { N = slot_part<DTYPE>::N };
    typedef typename slot_part<DTYPE>::element element;
    const int lane = threadIdx.x % WARP_LANES;
    char *values = ring + unit<DTYPE>::KV_HALF_BYTES;

    if (lane * N < ATTN_HEAD_DIM)
        *(uint32_t *)(ring + attn_unit_key(lane, position)) = part.key;
#pragma unroll
    for (int i = 0; i < 2; i++)
        *(element *)(values + attn_unit_value(N, lane + i * WARP_LANES, position)) = part.value[i];
    if constexpr (DTYPE == DTYPE_F8)
        if (lane < 2)
            ((float *)(ring + 2 * unit<DTYPE>::KV_HALF_BYTES +
                       lane * unit<DTYPE>::SCALES_BYTES))[position % ATTN_UNIT_KEYS] = part.scale;
}

/* The unit has arrived. Keys and values of the path come to their positions. */
template <int DTYPE>
static __device__ __forceinline__ void place_path(char *ring, const struct block &k,
                                                  const struct attn_path &p, int index)
{
    uint32_t left = p.mask;

    if (!attn_path_moves(&p, index * ATTN_UNIT_KEYS, ATTN_UNIT_KEYS))
        return;
#pragma unroll 1
    for (int position = p.first; left != 0; position += SLOTS_AT_ONCE) {
        struct slot_part<DTYPE> parts[SLOTS_AT_ONCE];
        bool is_moved[SLOTS_AT_ONCE];

#pragma unroll
        for (int i = 0; i < SLOTS_AT_ONCE; i++) {
            const int slot = p.first + __ffs((int)left) - 1;

            is_moved[i] =
                left != 0 && (position + i) / ATTN_UNIT_KEYS == index && slot != position + i;
            if (is_moved[i])
                load_slot<DTYPE>(&parts[i], k, slot);
            left &= left - 1;
        }
#pragma unroll
        for (int i = 0; i < SLOTS_AT_ONCE; i++)
            if (is_moved[i])
                store_slot<DTYPE>(ring, parts[i], position + i);
    }
    __syncwarp();
}

/* Stage i of this warp's ring. */
template <int DTYPE> static __device__ __forceinline__ char *stage_of(char *rings, int i)
{
    return rings + (i * WARPS + (int)threadIdx.x / WARP_LANES) * unit<DTYPE>::BYTES;
}

/* Processes the warp's units, a pair at a time. Returns the header of the row's merge buffer. */
template <int DTYPE, int STAGES>
static __device__ __forceinline__ struct attn_merge_header
run_warp(struct state *st, char *rings, const struct attn_launch &l, const struct block &k,
         const struct attn_path &p)
{
    const int first = k.unit + (int)threadIdx.x / WARP_LANES;
    const float scale = l.args.scale * LOG2_E * result_scale<DTYPE>();
    const struct source from = source_of<DTYPE>(k, first);
    struct attn_merge_header header = {};
    struct query q;
    int stage = 0;

#pragma unroll
    for (int i = 0; i < STAGES; i++)
        if (!is_written(k, first + i * k.step))
            copy_unit<DTYPE>(stage_of<DTYPE>(rings, i), from, page_of(k, first + i * k.step),
                             first + i * k.step < k.unit_end);
    pdl_wait();
#pragma unroll
    for (int i = 0; i < STAGES; i++)
        if (is_written(k, first + i * k.step))
            copy_unit<DTYPE>(stage_of<DTYPE>(rings, i), from, page_of(k, first + i * k.step),
                             first + i * k.step < k.unit_end);
    if (k.n_splits > 1) {
        const uint4 words = __ldcg((const uint4 *)merge_buf_of(l, blockIdx.z));

        header = {words.x, words.y, words.z, words.w};
    }
    load_query<DTYPE>(&q, query_of_block(l, k), k);
    for (int index = first; index < k.unit_end; index += PAIR * k.step) {
        char *const at[PAIR] = {stage_of<DTYPE>(rings, stage), stage_of<DTYPE>(rings, stage + 1)};

        cp_async_wait<STAGES - PAIR>();
        __syncwarp();
#pragma unroll 1
        for (int i = 0; i < PAIR; i++)
            if (index + i * k.step < k.unit_end)
                place_path<DTYPE>(stage_of<DTYPE>(rings, stage + i), k, p, index + i * k.step);
        add_units<DTYPE, PAIR>(st, q, at, k, index, scale);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PAIR; i++)
            copy_unit<DTYPE>(at[i], from, page_of(k, index + (STAGES + i) * k.step),
                             index + (STAGES + i) * k.step < k.unit_end);
        stage = stage + PAIR < STAGES ? stage + PAIR : 0;
    }
    cp_async_wait<0>();
    __syncwarp();
    return header;
}

/* Grid: splits, blocks per row, rows. */
template <int DTYPE, int STAGES>
static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    attn_decode_tree(const __grid_constant__ struct attn_launch l)
{
    extern __shared__ __align__(16) char rings[];
    __shared__ struct shared s;
    const int head = threadIdx.x / WARP_LANES; /* as many heads as warps */
    struct state st = {{}, {-INFINITY, -INFINITY}, {}};
    struct block k;
    struct sums sums;

    static_assert(STAGES % PAIR == 0, "pairs of units");
    pdl_launch_dependents();
    if (!block_of(&k, l)) {
        if (blockIdx.x + blockIdx.y + blockIdx.z == 0)
            pdl_wait(); /* a kernel that waits for this one must also wait for the earlier ones */
        return;
    }
    const float sink = load_sink(l, k, head);
    const struct attn_path p = attn_path_of(k.end - 1, BATCH_TREE_MASKS(l.batch)[k.row]);

    k.written = min(k.written, p.first); /* the slots of a tree begin there */
    const struct attn_merge_header header = run_warp<DTYPE, STAGES>(&st, rings, l, k, p);

    store_sums(&s, stage_of<DTYPE>(rings, 0), &st, head);
    __syncthreads();
    sums = sum_warps<DTYPE>(&s, rings, unit<DTYPE>::BYTES, head);
    finish_split(l, k, &sums, header, sink);
}

template <int DTYPE> static void launch_dtype(struct launch_list *list, const struct attn_launch *l)
{
    enum { STAGES = RING_BYTES / unit<DTYPE>::BYTES / PAIR * PAIR };

    add_dependent<attn_decode_tree<DTYPE, STAGES>>(
        list, dim3((unsigned)l->n_splits, (unsigned)attn_row_blocks(&l->args), (unsigned)l->n_rows),
        dim3(THREADS), (size_t)STAGES * WARPS * unit<DTYPE>::BYTES, *l);
}

void launch_attn_tree(struct launch_list *list, const struct attn_launch *l)
{
    if (l->args.kv.dtype == DTYPE_F8)
        launch_dtype<DTYPE_F8>(list, l);
    else
        launch_dtype<DTYPE_BF16>(list, l);
}
