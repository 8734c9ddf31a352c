/* The CPU backend: device memory is host memory. Weights stay where the checkpoint is mapped,
 * except MXFP4 weights, which are packed for the ISA, and copies for NUMA nodes. A compiled program
 * is a loop over its stages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "cpu/matmul/pack.h"
#include "cpu/matmul/numa_place.h"
#include "cpu/common/workspace.h"
#include "cpu/stages/kv.h"

static struct cpu *cpu_of(struct backend *be)
{
    return (struct cpu *)be;
}

/* ---- memory ---- */

void cpu_widen(const struct kernels *k, float *out, const struct tensor *w, int64_t first,
               int64_t n)
{
    const unsigned char *data = w->data;

    if (w->dtype == DTYPE_F32)
        memcpy(out, data + 4 * first, (size_t)n * 4);
    else if (w->dtype == DTYPE_BF16)
        k->widen_bf16(out, data + 2 * first, n);
    else
        k->dequant_mxfp4(out, data + first / 2,
                         (const unsigned char *)w->scales + first / MXFP4_BLOCK, n);
}

static enum osp_status cpu_alloc(struct backend *be, struct mem *out, size_t size_bytes)
{
    enum osp_status st;

    *out = (struct mem){0};
    TRY(mem_try_hugepages(&out->data, size_bytes, 1, "device memory"));
    out->size_bytes = size_bytes;
    pool_interleave(cpu_of(be)->pool, out->data, size_bytes);
out:
    return st;
}

static void cpu_release(struct backend *be, struct mem *m)
{
    (void)be;
    free(m->data);
    *m = (struct mem){0};
}

/* Upload, download and copy are the same memcpy() in host memory. */
static enum osp_status cpu_move(struct backend *be, void *dst, const void *src, size_t size_bytes)
{
    (void)be;
    memcpy(dst, src, size_bytes);
    return OSP_OK;
}

static void move_slot(const struct tensor *kv, const struct kv_move *move)
{
    for (int which = 0; which < 2; which++)
        for (int64_t head = 0; head < kv->dim[2]; head++)
            kv_copy_slot(kv, which, kv_side(kv, move->to_page, which, head), move->to_slot,
                         kv_side(kv, move->from_page, which, head), move->from_slot);
}

static enum osp_status cpu_kv_move(struct backend *be, const struct kv_moves *moves)
{
    (void)be;
    for (int i = 0; i < moves->n; i++)
        for (int layer = 0; layer < moves->n_layers; layer++)
            move_slot(moves->kv[layer], &moves->list[i]);
    return OSP_OK;
}

static enum osp_status cpu_copy_rows(struct backend *be, const struct row_copies *c)
{
    (void)be;
    for (int i = 0; i < c->n; i++)
        memcpy((char *)c->to + c->rows[i].to * c->row_bytes,
               (const char *)c->from + c->rows[i].from * c->row_bytes,
               (size_t)(c->rows[i].n * c->row_bytes));
    return OSP_OK;
}

static enum osp_status cpu_pack(struct backend *be, struct tensor *out, const struct tensor *host)
{
    enum osp_status st;

    TRY(cpu_pack_tensor(cpu_of(be), out, host));
    if (out->data == host->data)
        TRY(cpu_numa_place_tensor(cpu_of(be), out, host));
out:
    return st;
}

static int64_t cpu_pack_bytes(const struct backend *be, const struct tensor *host)
{
    return cpu_packed_bytes((const struct cpu *)be, host);
}

/* ---- open and close ---- */

static void cpu_close(struct backend *be)
{
    struct cpu *cpu = cpu_of(be);

    if (cpu == NULL)
        return;
    cpu_workspace_release(cpu); /* one for each thread of the pool, so before pool_close() */
    cpu_pack_release(cpu);
    pool_close(cpu->pool);
    free(cpu->blocks);
    free(cpu->tail_phases);
    free(cpu->shares);
    free(cpu);
}

static enum osp_status cpu_open(struct backend **out, const struct backend_options *opt)
{
    struct cpu *cpu;
    enum osp_status st;

    cpu_options_log(&opt->device_options);
    cpu = mem_new(sizeof(*cpu));
    cpu->limits = *opt;
    cpu->limits.device_options = (struct device_options){0}; /* valid only during open() */
    for (int i = 0; i < N_STAGES; i++)
        cpu->costs[i].stage = stage_names[i];
    TRY(kernels_select(&cpu->kernels, opt->cpu_features));
    cpu->has_prefetch = kernels_want_prefetch();
    TRY(pool_open_bound(&cpu->pool, opt->n_threads, opt->cpu_affinity));
    TRY(mem_try_aligned(&cpu->shares, (size_t)pool_threads(cpu->pool), sizeof(*cpu->shares),
                        "tile counters of the threads"));
    cpu->workers = mem_new((size_t)pool_threads(cpu->pool) * sizeof(*cpu->workers));
    TRY(mem_try_array(&cpu->blocks, (size_t)opt->n_rows_max, sizeof(*cpu->blocks), "row blocks"));
    TRY(mem_try_array(&cpu->tail_phases, (size_t)opt->n_rows_max, sizeof(*cpu->tail_phases),
                      "phases of rows"));
    *out = (struct backend *)cpu;
out:
    if (st != OSP_OK)
        cpu_close((struct backend *)cpu);
    return st;
}

static void cpu_info(const struct backend *be, struct device_info *out)
{
    const struct cpu *cpu = (const struct cpu *)be;
    char nodes[32] = "";

    if (pool_nodes(cpu->pool) > 1)
        snprintf(nodes, sizeof(nodes), " on %d nodes", pool_nodes(cpu->pool));
    *out = (struct device_info){.n_threads = pool_threads(cpu->pool),
                                .pack_layout = cpu->kernels->gemm_int8 ? CPU_PACK_LAYOUT : NULL};
    snprintf(out->name, sizeof(out->name), "CPU, %d thread%s%s, %s kernels", out->n_threads,
             out->n_threads == 1 ? "" : "s", nodes, cpu->kernels->name);
}

/* The oracle stores F32, which adds no rounding. ISAs with 16-bit integer dot products read I16
 * pages fastest. */
static enum osp_status cpu_kv_dtype(const struct backend_options *opt, enum dtype *out)
{
    const struct kernels *k;
    enum osp_status st;

    TRY(kernels_select(&k, opt->cpu_features));
    if (*out == DTYPE_NONE)
        *out = k->attend == NULL ? DTYPE_F32 : k->attend_i16 != NULL ? DTYPE_I16 : DTYPE_BF16;
out:
    return st;
}

static enum osp_status cpu_memory(struct device_memory *out, int first, int n)
{
    (void)first;
    (void)n;
    *out = (struct device_memory){0};
    return OSP_OK;
}

/* ---- programs ---- */

struct compiled {
    const struct program *program; /* borrowed */
    union stage_args *args;        /* (program->n_ops) */
};

static void cpu_release_program(struct backend *be, struct compiled *c)
{
    (void)be;
    if (c == NULL)
        return;
    free(c->args);
    free(c);
}

static enum osp_status cpu_compile(struct backend *be, const struct program *p,
                                   struct compiled **out)
{
    struct compiled *c = mem_new(sizeof(*c));
    enum osp_status st;

    c->program = p;
    TRY(program_all_args(p, &c->args));
    *out = c;
out:
    if (st != OSP_OK)
        cpu_release_program(be, c);
    return st;
}

/* ---- a step ---- */

/* Whether a row of the block is sampled; the samples' rows rise. */
static bool has_sample(const struct batch *b, const struct row_block *block)
{
    for (int i = 0; i < b->n_samples; i++) {
        const int row = BATCH_SAMPLES(b)[i].row;

        if (row >= block->first_row)
            return row < block->first_row + block->n_rows;
    }
    return false;
}

/* The blocks of rows that attention computes: all, or those with a sampled row. */
static void list_blocks(struct cpu *cpu, const struct batch *b, enum rows_needed rows)
{
    const struct batch_seq *seqs = BATCH_SEQS(b);

    cpu->n_blocks = 0;
    for (int s = 0; s < b->n_seqs; s++)
        for (int row = 0; row < seqs[s].n_rows; row += BLOCK_ROWS) {
            const int n_left = seqs[s].n_rows - row;
            const struct row_block block = {.seq = s,
                                            .first_row = seqs[s].first_row + row,
                                            .n_rows = n_left < BLOCK_ROWS ? n_left : BLOCK_ROWS};

            if (rows == ROWS_ALL || has_sample(b, &block))
                cpu->blocks[cpu->n_blocks++] = block;
        }
}

static void begin(struct cpu *cpu, const struct batch *b)
{
    pool_bind_caller(cpu->pool);
    cpu->batch = b;
    cpu->n_rows = b->n_rows;
    cpu->phases = BATCH_PHASES(b);
    cpu->is_tail = false;
    cpu->cos_sin_of = NULL;
    list_blocks(cpu, b, ROWS_ALL);
}

/* ---- the tail of a step: in the last layer, only the rows that samples name ---- */

/* Moves the rows that samples name to the first rows of a tensor. */
static void gather_rows(const struct batch *b, const struct tensor *t)
{
    const size_t n_bytes = (size_t)t->dim[1] * sizeof(float);

    for (int i = 0; i < b->n_samples; i++)
        memmove((char *)t->data + (size_t)i * n_bytes,
                (char *)t->data + (size_t)BATCH_SAMPLES(b)[i].row * n_bytes, n_bytes);
}

/* Starts the tail before op i, an attn_out whose outputs are needed for sampled rows only (enum
 * rows_needed of program.h). */
static void begin_tail(struct cpu *cpu, const struct compiled *c, int i)
{
    const struct batch *b = cpu->batch;

    gather_rows(b, &c->args[i].attn_out.att);
    gather_rows(b, &c->args[i + 1].residual_rmsnorm.x);
    for (int row = 0; row < b->n_samples; row++)
        cpu->tail_phases[row] = BATCH_PHASES(b)[BATCH_SAMPLES(b)[row].row];
    cpu->phases = cpu->tail_phases;
    cpu->n_rows = b->n_samples;
    cpu->is_tail = true;
}

static bool is_tail_begin(const struct compiled *c, int i)
{
    const struct program *p = c->program;

    return p->ops[i].stage == STAGE_attn_out && p->ops[i].rows == ROWS_SAMPLED &&
           i + 1 < p->n_ops && p->ops[i + 1].stage == STAGE_residual_rmsnorm &&
           p->ops[i + 1].rows == ROWS_SAMPLED;
}

/* Whether op i can be skipped: in a step without samples, the last layer only has to store keys and
 * values. */
static bool is_unneeded(const struct cpu *cpu, const struct compiled *c, int i)
{
    return cpu->batch->n_samples == 0 && c->program->ops[i].rows == ROWS_SAMPLED;
}

/* ---- stages ---- */

static void account(struct stage_cost *cost, uint64_t start_ns, const struct work *work)
{
    cost->n_calls++;
    cost->time_ns += (int64_t)(clock_ns() - start_ns);
    cost->bytes += work->bytes;
    cost->flops += work->flops;
}

static enum osp_status call_stage(struct cpu *cpu, enum stage stage, const union stage_args *a,
                                  struct work *work)
{
    switch (stage) {
#define CALL_STAGE(stage)                                                                          \
    case STAGE_##stage:                                                                            \
        return cpu_##stage(cpu, &a->stage, work);
        STAGE_LIST(CALL_STAGE)
#undef CALL_STAGE
    case N_STAGES:
        break;
    }
    return fail(OSP_EINTERNAL, "stage %d does not exist", (int)stage);
}

/* Runs a stage, and adds its time, bytes and flops to the costs of that stage. */
static enum osp_status run_stage(struct cpu *cpu, enum stage stage, const union stage_args *a)
{
    const uint64_t start_ns = clock_ns();
    struct work work = {0};
    const enum osp_status st = call_stage(cpu, stage, a, &work);

    account(&cpu->costs[stage], start_ns, &work);
    return st;
}

static enum osp_status cpu_run(struct backend *be, struct compiled *c, const struct batch *b,
                               uint64_t *ticket)
{
    struct cpu *cpu = cpu_of(be);
    enum osp_status st = OSP_OK;

    begin(cpu, b);
    for (int i = 0; i < c->program->n_ops; i++) {
        if (is_unneeded(cpu, c, i))
            continue;
        if (c->program->ops[i].stage == STAGE_attn && c->program->ops[i].rows == ROWS_SAMPLED &&
            batch_has_tail(b))
            list_blocks(cpu, b, ROWS_SAMPLED);
        if (is_tail_begin(c, i) && batch_has_tail(b))
            begin_tail(cpu, c, i);
        cpu->exchange_kind = c->program->ops[i].exchange;
        TRY(run_stage(cpu, c->program->ops[i].stage, &c->args[i]));
    }
    *ticket = ++cpu->ticket;
out:
    cpu->batch = NULL;
    return st;
}

static enum osp_status cpu_step_wait(struct backend *be, uint64_t ticket)
{
    (void)be;
    (void)ticket; /* run() is synchronous: the step has ended when it returns */
    return OSP_OK;
}

static int cpu_costs(const struct backend *be, struct stage_cost *out, int n_max)
{
    const int n = n_max < N_STAGES ? n_max : N_STAGES;

    memcpy(out, ((const struct cpu *)be)->costs, (size_t)n * sizeof(*out));
    return n;
}

const struct backend_ops cpu_backend_ops = {.name = "cpu",
                                            .options = cpu_option_rows,
                                            .open = cpu_open,
                                            .close = cpu_close,
                                            .info = cpu_info,
                                            .alloc = cpu_alloc,
                                            .release = cpu_release,
                                            .write = cpu_move,
                                            .read = cpu_move,
                                            .copy = cpu_move,
                                            .kv_move = cpu_kv_move,
                                            .copy_rows = cpu_copy_rows,
                                            .pack = cpu_pack,
                                            .pack_bytes = cpu_pack_bytes,
                                            .kv_dtype = cpu_kv_dtype,
                                            .memory = cpu_memory,
                                            .step_bytes = cpu_step_bytes,
                                            .step_reserve = cpu_step_reserve,
                                            .compile = cpu_compile,
                                            .release_program = cpu_release_program,
                                            .run = cpu_run,
                                            .step_wait = cpu_step_wait,
                                            .costs = cpu_costs};
