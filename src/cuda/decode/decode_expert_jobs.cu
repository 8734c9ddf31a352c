/* Job lists for the grouped MoE decode kernels (decode_grouped.cu), by one block: top-k of each
 * token, unless the router did it, and for each expert its entries in token order, in jobs of up to
 * job_tokens, and the gates of the entries. Bound by latency. */
#include "cuda/decode/topk.cuh"
#include "cuda/common/live_rows.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/launch/launch_kernel.cuh"

enum {
    GROUP_THREADS = 1024,
    GROUP_WARPS = GROUP_THREADS / WARP_LANES,
    CHUNKS_MAX = DECODE_ROWS_MAX * DECODE_ACTIVE_MAX / WARP_LANES
};

/* The first entry and job of an expert. */
struct expert_slot {
    int entry, job;
};

/* Entries are ranked in warp-sized chunks: counts of an expert per chunk, then their prefix
 * sums. */
struct chunks {
    uint16_t of[CHUNKS_MAX][DECODE_EXPERTS_MAX];
};

/* First entries and jobs of the experts from their counts: one thread per expert, one prefix sum
 * for all three values. */
static __device__ void list_jobs(const struct decode_grouped &p, int count,
                                 struct expert_slot *first)
{
    enum { JOB_BIT = 12, ACTIVE_BIT = 24, MASK = (1 << JOB_BIT) - 1 };
    __shared__ uint32_t smem[GROUP_WARPS];
    const int e = threadIdx.x, n_jobs = (count + p.job_tokens - 1) / p.job_tokens;
    uint32_t all;
    const uint32_t before = sum_before((uint32_t)count | (uint32_t)n_jobs << JOB_BIT |
                                           (count > 0 ? 1u : 0u) << ACTIVE_BIT,
                                       smem, GROUP_WARPS, &all);
    const struct expert_slot at = {(int)(before & MASK), (int)(before >> JOB_BIT & MASK)};

    if (e < DECODE_EXPERTS_MAX)
        first[e] = at;
    for (int i = 0; i < n_jobs; i++) {
        struct decode_job *to = &p.jobs[at.job + i];

        *(int4 *)to = make_int4(e, at.entry + i * p.job_tokens,
                                min(count - i * p.job_tokens, p.job_tokens), 0);
        for (int token = 0; token < DECODE_JOB_TOKENS; token += 4)
            *(int4 *)&to->tokens[token] = make_int4(0, 0, 0, 0);
    }
    if (threadIdx.x == 0) {
        *p.n_jobs = (int)(all >> JOB_BIT & MASK);
        (void)atomicAdd((unsigned long long *)p.e.n_read, (unsigned long long)(all >> ACTIVE_BIT));
    }
}

/* One warp selects a token's experts; ids and gates of all tokens. */
static __device__ void select_experts(const struct decode_grouped &p, int token, int *ids,
                                      float *gates)
{
    const int lane = threadIdx.x % WARP_LANES, at = token * p.e.n_ranks + lane;
    struct topk c;

    select_topk(&c, candidates_of(p.e.router_logits + token * p.e.n_experts, p.e.n_experts),
                p.e.n_ranks);
    if (lane >= p.e.n_ranks)
        return;
    ids[at] = p.e.ids[at] = id_of(c, lane);
    gates[at] = p.e.gates[at] = gate_of(c, lane, p.e.n_ranks);
}

/* Number of lower lanes of the warp with the same expert. */
static __device__ __forceinline__ int rank_in_chunk(int id, int *n_same)
{
    const unsigned same = __match_any_sync(ALL_LANES, id);

    *n_same = __popc(same);
    return __popc(same & ((1u << threadIdx.x % WARP_LANES) - 1));
}

/* One block. Entry i is token i / n_ranks; the entries of an expert keep this order. */
static __global__ void __launch_bounds__(GROUP_THREADS, 1)
    expert_jobs_kernel(const __grid_constant__ struct decode_grouped p)
{
    __shared__ struct chunks chunks;
    __shared__ struct expert_slot first[DECODE_EXPERTS_MAX];
    __shared__ int ids[CHUNKS_MAX * WARP_LANES];
    __shared__ float gates[CHUNKS_MAX * WARP_LANES];
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int n_tokens = live_rows(p.e.n_live, p.e.n_tokens);
    const int n = n_tokens * p.e.n_ranks, n_chunks = (n + WARP_LANES - 1) / WARP_LANES;
    int n_same, count = 0;

    for (int i = threadIdx.x; i < n_chunks * DECODE_EXPERTS_MAX / 2; i += GROUP_THREADS)
        ((uint32_t *)chunks.of)[i] = 0;
    for (int i = n + (int)threadIdx.x; i < n_chunks * WARP_LANES; i += GROUP_THREADS)
        ids[i] = -1;
    pdl_wait();
    pdl_launch_dependents();
    for (int token = warp; token < n_tokens && p.e.router_logits != NULL; token += GROUP_WARPS)
        select_experts(p, token, ids, gates);
    for (int i = threadIdx.x; i < n && p.e.router_logits == NULL; i += GROUP_THREADS) {
        ids[i] = __ldcg(p.e.ids + i);
        gates[i] = __ldcg(p.e.gates + i);
    }
    __syncthreads();
    for (int chunk = warp; chunk < n_chunks; chunk += GROUP_WARPS) {
        const int id = ids[chunk * WARP_LANES + lane];

        if (rank_in_chunk(id, &n_same) == 0 && id >= 0)
            chunks.of[chunk][id] = (uint16_t)n_same;
    }
    __syncthreads();
    for (int chunk = 0; chunk < n_chunks && threadIdx.x < DECODE_EXPERTS_MAX; chunk++) {
        const int n_here = chunks.of[chunk][threadIdx.x];

        chunks.of[chunk][threadIdx.x] = (uint16_t)count;
        count += n_here;
    }
    list_jobs(p, count, first);
    __syncthreads();
    for (int chunk = warp; chunk < n_chunks; chunk += GROUP_WARPS) {
        const int i = chunk * WARP_LANES + lane, id = ids[i], rank = rank_in_chunk(id, &n_same);

        if (id < 0)
            continue;
        const int at = chunks.of[chunk][id] + rank;

        p.jobs[first[id].job + at / p.job_tokens].tokens[at % p.job_tokens] = i / p.e.n_ranks;
        p.entry[i] = first[id].entry + at;
        p.entry_gates[first[id].entry + at] = gates[i];
    }
}

void launch_decode_expert_jobs(struct launch_list *list, const struct decode_grouped *p)
{
    add_dependent<expert_jobs_kernel>(list, 1, GROUP_THREADS, 0, *p);
}
