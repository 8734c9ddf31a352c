/* Grouped MoE GEMMs (up and down) of a decode step with many rows: each active expert is read once
 * for up to DECODE_JOB_TOKENS of its tokens. decode_expert_jobs.cu lists the jobs;
 * decode_combine.cu adds up the expert outputs of a token. In a step of a few rows (e.sums) the
 * down projection adds them to the sums of the tokens itself.
 *
 * Work division: a job is an expert and some of its entries (tokens at it, in token order).
 * Persistent blocks, two per SM, split all rows of units of all jobs evenly and process their share
 * in order. The tokens of a job are in shared memory (grouped_tokens.cuh). A warp's ring of weight
 * copies continues across rows and jobs, so the stream of copies does not drain before the end of
 * the stage.
 *
 * Traffic: the weights of the active experts, once per job. Memory bound. */
#include "cuda/common/evict_first.cuh"
#include "cuda/common/expert_sums.cuh"
#include "cuda/decode/grouped_tokens.cuh"
#include "cuda/common/swiglu.cuh"

enum {
    BLOCKS_OF_A_PROCESSOR = 2,
    ROWS = UNIT_ROWS, /* of an item; a thread of the storing warp stores two of them */
    PAIRS = ROWS / 2,
    STAGES = 2,  /* of a warp's ring */
    BUFFERS = 2, /* of partial sums: the number of items by which the first warp may be ahead of the
                  * last. With more */
    BUFFER_TOKENS = DECODE_JOB_TOKENS / BUFFERS, /* tokens than this an item uses both */
    ITEM_TABLE =
        32, /* items whose copies a warp may have started: with few columns some items have no unit
             * for it */
    SCALE_LANES =
        (MXFP4_UNIT_BYTES - MXFP4_SCALES_OFFSET) / LANE_BYTES, /* lanes that copy a unit's scales */
    MIDDLE = MXFP4_UNIT_BYTES / 2 / LANE_BYTES * LANE_BYTES    /* immediate offsets have 12 bits */
};
static_assert((int)DECODE_JOB_TOKENS * (int)PAIRS <= (int)RING_THREADS,
              "one thread per pair of a token");
static_assert((int)DECODE_JOB_TOKENS <= (int)COLUMN_TOKENS, "a job fits the columns of an MMA");
static_assert((int)EXPERT_SLICES == (int)RING_WARPS, "a warp has a slice");

/* ---- the copy stream over all rows of all jobs ---- */

/* Shared memory of a block. Addresses are 32-bit, as ld.shared takes them. */
enum {
    SCALES_AT = STAGES * MXFP4_UNIT_BYTES, /* of the current unit, as floats: (lane, 4) */
    ITEM_TABLE_AT = SCALES_AT + WARP_LANES * LANE_BYTES,
    WARP_BYTES = ITEM_TABLE_AT + ITEM_TABLE * LANE_BYTES,
    SUMS_AT = RING_WARPS * WARP_BYTES,
    SUMS_BYTES = RING_WARPS * ROWS * BUFFER_TOKENS * 4,
    BARRIERS_AT = SUMS_AT + BUFFERS * SUMS_BYTES,
    ZEROS_AT = (BARRIERS_AT + 2 * BUFFERS * 8 + TOKEN_BLOCK_BYTES - 1) / TOKEN_BLOCK_BYTES *
               TOKEN_BLOCK_BYTES,
    TOKENS_AT = ZEROS_AT + ZEROS_BYTES
};
static_assert((STAGES + 1) * (int)RING_WARPS <= (int)ITEM_TABLE,
              "the item table holds all items in flight");

/* Common to all copy streams of a kernel. */
struct source {
    const struct decode_matrix *w;
    int n_rows; /* rows of units of a matrix */
    int width;  /* down: units of a slice (expert_sums.h) */
};

/* An item: a row of units of a job. */
struct item {
    int expert, first, n, row;
};

/* A warp's ring over the items. Pointers are the lane's own. */
struct walk {
    const struct decode_job *job;
    int4 at, next;                /* heads of jobs; the next one is prefetched */
    int row, n_items;             /* n_items: remaining, including the current one */
    const unsigned char *weights; /* of the next unit, plus MIDDLE bytes */
    uint32_t slots, slot;         /* slot: multiplied next, then refilled */
    uint32_t record;              /* where the next item is recorded */
    int unit, end;                /* the next one of the item; down: behind its last one */
};

/* The eighth of a row's units that this warp has: units e, e + 8, ... of up, slice e of down. It
 * rotates with the row, because some eighths have more units. */
static __device__ __forceinline__ int eighth_of(int row)
{
    return (int)((threadIdx.x / WARP_LANES + (unsigned)row) % RING_WARPS);
}

template <bool IS_UP>
static __device__ __forceinline__ int first_unit(const struct source &s, int row)
{
    return IS_UP ? eighth_of(row) : eighth_of(row) * s.width;
}

/* Behind the last unit of an eighth that begins there. */
template <bool IS_UP>
static __device__ __forceinline__ int end_of(const struct source &s, int first)
{
    return IS_UP ? s.w->n_units : min(first + s.width, s.w->n_units);
}

template <bool IS_UP> static __device__ __forceinline__ int unit_step(void)
{
    return IS_UP ? (int)RING_WARPS : 1;
}

/* Records the item in the table, for the time when it is multiplied. */
static __device__ __forceinline__ void record_item(struct walk *w)
{
    if (threadIdx.x % WARP_LANES == 0)
        store_shared(w->record, make_uint4((uint32_t)w->at.x, (uint32_t)w->at.y, (uint32_t)w->at.z,
                                           (uint32_t)w->row));
    w->record = w->record == w->slots + ITEM_TABLE_AT + (ITEM_TABLE - 1) * LANE_BYTES
                    ? w->slots + ITEM_TABLE_AT
                    : w->record + LANE_BYTES;
}

/* Moves to the first unit of the current row of a job. */
template <bool IS_UP>
static __device__ __forceinline__ void begin_job(struct walk *w, const struct source &s)
{
    w->unit = first_unit<IS_UP>(s, w->row);
    w->end = end_of<IS_UP>(s, w->unit);
    w->weights = s.w->units + w->at.x * s.w->matrix_bytes +
                 (int64_t)(w->row * s.w->n_units + w->unit) * MXFP4_UNIT_BYTES + MIDDLE +
                 threadIdx.x % WARP_LANES * LANE_BYTES;
}

/* Moves to the first unit of the next row. */
template <bool IS_UP>
static __device__ __forceinline__ void begin_row(struct walk *w, const struct source &s)
{
    const int unit = first_unit<IS_UP>(s, w->row), step = unit - w->unit;

    w->weights += (int64_t)(s.w->n_units + step) * MXFP4_UNIT_BYTES;
    w->unit = unit;
    w->end = end_of<IS_UP>(s, unit);
}

/* Past the last unit of an item: moves to the next item that has a unit for this warp. */
template <bool IS_UP>
static __device__ __forceinline__ void walk_next_phase(struct walk *w, const struct source &s)
{
    while (w->unit >= w->end) {
        if (--w->n_items == 0)
            return;
        if (++w->row < s.n_rows) {
            begin_row<IS_UP>(w, s);
        } else {
            w->row = 0;
            w->job++;
            w->at = w->next;
            if (w->n_items > s.n_rows)
                w->next = job_head(w->job + 1);
            begin_job<IS_UP>(w, s);
        }
        record_item(w);
    }
}

template <bool IS_UP>
static __device__ __forceinline__ void walk_begin(struct walk *w, const struct source &s,
                                                  const struct decode_job *jobs, int first,
                                                  int n_items, uint32_t shared)
{
    w->job = jobs + first / s.n_rows;
    w->row = first % s.n_rows;
    w->n_items = n_items;
    w->slots = w->slot = shared + threadIdx.x / WARP_LANES * WARP_BYTES;
    w->record = w->slots + ITEM_TABLE_AT;
    if (n_items == 0)
        return;
    w->at = job_head(w->job);
    if (n_items > s.n_rows - w->row)
        w->next = job_head(w->job + 1);
    begin_job<IS_UP>(w, s);
    record_item(w);
    walk_next_phase<IS_UP>(w, s);
}

#define BY_POLICY EVICT_FIRST_HINT("%12")

/* Starts the copies of the next unit, if there is one, into the slot. It is one asm block with
 * predicates instead of branches: branches, and the instructions that the assembler puts before
 * each of them, took a fifteenth of the loop. */
static __device__ __forceinline__ void fill(const struct walk *w)
{
    const int lane = threadIdx.x % WARP_LANES;

    asm volatile("{\n"
                 ".reg .pred on, scales;\n"
                 "setp.ne.s32 on, %2, 0;\n"
                 "setp.lt.and.s32 scales, %3, %4, on;\n"
                 "@on " CP_ASYNC_EVICT_FIRST " [%0], [%1 + %6], 16" BY_POLICY ";\n"
                 "@on " CP_ASYNC_EVICT_FIRST " [%0 + %5], [%1 + %7], 16" BY_POLICY ";\n"
                 "@on " CP_ASYNC_EVICT_FIRST " [%0 + 2 * %5], [%1 + %8], 16" BY_POLICY ";\n"
                 "@on " CP_ASYNC_EVICT_FIRST " [%0 + 3 * %5], [%1 + %9], 16" BY_POLICY ";\n"
                 "@scales " CP_ASYNC_EVICT_FIRST " [%0 + %10], [%1 + %11], 16" BY_POLICY ";\n"
                 "}" ::"r"(w->slot + lane * LANE_BYTES),
                 "l"(w->weights), "r"(w->n_items), "r"(lane), "n"((int)(SCALE_LANES)),
                 "n"((int)(MXFP4_TILE_BYTES)), "n"((int)(-MIDDLE)),
                 "n"((int)(MXFP4_TILE_BYTES - MIDDLE)), "n"((int)(2 * MXFP4_TILE_BYTES - MIDDLE)),
                 "n"((int)(3 * MXFP4_TILE_BYTES - MIDDLE)), "n"((int)(MXFP4_SCALES_OFFSET)),
                 "n"((int)(MXFP4_SCALES_OFFSET - MIDDLE)), "l"(EVICT_FIRST_POLICY)
                 : "memory");
}

/* Moves to the next unit, if there is one, and to the next slot. */
template <bool IS_UP>
static __device__ __forceinline__ void walk_on(struct walk *w, const struct source &s)
{
    if (w->n_items > 0) {
        w->weights += unit_step<IS_UP>() * MXFP4_UNIT_BYTES;
        w->unit += unit_step<IS_UP>();
        if (w->unit >= w->end)
            walk_next_phase<IS_UP>(w, s);
    }
    w->slot = w->slot == w->slots + (STAGES - 1) * MXFP4_UNIT_BYTES ? w->slots
                                                                    : w->slot + MXFP4_UNIT_BYTES;
}

/* acc = this warp's units of an item times the job's tokens. A lane converts four scales to floats
 * and reads those of its rows. `shifts` is added to the codes of the four scales: of down, the
 * exponents of their rows' factors (expert_shifts()), so that acc is in units of the sums. */
template <bool IS_UP>
static __device__ __forceinline__ void multiply_item(float acc[UNIT_TILES][1][4], struct walk *w,
                                                     const struct source &s, int row,
                                                     struct token_columns columns, uint32_t shifts)
{
    const int first = first_unit<IS_UP>(s, row), end = end_of<IS_UP>(s, first);
    const int lane = threadIdx.x % WARP_LANES;
    const uint32_t scales = w->slots + SCALES_AT;

#pragma unroll
    for (int i = 0; i < UNIT_TILES * 4; i++)
        acc[i / 4][0][i % 4] = 0.0f;
    columns.at += (unsigned)first * columns.step;
    for (int unit = first; unit < end; unit += unit_step<IS_UP>()) {
        const uint32_t slot = w->slot, at = slot + lane * LANE_BYTES;
        uint4 words[UNIT_TILES], tokens[UNIT_BLOCKS];

        copy_wait<STAGES - 1>();
        __syncwarp();
        const uint32_t codes =
            load_shared_word<MXFP4_SCALES_OFFSET>(slot + lane * 4) + (IS_UP ? 0 : shifts);

        store_shared(scales + lane * LANE_BYTES,
                     make_float4(scale_at(codes, 0), scale_at(codes, 1), scale_at(codes, 2),
                                 scale_at(codes, 3)));
        tokens[0] = load_shared<0>(columns.at);
        tokens[1] = load_shared<TOKEN_BLOCK_BYTES>(columns.at);
        columns.at += unit_step<IS_UP>() * columns.step;
#pragma unroll
        for (int i = 0; i < UNIT_TILES; i++)
            words[i] = load_shared<0>(at + i * MXFP4_TILE_BYTES);
        __syncwarp();
        fill(w);
        copy_commit();
        walk_on<IS_UP>(w, s);
#pragma unroll
        for (int i = 0; i < UNIT_TILES; i++) {
            const uint4 bits = load_shared<0>(scales + (lane / 4 * UNIT_TILES + i) * LANE_BYTES);

            multiply_columns<1>(acc[i], words[i].x, words[i].y, __uint_as_float(bits.x),
                                __uint_as_float(bits.y), &tokens[0]);
            multiply_columns<1>(acc[i], words[i].z, words[i].w, __uint_as_float(bits.z),
                                __uint_as_float(bits.w), &tokens[1]);
        }
    }
}

/* ---- epilogue ---- */

/* Down: what this lane adds to the codes of the scales that it converts. */
static __device__ __forceinline__ uint32_t lane_shifts(const struct decode_grouped &p,
                                                       const struct item &item)
{
    return expert_shifts(p.e.grid,
                         p.e.n_columns)[item.row * WARP_LANES + (int)threadIdx.x % WARP_LANES];
}

/* Bias of this lane's two rows: a gate and its up row, or adjacent rows of down. It is loaded
 * before the MMAs and stays unconverted until they have completed. */
template <bool IS_UP>
static __device__ __forceinline__ uint2 bias_bits(const struct decode_grouped &p,
                                                  const struct item &item)
{
    const int row = item.row * UNIT_ROWS + (int)threadIdx.x % WARP_LANES * 2;

    if (row >= (IS_UP ? p.e.up.n_rows : p.e.down.n_rows))
        return make_uint2(0, 0);
    return vector_pair_bits(IS_UP ? p.e.bias_up : p.e.bias_down, item.expert, row);
}

/* Partial sums: (token, eighth of the units, row), floats of up and integers of down. Adds all
 * eighths of two adjacent rows, those of up in order. */
static __device__ __forceinline__ float2 pair_of_sums(const float *sums, int token, int pair)
{
    const float2 *from = (const float2 *)(sums + token * RING_WARPS * ROWS) + pair;
    float2 sum = make_float2(0.0f, 0.0f);

#pragma unroll
    for (int eighth = 0; eighth < RING_WARPS; eighth++) {
        const float2 part = from[eighth * ROWS / 2];

        sum.x += part.x;
        sum.y += part.y;
    }
    return make_float2(sum.x * CODE_UNIT, sum.y * CODE_UNIT);
}

static __device__ __forceinline__ int2 pair_of_partials(const float *sums, int token, int pair)
{
    const int2 *from = (const int2 *)(sums + token * RING_WARPS * ROWS) + pair;
    int2 sum = make_int2(0, 0);

#pragma unroll
    for (int eighth = 0; eighth < RING_WARPS; eighth++) {
        const int2 part = from[eighth * ROWS / 2];

        sum.x += part.x;
        sum.y += part.y;
    }
    return sum;
}

/* Stores a lane's partial sums of the first n tokens. */
template <bool IS_UP>
static __device__ __forceinline__ void write_item(float *sums, const float acc[UNIT_TILES][1][4],
                                                  int eighth, int n)
{
    const int lane = threadIdx.x % WARP_LANES;
    float2 *to = (float2 *)(sums + (lane % 4 * 2 * RING_WARPS + eighth) * ROWS) + lane / 4;

#pragma unroll
    for (int k = 0; k < 2; k++)
        if (lane % 4 * 2 + k < n)
#pragma unroll
            for (int i = 0; i < UNIT_TILES; i++) {
                const float x = acc[i][0][k], y = acc[i][0][k + 2];

                to[(k * RING_WARPS * ROWS + i * TILE_ROWS) / 2] =
                    IS_UP ? make_float2(x, y)
                          : make_float2(__int_as_float(shifted_partial(x)),
                                        __int_as_float(shifted_partial(y)));
            }
}

/* An entry of an item: its gate, and its token if the sums are those of tokens. */
struct entry {
    float gate;
    int token;
};

/* Entry `lane` of an item, in the warp that stores the item. */
template <bool IS_UP>
static __device__ __forceinline__ struct entry lane_entry(const struct decode_grouped &p,
                                                          const struct item &item, bool stores)
{
    const int lane = threadIdx.x % WARP_LANES;
    struct entry e = {};

    if (stores && lane < item.n) {
        e.gate = __ldcg(p.entry_gates + item.first + lane);
        if (!IS_UP && p.e.sums != NULL)
            e.token = __ldcg(p.entry_tokens + item.first + lane);
    }
    return e;
}

/* Down: the scales of this lane's two columns. */
static __device__ __forceinline__ float2 lane_scales(const struct decode_grouped &p,
                                                     const struct item &item)
{
    const int column = item.row * UNIT_ROWS + (int)threadIdx.x % WARP_LANES * 2;

    return column < p.e.n_columns ? *(const float2 *)(p.e.grid + column) : make_float2(0, 0);
}

/* The gates of an item's entries in shared memory, where the warp has the scales of a unit while it
 * multiplies, and behind them the tokens. (With shuffles in place of it the loop over tokens is not
 * unrolled.) */
static __device__ __forceinline__ const float *keep_gates(char *shared, const struct entry &e)
{
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    float *gates = (float *)(shared + warp * WARP_BYTES + SCALES_AT);

    __syncwarp();
    gates[lane] = e.gate;
    ((int *)gates)[WARP_LANES + lane] = e.token;
    __syncwarp();
    return gates;
}

static __device__ __forceinline__ void add_to(int32_t *sum, int value)
{
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(sum), "r"(value) : "memory");
}

/* Down: an entry's sums in two columns, to the sums of its token. */
static __device__ __forceinline__ void add_to_token(const struct decode_grouped &p, int token,
                                                    int column, int2 sum, float gate)
{
    int32_t *to = p.e.sums + token * p.e.n_columns + column * 2;

    add_to(to, sum.x);
    add_to(to + 1, sum.y);
    if (column == 0 && isnan(gate)) /* up: a unit of the entry is not finite */
        p.e.poison[token] = 1;
}

/* Stores the results of an item, by one warp: gated units as FP16, or sums of expert outputs. */
template <bool IS_UP>
static __device__ __forceinline__ void store_item(const struct decode_grouped &p,
                                                  const struct item &item, const float *sums,
                                                  uint2 bits, const float *gates, float2 scale)
{
    const float2 bias = pair_of_bits(IS_UP ? p.e.bias_up : p.e.bias_down, bits);
    const int pair = threadIdx.x % WARP_LANES, column = item.row * PAIRS + pair; /* in pairs */

    if (column >= (IS_UP ? p.e.n_units : p.e.n_columns / 2))
        return;
#pragma unroll(IS_UP ? 2 : 4)
    for (int token = 0; token < item.n; token++) {
        const float gate = gates[token];
        const int entry = item.first + token;

        if (IS_UP) {
            const float2 sum = pair_of_sums(sums, token, pair);
            const float unit = gate * swiglu(sum.x + bias.x, sum.y + bias.y, p.e.limit, p.e.alpha);

            p.e.units[entry * p.e.n_units + column] = half_bits(unit);
            if (!isfinite(unit))
                p.entry_gates[entry] = unit * 0.0f; /* NaN */
        } else {
            int2 sum = pair_of_partials(sums, token, pair);

            sum.x += bias_partial(gate, bias.x, scale.x);
            sum.y += bias_partial(gate, bias.y, scale.y);
            if (p.e.sums != NULL)
                add_to_token(p, ((const int *)gates)[WARP_LANES + token], column, sum, gate);
            else
                ((int2 *)(p.parts + entry * p.e.n_columns))[column] = sum;
        }
    }
}

/* Warps synchronize only for the reduction. Item i uses buffer i % BUFFERS. `full` completes when
 * all warps have stored their partial sums, `empty` when the storing warp, which rotates, is
 * done. */
struct buffer_barrier {
    uint32_t full, empty;  /* barriers of the first buffer */
    int buffer, phase_bit; /* phase_bit: how often all buffers were used */
    bool used_both;        /* the previous item also used the other buffer */
};

static __device__ __forceinline__ struct buffer_barrier buffer_barrier_of(uint32_t shared)
{
    const struct buffer_barrier m = {shared + BARRIERS_AT, shared + BARRIERS_AT + BUFFERS * 8, 0, 0,
                                     false};

    if (threadIdx.x == 0)
        for (int i = 0; i < BUFFERS; i++) {
            barrier_init(m.full + i * 8, RING_THREADS);
            barrier_init(m.empty + i * 8, WARP_LANES);
        }
    return m;
}

/* Waits until an item's partial sums have a free buffer; returns its offset in bytes. */
static __device__ __forceinline__ int buffer_wait(struct buffer_barrier *m, bool uses_both)
{
    static_assert((int)BUFFERS == 2, "double buffering");
    const int is_second = m->buffer, other_phase = m->phase_bit - 1 + is_second;

    barrier_wait(m->empty + m->buffer * 8, m->phase_bit % 2 ^ 1);
    if ((uses_both || m->used_both) && other_phase >= 0)
        barrier_wait(m->empty + (is_second ^ 1) * 8, other_phase % 2);
    m->used_both = uses_both;
    return uses_both ? 0 : m->buffer * SUMS_BYTES;
}

static __device__ __forceinline__ void buffer_release(struct buffer_barrier *m)
{
    m->phase_bit += m->buffer;
    m->buffer ^= 1;
}

/* The inputs of the tokens, and their place in shared memory. */
template <bool IS_UP, bool IS_EVEN>
static __device__ __forceinline__ struct token_buffer
token_buffer_of(const struct decode_grouped &p, const struct decode_matrix &w, uint32_t shared_at,
                int n_slots)
{
    return {IS_UP ? (const char *)p.rows : (const char *)p.e.units,
            IS_UP ? w.n_units * UNIT_COLUMNS * 2 : p.e.n_units * 2,
            IS_UP ? w.n_units * (int)UNIT_COLUMNS : p.e.n_units,
            IS_EVEN,
            !IS_UP,
            w.n_units,
            shared_at + ZEROS_AT,
            shared_at + TOKENS_AT,
            n_slots};
}

template <bool IS_UP>
static __device__ __forceinline__ void fill_stages(struct walk *w, const struct source &s)
{
    for (int i = 0; i < STAGES; i++) {
        fill(w);
        copy_commit();
        walk_on<IS_UP>(w, s);
    }
}

/* The item of this part, as recorded by record_item(). */
static __device__ __forceinline__ struct item recorded_item(const struct walk *w, int part)
{
    const uint4 record = load_shared<0>(w->slots + ITEM_TABLE_AT + part % ITEM_TABLE * LANE_BYTES);

    return {(int)record.x, (int)record.y, (int)record.z, (int)record.w};
}

/* Stores the results of an item when its buffer is full, by the warp whose item it is. */
template <bool IS_UP>
static __device__ __forceinline__ void
store_buffer(const struct buffer_barrier &m, const struct decode_grouped &p,
             const struct item &item, char *shared, const float *sums, uint2 bias,
             const struct entry &entry, float2 scale)
{
    barrier_wait(m.full + m.buffer * 8, m.phase_bit % 2);
    store_item<IS_UP>(p, item, sums, bias, keep_gates(shared, entry), scale);
    barrier_arrive(m.empty + m.buffer * 8);
}

/* IS_EVEN: a token's numbers fill whole units of columns. The job list is complete before `up`
 * starts, and `down` starts after that, so it issues its first weight copies while `up` runs. */
template <bool IS_UP, bool IS_EVEN>
static __global__ void __launch_bounds__(RING_THREADS, BLOCKS_OF_A_PROCESSOR)
    grouped_kernel(const __grid_constant__ struct decode_grouped p, int n_slots)
{
    extern __shared__ uint4 shared[];
    const struct decode_matrix &w = IS_UP ? p.e.up : p.e.down;
    const int n_rows = (w.n_rows + UNIT_ROWS - 1) / UNIT_ROWS;
    const struct source source = {&w, n_rows, p.e.slice_units};
    const uint32_t shared_at = (uint32_t)__cvta_generic_to_shared(shared);
    const struct token_buffer smem = token_buffer_of<IS_UP, IS_EVEN>(p, w, shared_at, n_slots);
    struct buffer_barrier buffer_barrier = buffer_barrier_of(shared_at);
    struct token_columns columns = {};
    struct job_cache regs = {};
    struct walk walk;

    if (threadIdx.x < ZEROS_BYTES / LANE_BYTES)
        shared[ZEROS_AT / LANE_BYTES + threadIdx.x] = make_uint4(0, 0, 0, 0);
    if (IS_UP)
        pdl_wait();
    const int64_t n_items = (int64_t)__ldcg(p.n_jobs) * n_rows;
    const int first = (int)(n_items * blockIdx.x / gridDim.x);
    const int n_parts = (int)(n_items * (blockIdx.x + 1) / gridDim.x) - first;
    const int n_first = n_rows - first % n_rows; /* items of the first job */

    if (IS_UP && n_parts > 0)
        load_jobs(&regs, smem, p.jobs + first / n_rows, n_parts > n_first);
    walk_begin<IS_UP>(&walk, source, p.jobs, first, n_parts, shared_at);
    fill_stages<IS_UP>(&walk, source);
    if (!IS_UP)
        pdl_wait();
    pdl_launch_dependents();
    if (!IS_UP && n_parts > 0)
        load_jobs(&regs, smem, p.jobs + first / n_rows, n_parts > n_first);
    copy_wait<IS_UP ? STAGES - 1 : 0>();
    __syncthreads();
    for (int part = 0; part < n_parts; part++) {
        const struct item item = recorded_item(&walk, part);
        const bool stores = part % RING_WARPS == (int)threadIdx.x / WARP_LANES;
        const uint2 bias = stores ? bias_bits<IS_UP>(p, item) : make_uint2(0, 0);
        const struct entry entry = lane_entry<IS_UP>(p, item, stores);
        const float2 scale = !IS_UP && stores ? lane_scales(p, item) : make_float2(0, 0);
        const uint32_t shifts = IS_UP ? 0 : lane_shifts(p, item);
        float acc[UNIT_TILES][1][4];

        if (part > 0 && item.row == 0)
            next_job(&regs, smem, n_parts - part > n_rows);
        if (part == 0 || item.row == 0)
            columns = columns_of(regs, smem);
        multiply_item<IS_UP>(acc, &walk, source, item.row, columns, shifts);

        float *sums = (float *)((char *)shared + SUMS_AT +
                                buffer_wait(&buffer_barrier, item.n > BUFFER_TOKENS));

        write_item<IS_UP>(sums, acc, eighth_of(item.row), item.n);
        barrier_arrive(buffer_barrier.full + buffer_barrier.buffer * 8);
        if (stores)
            store_buffer<IS_UP>(buffer_barrier, p, item, (char *)shared, sums, bias, entry, scale);
        buffer_release(&buffer_barrier);
    }
    copy_wait<0>();
}

/* ---- launches ---- */

/* Slots for tokens beside the rest: where so many blocks as should be on a multiprocessor have
 * room for a job each, and else where one has. */
static int slots_of(const struct gpu_desc *gpu, const struct decode_matrix *w)
{
    const int of_processor = gpu->shared_per_sm / BLOCKS_OF_A_PROCESSOR - gpu->shared_reserved;
    const int of_block = gpu->shared_per_block;
    const int stride = token_stride(w->n_units), n = (of_processor - TOKENS_AT) / stride;

    return min(n >= DECODE_JOB_TOKENS ? n : (of_block - TOKENS_AT) / stride,
               2 * (int)DECODE_JOB_TOKENS);
}

template <bool IS_UP, bool IS_EVEN>
static bool launch_of(struct launch_list *list, const struct decode_grouped *p)
{
    const int n_processors = list->gpu->n_sms;
    const dim3 grid((unsigned)(BLOCKS_OF_A_PROCESSOR * n_processors));
    const struct decode_matrix *w = IS_UP ? &p->e.up : &p->e.down;
    const int n_slots = slots_of(list->gpu, w);

    return n_slots >= 1 &&
           decode_launch<grouped_kernel<IS_UP, IS_EVEN>>(
               list, grid, TOKENS_AT + n_slots * token_stride(w->n_units), *p, n_slots);
}

template <bool IS_UP> static bool launch(struct launch_list *list, const struct decode_grouped *p)
{
    if constexpr (!IS_UP)
        if (p->e.n_units % UNIT_COLUMNS != 0)
            return launch_of<false, false>(list, p);
    return launch_of<IS_UP, true>(list, p);
}

bool launch_decode_grouped_up(struct launch_list *list, const struct decode_grouped *p)
{
    return launch<true>(list, p);
}

bool launch_decode_grouped_down(struct launch_list *list, const struct decode_grouped *p)
{
    return launch<false>(list, p);
}

bool decode_grouped_fits(struct launch_list *list, struct decode_grouped *p)
{
    const int n_slots = min(slots_of(list->gpu, &p->e.up), slots_of(list->gpu, &p->e.down));
    bool fits;

    p->job_tokens = min((int)DECODE_JOB_TOKENS, n_slots);
    list->is_query = true;
    fits = launch<true>(list, p) && launch<false>(list, p);
    list->is_query = false;
    return fits;
}
