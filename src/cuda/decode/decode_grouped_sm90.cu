/* Grouped MoE GEMMs (up and down) of a decode step with many rows, by wgmma: as decode_grouped.cu,
 * with the same bits, for jobs of up to 16, 32 or 48 tokens.
 *
 * Work division: an item is three or five rows of units of a job. Persistent blocks, one per SM,
 * split all items evenly. decode_sm90.cuh has the main loop. The sums of up are those of eighths
 * (units e, e + 8, ...), and of down those of slices, as integers.
 *
 * Traffic: the weights of the active experts, once per job, and a job's tokens once per item, from
 * L2. Bound by the wgmmas, most of whose columns are empty: jobs have few tokens. */
#include "cuda/common/swiglu.cuh"
#include "cuda/decode/decode_sm90.cuh"

/* Units of a stage of the ring. */
enum { STAGE_UNITS = 4 };

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Items of all jobs. */
template <bool IS_UP, class SHAPE> struct job_items {
    const struct decode_grouped &p;
    const struct decode_matrix &w;
    int first, end, n_rows, n_parts; /* n_rows: rows of units; n_parts: items of a job */
    int4 head; /* of the item's job: expert, first entry, number of entries, first operand row */
    int first_row;

    __device__ __forceinline__ explicit job_items(const struct decode_grouped &p_)
        : p(p_), w(IS_UP ? p_.e.up : p_.e.down)
    {
        n_rows = (w.n_rows + UNIT_ROWS - 1) / UNIT_ROWS;
        n_parts = (n_rows + SHAPE::GROUPS - 1) / SHAPE::GROUPS;
        const int64_t n = (int64_t)__ldcg(p.n_jobs) * n_parts;

        first = (int)(n * blockIdx.x / gridDim.x);
        end = (int)(n * (blockIdx.x + 1) / gridDim.x);
    }
    __device__ __forceinline__ int4 head_of(int item) const
    {
        return __ldcg((const int4 *)(p.jobs + item / n_parts));
    }
    __device__ __forceinline__ void begin(int item)
    {
        head = head_of(item);
        first_row = item % n_parts * SHAPE::GROUPS;
    }
    /* A group without a row repeats the last, and stores nothing. */
    __device__ __forceinline__ int row(int group) const
    {
        return min(first_row + group, n_rows - 1);
    }
    __device__ __forceinline__ const unsigned char *units(int group) const
    {
        return w.units + head.x * w.matrix_bytes +
               (int64_t)row(group) * w.n_units * MXFP4_UNIT_BYTES;
    }
    __device__ __forceinline__ const char *tokens() const
    {
        return (IS_UP ? p.operand : p.units_operand) + (int64_t)head.w * OPERAND_ROW_BYTES;
    }
    __device__ __forceinline__ uint32_t tokens_bytes() const
    {
        return (uint32_t)units_of(head.z, OPERAND_ALIGN_ROWS) * OPERAND_ALIGN_ROWS *
               OPERAND_ROW_BYTES;
    }
};

/* ---- epilogue: a thread has rows 2 g and 2 g + 1 of its warp's tile, g = lane / 4, for tokens
 * 8 i + 2 t and 8 i + 2 t + 1, t = lane % 4 ---- */

/* The gates of the thread's tokens. */
template <class SHAPE>
static __device__ __forceinline__ void load_gates(float (&gates)[SHAPE::TOKENS / 4],
                                                  const struct decode_grouped &p, int4 head)
{
#pragma unroll
    for (int i = 0; i < SHAPE::TOKENS / 4; i++) {
        const int token = i / 2 * 8 + (int)threadIdx.x % 4 * 2 + i % 2;

        gates[i] = token < head.z ? __ldcg(p.entry_gates + head.y + token) : 0.0f;
    }
}

/* A gated unit; an entry with one that is not finite gets the gate NaN. */
static __device__ __forceinline__ uint32_t gated_bits(const struct decode_grouped &p, float gate,
                                                      float x, float y, float2 bias, int entry,
                                                      bool is_there)
{
    const float unit =
        gate * swiglu(x * CODE_UNIT + bias.x, y * CODE_UNIT + bias.y, p.e.limit, p.e.alpha);

    if (is_there && !isfinite(unit))
        p.entry_gates[entry] = unit * 0.0f;
    return half_bits(unit);
}

/* Stores gated units in the operand of the down product. Lanes of adjacent units exchange one of
 * their two tokens, so that each has a pair of units of one token. */
template <class SHAPE>
static __device__ __forceinline__ void store_up(const struct decode_grouped &p,
                                                const float (&sums)[SHAPE::SUMS], int4 head,
                                                int row, int warp, float2 bias)
{
    const int lane = threadIdx.x % WARP_LANES, g = lane / 4, is_odd = g % 2;
    const int piece = row % 2 * 4 + g / 2;
    float gates[SHAPE::TOKENS / 4];

    load_gates<SHAPE>(gates, p, head);
#pragma unroll
    for (int i = 0; i < SHAPE::TOKENS / 8; i++) {
        const int token = i * 8 + lane % 4 * 2, mine = token + is_odd;
        uint32_t bits[2];

        if (i * 8 >= head.z)
            break;
#pragma unroll
        for (int k = 0; k < 2; k++)
            bits[k] = gated_bits(p, gates[i * 2 + k], sums[i * 4 + k], sums[i * 4 + k + 2], bias,
                                 head.y + token + k, token + k < head.z);
        const uint32_t other = __shfl_xor_sync(ALL_LANES, is_odd ? bits[0] : bits[1], 4);

        if (mine < head.z)
            *(uint32_t *)(p.units_operand +
                          operand_piece_offset(p.n_operand_rows, head.w + mine, row / 2, piece) +
                          warp * 4) = is_odd ? other | bits[1] << 16 : bits[0] | other << 16;
    }
}

template <class SHAPE>
static __device__ __forceinline__ void store_down(const struct decode_grouped &p,
                                                  const int32_t (&sums)[SHAPE::SUMS], int4 head,
                                                  int column, float2 bias)
{
    const float2 scale = *(const float2 *)(p.e.grid + column);
    float gates[SHAPE::TOKENS / 4];

    load_gates<SHAPE>(gates, p, head);
#pragma unroll
    for (int i = 0; i < SHAPE::TOKENS / 4; i++) {
        const int token = i / 2 * 8 + (int)threadIdx.x % 4 * 2 + i % 2, at = i / 2 * 4 + i % 2;

        if (token < head.z)
            *(int2 *)(p.parts + (int64_t)(head.y + token) * p.e.n_columns + column) =
                make_int2(sums[at] + bias_partial(gates[i], bias.x, scale.x),
                          sums[at + 2] + bias_partial(gates[i], bias.y, scale.y));
    }
}

template <bool IS_UP> struct sums_of {
    enum { KIND = IS_UP ? SUMS_OF_EIGHTHS : SUMS_OF_EXPERT_SLICES };
};

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
                store_up<SHAPE>(p, sums.eighths, head, row, warp, pair_of_bits(biases, bits));
        } else {
            if (has_column)
                store_down<SHAPE>(p, sums.expert_slices, head, column, pair_of_bits(biases, bits));
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
