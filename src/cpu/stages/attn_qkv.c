/* Stage attn_qkv: q = rope(Wq y + bq); rope(Wk y + bk) and Wv y + bv are written to the KV cache.
 * The three matmuls are one loop; then q and k are rotated, and k and v are rounded into their
 * pages.
 *
 * RoPE rotates elements i and i + D/2 by the angle position * inverse_frequency[i], rounded to f32
 * as in the reference implementations. cos and sin are computed once a step, in double, and include
 * the YaRN concentration. */
#include <math.h>

#include "backend/tree_mask.h"
#include "cpu/stages/kv.h"
#include "cpu/matmul/matmul.h"

enum { ROWS_AT_ONCE = 16 }; /* rows stored at once: their keys are a cache line */

struct attn_qkv_run {
    struct cpu *cpu;
    const struct attn_qkv_args *a;
};

/* The rotation of one position, (D) floats: D/2 cosines, then D/2 sines. */
static void cos_sin_row_of(float *out, const struct rope *rope, int32_t position)
{
    const int half = rope->head_dim / 2;

    for (int i = 0; i < half; i++) {
        const float angle = (float)position * rope->inverse_frequency[i];

        out[i] = (float)cos((double)angle) * rope->concentration;
        out[half + i] = (float)sin((double)angle) * rope->concentration;
    }
}

static void cos_sin_row(void *ctx, int row, int worker)
{
    const struct attn_qkv_run *run = ctx;
    const struct rope *rope = run->a->rope;
    float *cos_sin = run->cpu->cos_sin.data;

    (void)worker;
    cos_sin_row_of(cos_sin + (int64_t)row * rope->head_dim, rope,
                   BATCH_POSITIONS(run->cpu->batch)[row]);
}

/* Computes the rotations of the batch's positions once a step, for all layers. */
static enum osp_status fill_cos_sin(struct attn_qkv_run *run)
{
    struct cpu *cpu = run->cpu;
    enum osp_status st = OSP_OK;

    if (cpu->cos_sin_of == run->a->rope)
        return OSP_OK;
    TRY(workspace_reserve(&cpu->cos_sin, (size_t)cpu->limits.n_rows_max * sizeof(float),
                          (size_t)run->a->rope->head_dim, "rotations"));
    pool_run(cpu->pool, cos_sin_row, run, cpu->batch->n_rows);
    cpu->cos_sin_of = run->a->rope;
out:
    return st;
}

static void apply_rope(float *heads, int64_t n_heads, const float *rotation, int head_dim)
{
    const int half = head_dim / 2;

    for (int64_t h = 0; h < n_heads; h++, heads += head_dim)
        for (int i = 0; i < half; i++) {
            const float c = rotation[i], s = rotation[half + i];
            const float x1 = heads[i], x2 = heads[i + half];

            heads[i] = x1 * c - x2 * s;
            heads[i + half] = x2 * c + x1 * s;
        }
}

static void store_kv(const struct attn_qkv_args *a, const struct batch *b, int row, const float *kv)
{
    const struct batch_seq *seq = &BATCH_SEQS(b)[BATCH_ROW_SEQ(b)[row]];
    const int32_t slot = tree_slot(b, row);
    const int32_t index = slot / PAGE_TOKENS - seq->first_page[a->group];
    const int32_t page = BATCH_PAGES(b)[seq->table[a->group] + index];

    kv_store(&a->kv, page, slot % PAGE_TOKENS, kv);
}

static void store_row(const struct attn_qkv_run *run, int row)
{
    const struct attn_qkv_args *a = run->a;
    const int head_dim = a->rope->head_dim;
    const float *rotation = (const float *)run->cpu->cos_sin.data + (int64_t)row * head_dim;
    float *q = (float *)a->q.data + row * a->q.dim[1];
    float *kv = (float *)a->kv_rows.data + row * a->kv_rows.dim[1];

    apply_rope(q, a->q.dim[1] / head_dim, rotation, head_dim);
    apply_rope(kv, a->kv.dim[2], rotation, head_dim);
    store_kv(a, run->cpu->batch, row, kv);
}

/* Adjacent slots of a page share cache lines, so one thread stores ROWS_AT_ONCE rows. */
static void store_rows(void *ctx, int part, int worker)
{
    const struct attn_qkv_run *run = ctx;
    const int end = (part + 1) * ROWS_AT_ONCE, n_rows = run->cpu->batch->n_rows;

    (void)worker;
    for (int row = part * ROWS_AT_ONCE; row < end && row < n_rows; row++)
        store_row(run, row);
}

enum osp_status cpu_attn_qkv(struct cpu *cpu, const struct attn_qkv_args *a, struct work *work)
{
    struct attn_qkv_run run = {.cpu = cpu, .a = a};
    const int64_t kv_width = a->kv.dim[2] * a->kv.dim[4];
    float *const kv_rows = a->kv_rows.data;
    float *const outs[3] = {a->q.data, kv_rows, kv_rows + kv_width};
    struct matmul jobs[3];
    enum osp_status st;

    for (int i = 0; i < 3; i++)
        jobs[i] = (struct matmul){.w = a->wqkv[i],
                                  .bias = a->bqkv[i],
                                  .out = outs[i],
                                  .out_width = i == 0 ? a->q.dim[1] : 2 * kv_width,
                                  .n_tokens = cpu->batch->n_rows};
    TRY(fill_cos_sin(&run));
    TRY(cpu_matmul(cpu, cpu_rows(cpu, &a->y), jobs, 3, work));
    pool_run(cpu->pool, store_rows, &run, (cpu->batch->n_rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE);
    work->bytes += 4.0 * cpu->batch->n_rows * (double)(a->q.dim[1] + 2 * kv_width);
out:
    return st;
}
