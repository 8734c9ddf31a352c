/* Stages attn_qkv, attn and attn_out of one decode row, with the residual add and the router's
 * sums, in one launch: the operations of decode_qkv.cu, attn_decode.cu and decode_out.cu, with
 * their bits.
 *
 * One block on each SM, all of which run at once. A block fits on an SM beside a block of
 * decode_experts.cu (shared memory and registers), so it starts while the kernel before still runs,
 * and its weights of QKV are there when that has ended. Between the stages blocks exchange numbers
 * through the second-level cache: a word that is not EMPTY is there. So a stage waits for the
 * blocks whose numbers it needs, not for the slowest block and the launch of a kernel.
 *
 * Work division: a block has one or one and a half half-heads of QKV, and one or two tiles of the
 * output matrix; all products are chains of the units of one tile, a warp each. Attention has one
 * block for each split and key/value head, and the blocks with the least work first. Bound by
 * latency. */
#include "cuda/layer/layer_attn.cuh"
#include "cuda/layer/layer_out.cuh"
#include "cuda/layer/layer_qkv.cuh"

/* n_each vectors of the words of the layer before, by one warp, and its router sums. */
static __device__ __forceinline__ void clear_before(const struct decode_attn_layer &p,
                                                    unsigned n_each)
{
    enum { VECTORS = LAYER_WORDS / 4, SUMS = ROUTER_ROW_SUMS / 2 };
    const unsigned lane = threadIdx.x % WARP_LANES, at = blockIdx.x * n_each + lane;

    if (lane < n_each && at < VECTORS)
        ((uint4 *)p.words_before)[at] = make_uint4(EMPTY, EMPTY, EMPTY, EMPTY);
    if (blockIdx.x < SUMS / 16 && lane < 16)
        ((uint4 *)p.sums_before)[blockIdx.x * 16 + lane] = make_uint4(0, 0, 0, 0);
}
static_assert(ROUTER_ROW_SUMS % 32 == 0, "16 vectors a block");

/* What needs no row: weights, and what is known of the batch. */
static __device__ __forceinline__ void prepare(char *shared, struct attn_job *job,
                                               const struct decode_attn_layer &p,
                                               const struct layer_plan &plan)
{
    const struct thread_index at = index_of_thread();

    if (at.group == 1 && at.warp == 2)
        make_job(job, p, job_of_block(2 * plan.n_split));
    if (at.group == 0 && at.warp == 0)
        ((uint32_t *)(shared + ZEROS_AT))[at.lane] = 0;
    __syncthreads();
    if (job->n_splits > 0)
        prefetch_keys(*job, p,
                      (unsigned)((at.group * RING_WARPS + at.warp) * WARP_LANES + at.lane));
}

/* Grid: one block on each SM. */
static __global__ void __maxnreg__(LAYER_REGISTERS)
    attn_layer_kernel(const __grid_constant__ struct decode_attn_layer p,
                      const __grid_constant__ struct layer_plan plan)
{
    extern __shared__ __align__(LINE_BYTES) uint4 shared_words[];
    __shared__ struct attn_job job;
    char *const shared = (char *)shared_words;
    const unsigned tid = threadIdx.y * RING_THREADS + threadIdx.x;

    copy_qkv(shared, p, plan);
    struct qkv_pair pair = pair_of_thread(p, plan);
    prepare(shared, &job, p, plan);
    const struct norm_ready ready = ready_norm(p.qkv.rows, tid);

    pdl_launch_dependents();
    pdl_wait();
    if (is_rotated(pair)) {
        pair.cosine = __ldcg(p.qkv.cos_sin + pair.at % DECODE_HEAD_WIDTH);
        pair.sine = __ldcg(p.qkv.cos_sin + pair.at % DECODE_HEAD_WIDTH + HALF);
    }
    const struct row_loads loads = load_row(p.qkv.rows, ready, tid);

    copy_out(shared, p, plan); /* while the row is on its way */
    norm_row(shared, p.qkv.rows, ready, loads, tid, blockIdx.x == 0 ? p.qkv.rows.y : NULL);
    copy_wait<1>(); /* the first copies */
    __syncwarp();
    multiply_qkv(shared, plan);
    __syncthreads();
    if (pair.at >= 0)
        send_pair(shared, p, pair);
    if (threadIdx.y == 1 && threadIdx.x / WARP_LANES == 3)
        clear_before(p, plan.n_each);
    if (job.n_splits > 0)
        attend_split(shared, job, p, plan);
    project_out(shared, p, plan);
}

static bool is_bf16_vector(const struct decode_vector &v)
{
    return v.kind == VECTOR_BF16;
}

/* Whether the kernel is made for these shapes and formats. */
static bool is_supported(const struct decode_attn_layer *p)
{
    const struct decode_qkv *q = &p->qkv;
    const struct decode_out *o = &p->out;
    const struct decode_vector *bias = q->bias;

    return q->is_mxfp4 && o->p.is_mxfp4 && q->is_cache_bf16 && q->peers == NULL &&
           o->peers == NULL && q->n_q == LAYER_HEADS && q->n_kv == LAYER_KV_HEADS &&
           q->rows.n == ROW_UNITS * UNIT_COLUMNS && o->p.w.n_units == OUT_UNITS &&
           o->p.w.n_rows == ROW_UNITS * UNIT_COLUMNS &&
           o->router.n_rows <= RING_WARPS * TILE_ROWS && o->router.n_rows % TILE_ROWS == 0 &&
           is_bf16_vector(bias[0]) && is_bf16_vector(bias[1]) && is_bf16_vector(bias[2]) &&
           is_bf16_vector(o->p.bias) && o->norm.kind != VECTOR_PACKED &&
           q->rows.norm.kind != VECTOR_PACKED;
}

bool launch_decode_attn_layer(struct launch_list *list, const struct decode_attn_layer *p)
{
    const int n_blocks = list->gpu->n_sms, n_tiles = (int)units_of(p->out.p.w.n_rows, TILE_ROWS);
    const int n_half_heads = (p->qkv.n_q + 2 * p->qkv.n_kv) * HALVES_OF_A_HEAD;
    const int n_split = n_half_heads - n_blocks, n_two = n_tiles - n_blocks;

    if (!gpu_has_pdl(list->gpu) || !is_supported(p) || n_split < 0 || n_two < 0 ||
        2 * n_split + n_two > n_blocks || n_blocks < LAYER_SPLITS * LAYER_KV_HEADS ||
        n_blocks * WARP_LANES < LAYER_WORDS / 4)
        return false;
    const struct layer_plan plan = {n_split, n_two, (uint32_t)units_of(LAYER_WORDS / 4, n_blocks)};

    return decode_launch_of<attn_layer_kernel>(list, dim3((unsigned)n_blocks),
                                               dim3(RING_THREADS, GROUPS), SHARED_BYTES, *p, plan);
}
