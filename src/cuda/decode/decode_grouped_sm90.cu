/* Grouped MoE GEMMs (up and down) of a decode step with many rows, by wgmma: as decode_grouped.cu,
 * with the same bits, for jobs of up to 16, 24, 32 or 48 tokens.
 *
 * Work division: an item is three to five rows of units of a job. Persistent blocks, one per SM,
 * split all items evenly. decode_sm90.cuh has the main loop. The sums of up are those of eighths
 * (units e, e + 8, ...), and of down those of slices, as integers.
 *
 * Traffic: the weights of the active experts, once per job, and a job's tokens once per item, from
 * L2. Bound by the wgmmas, most of whose columns are empty: jobs have few tokens. */
#include "cuda/decode/grouped_items.cuh"

/* Units of a stage of the ring. */
enum { STAGE_UNITS = 4 };

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* All items of the block, one row of units each. */
template <bool IS_UP, class SHAPE>
static __device__ __forceinline__ void consume(const struct decode_grouped &p, struct stages s,
                                               int group, int warp)
{
    const struct decode_vector &biases = IS_UP ? p.e.bias_up : p.e.bias_down;
    const int lane = threadIdx.x % WARP_LANES;
    struct job_items<IS_UP, SHAPE> items(p);
    struct consumer c = consumer_of<SHAPE>(group, warp, items.w.n_units, p.e.slice_units);
    int4 next = items.first < items.end ? items.head_of(items.first) : make_int4(0, 0, 0, 0);

    for (int item = items.first; item < items.end; item++) {
        const int first_row = item % items.n_parts * SHAPE::GROUPS;
        const int row = min(first_row + group, items.n_rows - 1);
        const bool is_there = first_row + group < items.n_rows;
        const int column = row * UNIT_ROWS + warp * TILE_ROWS + lane / 4 * 2;
        const bool has_column = is_there && column < items.w.n_rows;
        const int4 head = next;
        const uint2 bits = has_column ? vector_pair_bits(biases, head.x, column) : make_uint2(0, 0);
        struct item_sums<sums_of<IS_UP>::KIND, SHAPE> sums;

        if (item + 1 < items.end)
            next = items.head_of(item + 1);
        if (!IS_UP)
            c.shifts = expert_shifts(p.e.grid, p.e.n_columns)[row * WARP_LANES + scales_word(warp)];
        /* by a shuffle: the compiler then knows that all lanes agree */
        const bool has_last = __shfl_sync(ALL_LANES, head.z, 0) > SHAPE::TOKENS - 8;

        multiply_row<sums_of<IS_UP>::KIND, SHAPE>(&sums, c, &s, has_last);
        if constexpr (IS_UP) {
            if (is_there)
                store_up<SHAPE::TOKENS>(p, sums.eighths, head, row, warp,
                                        pair_of_bits(biases, bits), lane);
        } else {
            if (has_column)
                store_down<SHAPE::TOKENS>(p, sums.expert_slices, head, column,
                                          pair_of_bits(biases, bits), lane);
        }
    }
}

#endif

/* Jobs and their number are read before pdl_wait() by down: the kernel that lists them has
 * completed before up starts this one. */
template <bool IS_UP, int TOKENS, int GROUPS>
static __global__ void __launch_bounds__((1 + GROUPS) * GROUP_THREADS, 1)
    grouped_sm90_kernel(const __grid_constant__ struct decode_grouped p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef struct wide_shape<TOKENS, GROUPS, STAGE_UNITS> SHAPE;
    run_block<SHAPE, IS_UP>(
        [&](const struct stages &s, int warp) {
            const struct decode_matrix &w = IS_UP ? p.e.up : p.e.down;

            produce<sums_of<IS_UP>::KIND, SHAPE>(job_items<IS_UP, SHAPE>(p),
                                                 {w.n_units, p.e.slice_units,
                                                  (int64_t)p.n_operand_rows * OPERAND_ROW_BYTES,
                                                  EVICT_FIRST_POLICY},
                                                 s, warp);
        },
        [&](const struct stages &s, int group, int warp) {
            consume<IS_UP, SHAPE>(p, s, group, warp);
        });
#else
    (void)p; /* other architectures have no wgmma */
    __trap();
#endif
}

/* ---- host ---- */

/* X(tokens of a job, consumer warpgroups): more groups hide more latency, and need registers for
 * their sums. 90 rows of units of up and 45 of down are whole items of both. */
#define WIDE_SHAPES(X)                                                                             \
    X(16, 5)                                                                                       \
    X(24, 4)                                                                                       \
    X(32, 3)                                                                                       \
    X(48, 3)

/* The narrowest job that holds 1.5 times the mean number of tokens of an expert. */
static int tokens_of_job(const struct decode_grouped *p)
{
    const int n_each = p->e.n_tokens * p->e.n_ranks / p->e.n_experts, wanted = n_each + n_each / 2;

    return wanted <= 16 ? 16 : wanted <= 24 ? 24 : wanted <= 32 ? 32 : 48;
}

template <bool IS_UP, int TOKENS, int GROUPS>
static bool launch_shape(struct launch_list *list, const struct decode_grouped *p)
{
    typedef struct wide_shape<TOKENS, GROUPS, STAGE_UNITS> SHAPE;

    return decode_launch_of<grouped_sm90_kernel<IS_UP, TOKENS, GROUPS>>(
        list, (unsigned)list->gpu->n_sms, SHAPE::THREADS, SHAPE::SHARED_BYTES, *p);
}

static bool launch(struct launch_list *list, const struct decode_grouped *p, bool is_up)
{
#define LAUNCH_SHAPE(tokens, groups)                                                               \
    if (p->job_tokens == tokens)                                                                   \
        return is_up ? launch_shape<true, tokens, groups>(list, p)                                 \
                     : launch_shape<false, tokens, groups>(list, p);
    WIDE_SHAPES(LAUNCH_SHAPE)
#undef LAUNCH_SHAPE
    return false;
}

void launch_decode_grouped_sm90(struct launch_list *list, const struct decode_grouped *p,
                                bool is_up)
{
    (void)launch(list, p, is_up);
}

bool decode_grouped_sm90_fits(struct launch_list *list, struct decode_grouped *p)
{
    const bool is_whole = p->e.n_columns % UNIT_COLUMNS == 0 && p->e.n_units % UNIT_COLUMNS == 0;
    bool fits;

    p->job_tokens = tokens_of_job(p);
    list->is_query = true;
    fits = is_whole && launch(list, p, true) && launch(list, p, false);
    list->is_query = false;
    return fits;
}
