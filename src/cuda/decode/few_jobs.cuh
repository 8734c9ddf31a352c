/* Job list of the grouped MoE kernels (decode_grouped.cu) for a few entries, by one warp. */
#ifndef CUDA_DECODE_FEW_JOBS_CUH
#define CUDA_DECODE_FEW_JOBS_CUH

#include "cuda/common/sums.cuh"
#include "cuda/decode/decode.h"

enum { FEW_ENTRIES_MAX = WARP_LANES }; /* an entry for each lane */

/* Lists the jobs of n entries, of which lane i has entry i: its expert and its gate. A job for each
 * expert, in the order of its first entry. Entry i is token i / n_ranks. */
static __device__ void list_few_jobs(const struct decode_grouped &p, int id_of_lane, float gate,
                                     int n)
{
    const int lane = threadIdx.x % WARP_LANES;
    const int id =
        lane < n ? id_of_lane : -1 - lane; /* different ones for lanes without an entry */
    const unsigned same = __match_any_sync(ALL_LANES, id);
    const int leader = __ffs((int)same) - 1, rank = __popc(same & ((1u << lane) - 1));
    const bool leads = lane < n && rank == 0;
    const unsigned leaders = __ballot_sync(ALL_LANES, leads);
    const int job = __popc(leaders & ((1u << leader) - 1));
    int before = leads ? __popc(same) : 0; /* entries of this job and those before it */

#pragma unroll
    for (int step = 1; step < WARP_LANES; step *= 2) {
        const int other = __shfl_up_sync(ALL_LANES, before, step);

        before += lane >= step ? other : 0;
    }
    const int first = __shfl_sync(ALL_LANES, before - __popc(same), leader);
    const int entry = first + rank, token = lane / p.e.n_ranks;

    if (leads) {
        *(int4 *)&p.jobs[job] = make_int4(id, first, __popc(same), 0);
        for (int i = 0; i < DECODE_JOB_TOKENS; i += 4)
            *(int4 *)&p.jobs[job].tokens[i] = make_int4(0, 0, 0, 0);
    }
    __syncwarp();
    if (lane < n) {
        p.jobs[job].tokens[rank] = token;
        p.entry[lane] = entry;
        p.entry_tokens[entry] = token;
        p.entry_gates[entry] = gate;
    }
    if (lane == 0) {
        *p.n_jobs = __popc(leaders);
        (void)atomicAdd((unsigned long long *)p.e.n_read, (unsigned long long)__popc(leaders));
    }
}

#endif
