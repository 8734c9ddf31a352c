/* Stage attn: for query row t and head h, over the keys j that the row sees,
 *     s_j = scale q.k_j,  M = max(sink, max s),  att = sum exp(s_j - M) v_j
 *                                                      / (exp(sink - M) + sum exp(s_j - M)).
 *
 * A task is a block of rows of one sequence and one key/value head with its group of query heads; it
 * goes over the pages in order and keeps a running largest score, denominator and sum for each row
 * and head, begun with the sink (M = sink, denominator 1). Page borders are absolute positions, so
 * a row's arithmetic depends on its position and window alone.
 *
 * Bytes: every key and value that a sequence's rows see, once. Flops: 4 D a row, head and key. */
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/exp4.h"

enum { HEADS_AT_ONCE = 8 }; /* query heads of a group that meet a page's keys together */

struct attn_run {
    struct cpu *cpu;
    const struct attn_args *a;
    int n_kv_heads, n_group, head_width; /* n_group query heads share a key/value head */
};

/* Online softmax of one row and head. */
struct softmax {
    float largest, denominator;
};

/* Where a row's keys begin and end: [first, end). */
struct span {
    int first, end;
};

static struct span keys_of(const struct attn_args *a, int position)
{
    const int end = position + 1;
    const int first = a->window_tokens > 0 && end > a->window_tokens ? end - a->window_tokens : 0;

    return (struct span){first, end};
}

static struct span within_page(struct span s, int page)
{
    const int first = page * PAGE_TOKENS, end = first + PAGE_TOKENS;

    return (struct span){s.first > first ? s.first : first, s.end < end ? s.end : end};
}

/* Takes the products q.k of a few keys into the sum `acc` of their values. */
static void absorb(const struct attn_run *run, struct softmax *m, float *acc, struct rows v,
                   float *scores)
{
    const struct kernels *k = run->cpu->kernels;
    const float largest = k->scale(scores, v.n_rows, run->a->scale, m->largest);
    const float shrink = exp1(m->largest - largest);

    if (shrink != 1.0f)
        for (int i = 0; i < v.n; i++)
            acc[i] *= shrink;
    m->largest = largest;
    m->denominator = m->denominator * shrink + k->exp_sum(scores, v.n_rows, largest);
    k->weighted_sum(acc, v, scores);
}

/* One row's group of heads against the keys of one page. */
static void attend_row(const struct attn_run *run, struct softmax *m, float *acc, const float *q,
                       struct rows keys, struct rows values)
{
    const struct kernels *k = run->cpu->kernels;
    float scores[HEADS_AT_ONCE][PAGE_TOKENS];
    const float *heads[HEADS_AT_ONCE];

    for (int g = 0; g < run->n_group; g += HEADS_AT_ONCE) {
        const int n_left = run->n_group - g, n = n_left < HEADS_AT_ONCE ? n_left : HEADS_AT_ONCE;

        for (int i = 0; i < n; i++)
            heads[i] = q + (g + i) * keys.n;
        k->products_f32(&(struct products){.out = scores[0],
                                           .out_stride = PAGE_TOKENS,
                                           .w = keys.data,
                                           .x = heads,
                                           .n_rows = keys.n_rows,
                                           .n = keys.n,
                                           .n_x = n});
        for (int i = 0; i < n; i++)
            absorb(run, &m[g + i], acc + (g + i) * keys.n, values, scores[i]);
    }
}

static void begin_rows(const struct attn_run *run, struct softmax *m, float *acc, int n_rows,
                       int kv_head)
{
    const float *sinks = (const float *)run->a->sinks.data + kv_head * run->n_group;
    const int n = n_rows * run->n_group;

    for (int i = 0; i < n; i++) {
        const float sink = sinks[i % run->n_group];

        m[i] = (struct softmax){.largest = sink, .denominator = sink == -INFINITY ? 0.0f : 1.0f};
    }
    memset(acc, 0, (size_t)n * (size_t)run->head_width * sizeof(float));
}

static const float *page_of(const struct attn_run *run, const struct batch_seq *seq, int page,
                            int kv_head)
{
    const struct attn_args *a = run->a;
    const int32_t index = seq->table[a->group] + page - seq->first_page[a->group];
    const int64_t number = BATCH_PAGES(run->cpu->batch)[index];

    return (const float *)a->kv.data +
           (number * 2 * run->n_kv_heads + kv_head) * PAGE_TOKENS * run->head_width;
}

static void attend_page(const struct attn_run *run, const struct row_block *block, int page,
                        int kv_head, struct softmax *m, float *acc)
{
    const struct batch *b = run->cpu->batch;
    const int D = run->head_width, n_group = run->n_group;
    const float *keys = page_of(run, &BATCH_SEQS(b)[block->seq], page, kv_head);
    const float *values = keys + (int64_t)run->n_kv_heads * PAGE_TOKENS * D;

    for (int r = 0; r < block->n_rows; r++) {
        const int row = block->first_row + r;
        const struct span s = within_page(keys_of(run->a, BATCH_POSITIONS(b)[row]), page);
        const int offset = (s.first - page * PAGE_TOKENS) * D;

        if (s.first < s.end)
            attend_row(run, m + r * n_group, acc + r * n_group * D,
                       (const float *)run->a->q.data + row * run->a->q.dim[1] +
                           kv_head * n_group * D,
                       (struct rows){keys + offset, s.end - s.first, D},
                       (struct rows){values + offset, s.end - s.first, D});
    }
}

static void end_rows(const struct attn_run *run, const struct row_block *block, int kv_head,
                     const struct softmax *m, const float *acc)
{
    const int n_group = run->n_group, D = run->head_width;

    for (int i = 0; i < block->n_rows * n_group; i++) {
        float *att = (float *)run->a->att.data +
                     (block->first_row + i / n_group) * run->a->att.dim[1] +
                     (kv_head * n_group + i % n_group) * D;

        for (int d = 0; d < D; d++)
            att[d] = acc[i * D + d] / m[i].denominator;
    }
}

static void attend_block(void *ctx, int part, int worker)
{
    const struct attn_run *run = ctx;
    const struct row_block *block = &run->cpu->blocks[part / run->n_kv_heads];
    const int kv_head = part % run->n_kv_heads;
    const int32_t *positions = BATCH_POSITIONS(run->cpu->batch) + block->first_row;
    float *acc = run->cpu->workers[worker].data;
    struct softmax *m = (struct softmax *)(acc + BLOCK_ROWS * run->n_group * run->head_width);
    const int first_page = keys_of(run->a, positions[0]).first / PAGE_TOKENS;
    const int last_page = positions[block->n_rows - 1] / PAGE_TOKENS;

    begin_rows(run, m, acc, block->n_rows, kv_head);
    for (int page = first_page; page <= last_page; page++)
        attend_page(run, block, page, kv_head, m, acc);
    end_rows(run, block, kv_head, m, acc);
}

static void add_work(const struct attn_run *run, struct work *work)
{
    const struct batch *b = run->cpu->batch;
    const double q_width = (double)run->a->q.dim[1];
    const double kv_bytes = 8.0 * run->n_kv_heads * run->head_width; /* of one position */

    for (int s = 0; s < b->n_seqs; s++) {
        const struct batch_seq *seq = &BATCH_SEQS(b)[s];
        const int32_t *positions = BATCH_POSITIONS(b) + seq->first_row;
        const int first = keys_of(run->a, positions[0]).first;

        work->bytes += kv_bytes * (positions[seq->n_rows - 1] + 1 - first);
        for (int i = 0; i < seq->n_rows; i++) {
            const struct span keys = keys_of(run->a, positions[i]);

            work->flops += 4 * q_width * (keys.end - keys.first);
        }
    }
    work->bytes += 8 * q_width * b->n_rows;
}

enum osp_status cpu_attn(struct cpu *cpu, const struct attn_args *a, struct work *work)
{
    struct attn_run run = {.cpu = cpu,
                           .a = a,
                           .n_kv_heads = (int)a->kv.dim[2],
                           .head_width = (int)a->kv.dim[4],
                           .n_group = (int)(a->q.dim[1] / (a->kv.dim[2] * a->kv.dim[4]))};
    const size_t row_bytes =
        (size_t)run.n_group * ((size_t)run.head_width * sizeof(float) + sizeof(struct softmax));
    enum osp_status st;

    TRY(cpu_workers_need(cpu, BLOCK_ROWS, row_bytes, "attention sums"));
    pool_run(cpu->pool, attend_block, &run, cpu->n_blocks * run.n_kv_heads);
    add_work(&run, work);
out:
    return st;
}
