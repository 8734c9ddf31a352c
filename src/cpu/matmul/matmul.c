/* Matmul of weights with tokens' rows. The unit of work is a tile of 16 weight rows, which is
 * multiplied in one of five ways:
 * - packed MXFP4 and a prefill row, if the ISA multiplies with bf16 activations: mxfp4_bf16.h;
 * - packed MXFP4 and any other row: the rows are quantized to int8 once a call (int8_tiles.h), and
 *   outliers, far above the rest of their row, are multiplied separately;
 * - BF16, if the ISA multiplies with bf16 activations: these are rounded once a call;
 * - F32, and BF16 if the ISA multiplies it as it is stored: the kernel reads the weights in place;
 * - all others are widened to f32 first: for many tokens the whole tile (L2 cache), for few
 *   tokens as many rows at a time as fit into the L1 cache.
 * The bits of a result do not depend on the other tokens, nor on how tiles are distributed. Terms
 * of the residual stream are fixed-point sums of slices of the columns (backend/residual_sum.h).
 *
 * Bytes: the weights once, as stored. Flops: 2 a weight and token. Decode is bound by memory
 * bandwidth, prefill by the multiplications; docs/performance-cpu.md has the measured shares. */
#include "cpu/matmul/matmul.h"

#include <assert.h>
#include <string.h>

#include "cpu/matmul/float_tiles.h"
#include "cpu/matmul/int8_interleaved.h"
#include "cpu/matmul/int8_rows.h"
#include "cpu/matmul/int8_tiles.h"
#include "cpu/matmul/mxfp4_bf16.h"
#include "cpu/matmul/pack.h"

enum { TILE_ROWS = GROUP_ROWS };

struct run {
    struct cpu *cpu;
    const struct matmul *jobs;
    int64_t n_columns;
    struct float_inputs floats;
    const struct int8_row *rows;    /* (n_rows): inputs as int8, if a job's weights are packed */
    struct interleaved interleaved; /* the same, for jobs with many tokens */
    const uint16_t *permuted;       /* (n_rows, n_columns): inputs as permuted bf16 rows */
    const int32_t *phases;          /* (n_rows) enum phase */
    struct tiles tiles;
};

int64_t matmul_input_row(const struct matmul *m, int token)
{
    return m->gather == NULL ? m->first_row + token : m->gather[token];
}

struct out_tile matmul_out_tile(const struct matmul *m, int token, int n_tokens, int64_t row)
{
    const int64_t n_left = m->w.dim[0] - row;

    return (struct out_tile){token, n_tokens, row, n_left < TILE_ROWS ? (int)n_left : TILE_ROWS};
}

int matmul_slices(const struct matmul *m)
{
    const int64_t n = m->slice_columns;

    return n == 0 ? 1 : (int)((m->w.dim[1] + n - 1) / n);
}

int matmul_tokens(const struct matmul *m, int n_most)
{
    const int n_fit = SUMS_FLOATS / TILE_ROWS / matmul_slices(m) / SUMS_TOKENS * SUMS_TOKENS;

    return n_fit < n_most ? n_fit : n_most;
}

struct kernel_sums matmul_sums(const struct cpu *cpu, int worker, int n_tokens)
{
    const int n_padded = (n_tokens + INT8_INTERLEAVED_ROWS - 1) / INT8_INTERLEAVED_ROWS;

    return (struct kernel_sums){.data = (float *)cpu->sums.data + (ptrdiff_t)worker * SUMS_FLOATS,
                                .slice_stride =
                                    (int64_t)n_padded * INT8_INTERLEAVED_ROWS * TILE_ROWS};
}

static void add_bias(const struct kernels *k, const struct matmul *m, struct out_tile p, float *acc)
{
    float bias[TILE_ROWS] = {0};

    if (m->bias.data == NULL)
        return;
    cpu_widen(k, bias, &m->bias, p.row, p.n_rows);
    for (int t = 0; t < p.n_tokens; t++)
        for (int r = 0; r < TILE_ROWS; r++)
            acc[t * TILE_ROWS + r] += bias[r];
}

/* Fixed-point sums to rows of m->sums, or their values to rows of m->out. */
static void store_sums(const struct kernels *k, const struct matmul *m, struct out_tile p,
                       const int64_t *sums)
{
    float values[SUMS_TOKENS * TILE_ROWS];

    if (m->sums == NULL)
        k->sum_values(values, &sums, 1, p.n_tokens * TILE_ROWS);
    for (int t = 0; t < p.n_tokens; t++) {
        const int64_t at = (p.token + t) * m->out_width + p.row;

        if (m->sums == NULL)
            memcpy(m->out + at, values + (ptrdiff_t)t * TILE_ROWS,
                   (size_t)p.n_rows * sizeof(float));
        else
            memcpy(m->sums + at, sums + (ptrdiff_t)t * TILE_ROWS,
                   (size_t)p.n_rows * sizeof(int64_t));
    }
}

/* Up to SUMS_TOKENS tokens. */
static void finish_slices(const struct kernels *k, const struct matmul *m, struct out_tile p,
                          struct kernel_sums acc)
{
    const bool is_direct = m->sums != NULL && p.n_rows == TILE_ROWS;
    int64_t sums[SUMS_TOKENS * TILE_ROWS];
    const struct slice_sums s = {
        .out = is_direct ? m->sums + p.token * m->out_width + p.row : sums,
        .out_stride = is_direct ? m->out_width : TILE_ROWS,
        .slices = acc.data,
        .slice_stride = acc.slice_stride,
        .gates = m->gates == NULL ? NULL : m->gates + p.token,
        .n_slices = matmul_slices(m),
        .n_x = p.n_tokens,
        .n_rows = p.n_rows,
    };

    k->sum_slices(&s);
    if (!is_direct)
        store_sums(k, m, p, sums);
}

static void finish_residual(const struct kernels *k, const struct matmul *m, struct out_tile p,
                            struct kernel_sums acc)
{
    for (int t = 0; t < p.n_tokens; t += SUMS_TOKENS, acc.data += SUMS_TOKENS * TILE_ROWS) {
        struct out_tile part = p;

        part.token += t;
        part.n_tokens = p.n_tokens - t < SUMS_TOKENS ? p.n_tokens - t : SUMS_TOKENS;
        finish_slices(k, m, part, acc);
    }
}

static void finish_float(const struct kernels *k, const struct matmul *m, struct out_tile p,
                         float *acc)
{
    const int of_rows = m->epilogue == EPILOGUE_SWIGLU ? 2 : 1; /* weight rows of one output */
    float *out = m->out + p.token * m->out_width + p.row / of_rows;

    if (m->epilogue == EPILOGUE_SWIGLU) /* in place: outputs overwrite the first half of the sums */
        k->swiglu(acc, acc, p.n_tokens * TILE_ROWS / 2, m->swiglu);
    for (int t = 0; t < p.n_tokens; t++, out += m->out_width)
        memcpy(out, acc + t * TILE_ROWS / of_rows, (size_t)(p.n_rows / of_rows) * sizeof(float));
}

void matmul_finish(const struct cpu *cpu, const struct matmul *m, struct out_tile p,
                   struct kernel_sums acc)
{
    add_bias(cpu->kernels, m, p, acc.data); /* of slice 0 */
    if (m->slice_columns > 0)
        finish_residual(cpu->kernels, m, p, acc);
    else
        finish_float(cpu->kernels, m, p, acc.data);
}

/* ---- tiles ---- */

static bool is_permuted(const struct run *run, const struct matmul *m, int token)
{
    return run->cpu->kernels->gemm_permuted != NULL &&
           run->phases[matmul_input_row(m, token)] == PHASE_PREFILL;
}

/* Packed tiles [first, end) of a job: consecutive tokens of the same kernel at a time. */
static void run_packed(const struct run *run, int job, int first, int end, int worker)
{
    const struct matmul *m = &run->jobs[job];
    const uint8_t *interleaved = interleaved_of(&run->interleaved, job);

    for (int token = 0, behind; token < m->n_tokens; token = behind) {
        const bool permuted = is_permuted(run, m, token);
        struct packed_range part = {
            .token = token, .first = first, .end = end, .interleaved = interleaved};

        for (behind = token + 1; behind < m->n_tokens && is_permuted(run, m, behind) == permuted;)
            behind++;
        part.token_end = behind;
        if (permuted)
            permuted_multiply(run->cpu, m, run->permuted, part, worker);
        else
            int8_multiply(run->cpu, m, run->rows, part, worker);
    }
}

static void run_tiles(void *ctx, int job, int first, int end, int worker)
{
    const struct run *run = ctx;
    const struct matmul *m = &run->jobs[job];

    if (m->w.layout == LAYOUT_PACKED)
        run_packed(run, job, first, end, worker);
    else
        float_multiply(run->cpu, m, &run->floats, (struct tile_span){first, end}, worker);
}

/* ---- a call ---- */

/* Panels pay only with many tokens. */
static enum osp_status round_inputs(struct run *run, int n_rows, int n_jobs)
{
    const struct rows x = {run->floats.x, n_rows, (int)run->n_columns};
    bool is_needed = false, wants_panels = false;

    for (int i = 0; i < n_jobs; i++)
        if (run->jobs[i].n_tokens > 0 && float_uses_bf16(run->cpu->kernels, &run->jobs[i])) {
            is_needed = true;
            wants_panels |= run->jobs[i].gather == NULL && run->jobs[i].n_tokens > SMALL_M_MAX;
        }
    return is_needed ? cpu_bf16_rows(run->cpu, &run->floats.bf16_rows, x, wants_panels) : OSP_OK;
}

static bool has_phase(struct inputs inputs, enum phase phase)
{
    for (int i = 0; i < inputs.n_rows; i++)
        if (inputs.phases[i] == (int32_t)phase)
            return true;
    return false;
}

/* The inputs of packed weights: int8 rows, and permuted bf16 rows of prefill if the ISA has that
 * kernel. */
static enum osp_status pack_inputs(struct run *run, struct inputs inputs, int n_jobs)
{
    const struct rows x = {inputs.data, inputs.n_rows, (int)run->n_columns};
    const bool has_mixed = run->cpu->kernels->gemm_permuted != NULL;
    enum osp_status st;

    if (has_mixed && has_phase(inputs, PHASE_PREFILL)) {
        TRY(cpu_reserve_workers(run->cpu, permuted_ws_bytes(run->n_columns), 1,
                                "gathered tokens of an expert"));
        TRY(cpu_round_permuted(run->cpu, &run->permuted, x));
    }
    if (!has_mixed || has_phase(inputs, PHASE_DECODE))
        TRY(cpu_int8_rows(run->cpu, &run->rows, x, run->jobs[0].slice_columns));
    if (!has_mixed)
        TRY(cpu_interleave(run->cpu, &run->interleaved, run->rows, run->jobs, n_jobs));
    st = OSP_OK;
out:
    return st;
}

static void add_work(struct work *work, const struct matmul *m)
{
    const double n_out = (double)m->out_width * m->n_tokens;
    const double n_in = (double)m->w.dim[1] * m->n_tokens;

    work->bytes += (double)tensor_bytes(&m->w) + 4 * (n_in + n_out);
    work->flops += 2 * (double)m->w.dim[0] * (double)m->w.dim[1] * m->n_tokens;
}

/* Counts the tiles of each job; sets whether a job is packed, and whether one is widened. */
static enum osp_status plan(struct run *run, struct tiles *tiles, bool *is_packed, bool *is_widened)
{
    int32_t *n_tiles;
    enum osp_status st;

    TRY(workspace_reserve(&run->cpu->counts, (size_t)tiles->n_jobs, sizeof(*n_tiles),
                          "tile counts"));
    tiles->n = n_tiles = run->cpu->counts.data;
    for (int i = 0; i < tiles->n_jobs; i++) {
        const struct matmul *m = &run->jobs[i];

        assert(m->w.dim[1] == run->n_columns);
        assert(m->slice_columns == run->jobs[0].slice_columns);
        assert(m->epilogue == EPILOGUE_BIAS || (m->w.dim[0] % 2 == 0 && m->slice_columns == 0));
        n_tiles[i] = 0;
        if (m->n_tokens == 0)
            continue;
        n_tiles[i] = (int32_t)((m->w.dim[0] + TILE_ROWS - 1) / TILE_ROWS);
        *is_packed |= m->w.layout == LAYOUT_PACKED;
        if (m->w.layout == LAYOUT_PACKED && m->n_tokens == 1)
            tiles->at_once = GROUPS_AT_ONCE;
        *is_widened |= m->w.layout != LAYOUT_PACKED && !float_is_in_place(run->cpu->kernels, m);
    }
out:
    return st;
}

struct inputs cpu_rows(const struct cpu *cpu, const struct tensor *x)
{
    return (struct inputs){x->data, cpu->n_rows, cpu->phases};
}

enum osp_status cpu_matmul(struct cpu *cpu, struct inputs inputs, const struct matmul *jobs,
                           int n_jobs, struct work *work)
{
    struct run run = {.cpu = cpu,
                      .jobs = jobs,
                      .floats = {.x = inputs.data},
                      .n_columns = jobs[0].w.dim[1],
                      .phases = inputs.phases};
    bool is_packed = false, is_widened = false;
    enum osp_status st;

    run.tiles.n_jobs = n_jobs;
    TRY(plan(&run, &run.tiles, &is_packed, &is_widened));
    TRY(workspace_reserve(&cpu->sums, (size_t)pool_threads(cpu->pool), SUMS_FLOATS * sizeof(float),
                          "sums of the kernels"));
    if (is_widened)
        TRY(cpu_reserve_workers(cpu, (size_t)run.n_columns, TILE_ROWS * sizeof(float),
                                "weight tiles"));
    if (is_packed)
        TRY(pack_inputs(&run, inputs, n_jobs));
    TRY(round_inputs(&run, inputs.n_rows, n_jobs));
    cpu_run_tiles(cpu, &run.tiles, run_tiles, &run);
    for (int i = 0; i < n_jobs; i++)
        if (jobs[i].n_tokens > 0)
            add_work(work, &jobs[i]);
out:
    return st;
}
