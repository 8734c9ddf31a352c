/* Job lists for the grouped MoE decode kernels (decode_grouped*.cu), by one block: top-k of each
 * token, unless the router did it, and for each expert its entries in token order, in jobs of up to
 * job_tokens, the gates of the entries, and where blocks have shares, their first items. Bound by
 * latency.
 *
 * A second kernel does it for a few rows, from the router sums of the output projection, with the
 * norms of the rows. A third one copies the rows of the entries to the operand that the kernels for
 * many rows read. For five to eight rows the router's kernel can list the jobs (decode_router.cu).
 */
#include "cuda/decode/expert_row.cuh"
#include "cuda/decode/few_jobs.cuh"
#include "cuda/decode/job_shares.h"
#include "cuda/common/operand_piece.cuh"
#include "cuda/decode/topk.cuh"
#include "cuda/common/live_rows.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/operand.h"

enum {
    GROUP_THREADS = 1024,
    GROUP_WARPS = GROUP_THREADS / WARP_LANES,
    LANE_ENTRIES_MAX = DECODE_ROWS_MAX * DECODE_ACTIVE_MAX / GROUP_THREADS
};

/* A warp has consecutive entries: its counts of each expert, then the number of that expert's
 * entries before its own. */
struct warp_counts {
    uint16_t of[GROUP_WARPS][DECODE_EXPERTS_MAX];
};

/* First entries and jobs of the experts, and their numbers, from the experts' counts: one thread
 * per expert, one prefix sum for all four values. */
static __device__ void list_jobs(const struct decode_grouped &p, int count,
                                 struct expert_slot *first)
{
    enum { FIELD_BITS = 16, MASK = (1 << FIELD_BITS) - 1 };
    static_assert((int)DECODE_ROWS_MAX * (int)DECODE_ACTIVE_MAX +
                          (int)DECODE_EXPERTS_MAX * (int)OPERAND_ALIGN_ROWS <=
                      (int)MASK,
                  "each sum fits in its field");
    __shared__ uint64_t smem[GROUP_WARPS];
    const int e = threadIdx.x, n_jobs = (count + p.job_tokens - 1) / p.job_tokens;
    const int n_rows = (int)units_of(count, OPERAND_ALIGN_ROWS) * OPERAND_ALIGN_ROWS;
    uint64_t all;
    const uint64_t before = sum_before((uint64_t)count | (uint64_t)n_jobs << FIELD_BITS |
                                           (uint64_t)n_rows << 2 * FIELD_BITS |
                                           (uint64_t)(count > 0 ? 1 : 0) << 3 * FIELD_BITS,
                                       smem, GROUP_WARPS, &all);
    const struct expert_slot at = {(int)(before & MASK), (int)(before >> FIELD_BITS & MASK),
                                   (int)(before >> 2 * FIELD_BITS & MASK)};

    if (e <= DECODE_EXPERTS_MAX)
        first[e] = at;
    for (int i = 0; i < n_jobs; i++) {
        struct decode_job *to = &p.jobs[at.job + i];

        *(int4 *)to =
            make_int4(e, at.entry + i * p.job_tokens, min(count - i * p.job_tokens, p.job_tokens),
                      at.row + i * p.job_tokens);
        for (int token = 0; token < DECODE_JOB_TOKENS; token += 4)
            *(int4 *)&to->tokens[token] = make_int4(0, 0, 0, 0);
    }
    if (threadIdx.x == 0) {
        *p.n_jobs = (int)(all >> FIELD_BITS & MASK);
        (void)atomicAdd((unsigned long long *)p.e.n_read,
                        (unsigned long long)(all >> 3 * FIELD_BITS));
    }
}

/* The first items of all shares: one thread each. */
static __device__ void list_shares(const struct decode_grouped &p, const struct expert_slot *first)
{
    const int n_each = p.n_shares + 1;

    for (int i = threadIdx.x; i < 2 * n_each; i += GROUP_THREADS)
        p.shares[i] = first_item_of(first, DECODE_EXPERTS_MAX, p.job_tokens, p.n_parts[i / n_each],
                                    i % n_each, p.n_shares);
}

/* One warp selects a token's experts; ids and gates of all tokens. */
static __device__ void select_experts(const struct decode_grouped &p, int token)
{
    const int lane = threadIdx.x % WARP_LANES, at = token * p.e.n_ranks + lane;
    struct topk c;

    select_topk(&c, candidates_of(p.e.router_logits + token * p.e.n_experts, p.e.n_experts),
                p.e.n_ranks);
    if (lane >= p.e.n_ranks)
        return;
    p.e.ids[at] = id_of(c, lane);
    p.e.gates[at] = gate_of(c, lane, p.e.n_ranks);
}

/* Number of lower lanes of the warp with the same expert. */
static __device__ __forceinline__ int rank_in_warp(int id, int *n_same)
{
    const unsigned same = __match_any_sync(ALL_LANES, id);

    *n_same = __popc(same);
    return __popc(same & ((1u << threadIdx.x % WARP_LANES) - 1));
}

/* Adds a warp's entries with this expert to its count; returns the count before this lane's. */
static __device__ __forceinline__ int count_entry(uint16_t *counts, int id)
{
    int n_same, before;
    const int rank = rank_in_warp(id, &n_same);

    before = id >= 0 ? counts[id] + rank : 0;
    __syncwarp();
    if (rank == 0 && id >= 0)
        counts[id] = (uint16_t)(counts[id] + n_same);
    __syncwarp();
    return before;
}

static __device__ __forceinline__ void place_entry(const struct decode_grouped &p, int i, int at,
                                                   const struct expert_slot &first)
{
    if (p.place != NULL)
        p.place[i] = first.row + at;
    else
        p.jobs[first.job + at / p.job_tokens].tokens[at % p.job_tokens] = i / p.e.n_ranks;
    p.entry[i] = first.entry + at;
    p.entry_gates[first.entry + at] = __ldcg(p.e.gates + i);
}

/* One block. Entry i is token i / n_ranks; the entries of an expert keep this order. */
static __global__ void __launch_bounds__(GROUP_THREADS, 1)
    expert_jobs_kernel(const __grid_constant__ struct decode_grouped p)
{
    __shared__ struct warp_counts counts;
    __shared__ struct expert_slot first[DECODE_EXPERTS_MAX + 1];
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int n_tokens = live_rows(p.e.n_live, p.e.n_tokens), n = n_tokens * p.e.n_ranks;
    const int n_each = (n + GROUP_THREADS - 1) / GROUP_THREADS; /* of a lane */
    const int first_entry = warp * n_each * WARP_LANES + lane;
    int ids[LANE_ENTRIES_MAX], count = 0;

    for (int i = threadIdx.x; i < (int)sizeof(counts) / 4; i += GROUP_THREADS)
        ((uint32_t *)counts.of)[i] = 0;
    pdl_wait();
    pdl_launch_dependents();
    for (int token = warp; token < n_tokens && p.e.router_logits != NULL; token += GROUP_WARPS)
        select_experts(p, token);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < LANE_ENTRIES_MAX; k++) {
        const int i = first_entry + k * WARP_LANES;

        ids[k] = k < n_each && i < n ? __ldcg(p.e.ids + i) : -1;
    }
#pragma unroll
    for (int k = 0; k < LANE_ENTRIES_MAX; k++)
        if (k < n_each)
            (void)count_entry(counts.of[warp], ids[k]);
    __syncthreads();
    for (int w = 0; w < GROUP_WARPS && threadIdx.x < DECODE_EXPERTS_MAX; w++) {
        const int n_here = counts.of[w][threadIdx.x];

        counts.of[w][threadIdx.x] = (uint16_t)count;
        count += n_here;
    }
    list_jobs(p, count, first);
    __syncthreads();
    if (p.shares != NULL)
        list_shares(p, first);
#pragma unroll
    for (int k = 0; k < LANE_ENTRIES_MAX; k++) {
        if (k >= n_each)
            break;
        const int at = count_entry(counts.of[warp], ids[k]);

        if (ids[k] >= 0)
            place_entry(p, first_entry + k * WARP_LANES, at, first[ids[k]]);
    }
}

void launch_decode_expert_jobs(struct launch_list *list, const struct decode_grouped *p)
{
    add_dependent<expert_jobs_kernel>(list, 1, GROUP_THREADS, 0, *p);
}

/* ---- a few rows whose router sums are known (decode_out.cu) ---- */

static_assert((int)DECODE_FUSED_MAX * (int)DECODE_ACTIVE_MAX <= (int)WARP_LANES,
              "an entry for each lane");

/* Block 0 selects the experts of all rows, a warp each, and lists their jobs; block t + 1
 * normalizes row t. */
static __global__ void __launch_bounds__(EXPERT_THREADS, 1)
    few_jobs_kernel(const __grid_constant__ struct decode_grouped p)
{
    __shared__ int ids[DECODE_FUSED_MAX * DECODE_ACTIVE_MAX];
    __shared__ float gates[DECODE_FUSED_MAX * DECODE_ACTIVE_MAX];
    const int warp = threadIdx.x / WARP_LANES, n = p.e.n_columns;
    const int token = blockIdx.x > 0 ? (int)blockIdx.x - 1 : warp;
    const uint64_t *sums = p.e.topk_input.sums + token * ROUTER_ROW_SUMS;
    struct row_info info;

    init_row_info(&info, p.e);
    if (blockIdx.x == 0)
        router_biases(info.biases, p.e.topk_input.bias, p.e.n_experts);
    pdl_wait();
    pdl_launch_dependents();
    if (blockIdx.x > 0) {
        if (warp > 0)
            norm_row((char *)(p.normed + token * p.e.up.n_units * UNIT_COLUMNS),
                     p.e.topk_input.x + token * n, sums, p.e.y + token * n, p.e, info, n);
        return;
    }
    if (warp < p.e.n_tokens) {
        const int at = warp * p.e.n_ranks;

        store_gates(gates + at, topk_of_sums(ids + at, sums, p.e, info, p.e.n_experts),
                    threadIdx.x % WARP_LANES, p.e.n_ranks);
    }
    __syncthreads();
    if (warp == 0) {
        const int lane = threadIdx.x, n_entries = p.e.n_tokens * p.e.n_ranks;
        const bool is_entry = lane < n_entries;
        const int id = is_entry ? ids[lane] : 0;
        const float gate = is_entry ? gates[lane] : 0.0f;

        list_few_jobs(p, id, gate, n_entries);
        if (is_entry) {
            p.e.ids[lane] = id;
            p.e.gates[lane] = gate;
        }
    }
}

void launch_decode_few_jobs(struct launch_list *list, const struct decode_grouped *p)
{
    add_dependent<few_jobs_kernel>(list, (unsigned)(1 + p->e.n_tokens), EXPERT_THREADS, 0, *p);
}

/* ---- the operand ---- */

enum {
    OPERAND_THREADS = 384, /* one piece of 16 bytes each: rows of up to 48 units at once */
    PIECES = OPERAND_ROW_BYTES / OPERAND_PIECE_BYTES
};

/* A block per token: its row, in the order of an operand, to the rows of its entries. */
static __global__ void __launch_bounds__(OPERAND_THREADS)
    expert_operand_kernel(const __grid_constant__ struct decode_grouped p)
{
    const int token = blockIdx.x, n_units = p.e.up.n_units;
    const uint32_t *row =
        (const uint32_t *)p.rows + (int64_t)token * n_units * (OPERAND_ROW_BYTES / 4);

    if (token >= live_rows(p.e.n_live, (int)gridDim.x))
        return;
    pdl_wait();
    pdl_launch_dependents();
    for (int i = threadIdx.x; i < n_units * PIECES; i += OPERAND_THREADS) {
        const int unit = i / PIECES, piece = i % PIECES;
        const uint4 words = piece_of_row(row, unit, piece);

        for (int rank = 0; rank < p.e.n_ranks; rank++)
            *(uint4 *)(p.operand +
                       operand_piece_offset(p.n_operand_rows,
                                            __ldcg(p.place + token * p.e.n_ranks + rank), unit,
                                            piece)) = words;
    }
}

void launch_decode_expert_operand(struct launch_list *list, const struct decode_grouped *p)
{
    add_dependent<expert_operand_kernel>(list, (unsigned)p->e.n_tokens, OPERAND_THREADS, 0, *p);
}
