/* Grouped MoE GEMMs (up and down) of a decode step with many rows, by mma.sync with the ring of
 * decode_sm90.cuh: as decode_grouped.cu, with the same bits, for jobs of up to 24 tokens.
 *
 * Work division: an item is six rows of units of a job; each of 12 consumer warps has two tiles,
 * half a row of units, so that a fragment of the tokens is loaded once for two tiles. Only the
 * groups of eight tokens that a job has are multiplied. Persistent blocks, one per SM, have shares
 * of all items whose costs are equal (job_shares.h).
 *
 * Not by wgmma: the sums of each block of 32 columns are two instructions, whose time does not
 * become shorter below 24 columns, and experts have about eight tokens in a step of 256 rows.
 *
 * Traffic: the weights of the active experts, once per job, and a job's tokens once per item, from
 * L2. Instructions of a warp for each unit of 64 columns of a tile: 57, and 14 for each eight
 * tokens. */
#include "cuda/decode/grouped_wide.cuh"
#include "cuda/decode/job_shares.h"

enum { JOB_TOKENS = 24, CONSUMER_GROUPS = 3, STAGE_UNITS = 4 };

typedef struct wide_shape<JOB_TOKENS, CONSUMER_GROUPS, STAGE_UNITS, ROWS_OF_GROUP> SHAPE;

/* Jobs and shares are read before pdl_wait() by down: the kernel that lists them has completed
 * before up starts this one. */
template <bool IS_UP>
static __global__ void __launch_bounds__((1 + CONSUMER_GROUPS) * GROUP_THREADS, 1)
    grouped_wide_kernel(const __grid_constant__ struct decode_grouped p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    run_block<SHAPE, IS_UP>(
        [&](const struct stages &s, int warp) { produce_items<SHAPE, IS_UP>(p, s, warp); },
        [&](const struct stages &s, int group, int warp) {
            consume_items<SHAPE, IS_UP>(p, s, group * GROUP_WARPS + warp);
        });
#else
    (void)p; /* bulk copies and setmaxnreg: Hopper only */
    __trap();
#endif
}

/* ---- host ---- */

static bool launch(struct launch_list *list, const struct decode_grouped *p, bool is_up)
{
    const unsigned n_blocks = (unsigned)p->n_shares;

    return is_up ? decode_launch_of<grouped_wide_kernel<true>>(list, n_blocks, SHAPE::THREADS,
                                                               SHAPE::SHARED_BYTES, *p)
                 : decode_launch_of<grouped_wide_kernel<false>>(list, n_blocks, SHAPE::THREADS,
                                                                SHAPE::SHARED_BYTES, *p);
}

void launch_decode_grouped_wide(struct launch_list *list, const struct decode_grouped *p,
                                bool is_up)
{
    (void)launch(list, p, is_up);
}

static int parts_of(const struct decode_matrix *w)
{
    return (int)units_of(units_of(w->n_rows, UNIT_ROWS), CONSUMER_GROUPS * ROWS_OF_GROUP);
}

bool decode_grouped_wide_fits(struct launch_list *list, struct decode_grouped *p)
{
    const bool is_whole = p->e.n_columns % UNIT_COLUMNS == 0 && p->e.n_units % UNIT_COLUMNS == 0;
    bool fits;

    p->job_tokens = JOB_TOKENS;
    p->n_shares = list->gpu->n_sms;
    p->n_parts[0] = parts_of(&p->e.up);
    p->n_parts[1] = parts_of(&p->e.down);
    list->is_query = true;
    fits = is_whole && p->n_shares <= DECODE_SHARES_MAX && launch(list, p, true) &&
           launch(list, p, false);
    list->is_query = false;
    return fits;
}
