/* Stage attn: attention of query row t and head h over the keys j that the row sees,
 *     s_j = scale q.k_j,  M = max(sink, max s),  att = sum exp(s_j - M) v_j
 *                                                      / (exp(sink - M) + sum exp(s_j - M)).
 *
 * A task is a block of rows of one sequence and one key/value head with its query heads. It walks
 * the pages in order with an online softmax: running maximum, denominator and weighted sum of each
 * row and head. Every SPLIT_PAGES pages the sums start again, and the sums of the split are merged
 * into the total, which starts with the sink (M = sink, denominator 1). If there are few blocks,
 * each split is a task of its own (split-KV), and the last one of a block to finish merges all of
 * them in the same order, with the same bits. Page and split borders are absolute positions, so a
 * row's arithmetic depends only on its position and window.
 *
 * Bytes: every key and value that a sequence's rows see, once. Flops: 4 D a row, head and key. */
#include "cpu/stages/attn.h"

#include <math.h>
#include <string.h>

#include "cpu/kernels/exp4.h"

/* ---- sums ---- */

static struct sums sums_at(const struct attn_run *run, float *workspace, int n_row_heads)
{
    return (struct sums){.acc = workspace,
                         .states =
                             (struct softmax *)(workspace + (int64_t)n_row_heads * run->width)};
}

static void begin_sums(const struct attn_run *run, const struct sums *sums, int n_row_heads)
{
    for (int i = 0; i < n_row_heads; i++)
        sums->states[i] = (struct softmax){.largest = -INFINITY};
    memset(sums->acc, 0, (size_t)n_row_heads * (size_t)run->width * sizeof(float));
}

static void begin_total(const struct attn_run *run, const struct sums *sums, int n_row_heads,
                        int kv_head)
{
    const float *sinks = (const float *)run->a->sinks.data + kv_head * run->n_group;

    begin_sums(run, sums, n_row_heads);
    for (int i = 0; i < n_row_heads; i++) {
        const float sink = sinks[i % run->n_group];

        sums->states[i] =
            (struct softmax){.largest = sink, .denominator = sink == -INFINITY ? 0.0f : 1.0f};
    }
}

/* Merges the sums of one row and head into its total. */
static void merge(struct softmax *total, float *acc, const struct softmax *split,
                  const float *split_acc, int n)
{
    const float largest = split->largest > total->largest ? split->largest : total->largest;
    const float keep = exp1(total->largest - largest), add = exp1(split->largest - largest);

    for (int i = 0; i < n; i += 4)
        store4(acc + i, load4(acc + i) * all4(keep) + load4(split_acc + i) * all4(add));
    total->denominator = total->denominator * keep + split->denominator * add;
    total->largest = largest;
}

/* Merges a split into the totals of those rows that see keys of it. */
static void merge_split(const struct attn_run *run, const struct row_block *block, int split,
                        const struct sums *total, const struct sums *sums)
{
    const int32_t *positions = BATCH_POSITIONS(run->cpu->batch) + block->first_row;

    for (int i = 0; i < attn_row_heads(run, block); i++) {
        const struct span s = span_within(attn_span(run->a, positions[i / run->n_group]),
                                          split * SPLIT_TOKENS, SPLIT_TOKENS);

        if (s.first < s.end)
            merge(&total->states[i], total->acc + (int64_t)i * run->width, &sums->states[i],
                  sums->acc + (int64_t)i * run->width, run->width);
    }
}

static void end_rows(const struct attn_run *run, const struct row_block *block, int kv_head,
                     const struct sums *total)
{
    const int n_group = run->n_group, D = run->head_dim;

    for (int i = 0; i < attn_row_heads(run, block); i++) {
        float *att = (float *)run->a->att.data +
                     (block->first_row + i / n_group) * run->a->att.dim[1] +
                     (kv_head * n_group + i % n_group) * D;
        const float *acc = total->acc + (int64_t)i * run->width;
        const float share = 1.0f / total->states[i].denominator;
        int d = 0;

        for (; d + 4 <= D; d += 4)
            store4(att + d, load4(acc + d) * all4(share));
        for (; d < D; d++)
            att[d] = acc[d] * share;
    }
}

/* ---- a task ---- */

/* Of keys or of values, in the largest dtype, and scales. */
static int64_t tree_page_floats(const struct attn_run *run)
{
    return PAGE_TOKENS * (run->width + 1);
}

int64_t attn_workspace_floats(const struct attn_run *run)
{
    const int n_row_heads = BLOCK_ROWS * run->n_group;

    return 2 * PAGE_TOKENS * run->width + 2 * tree_page_floats(run) +
           2 * attn_sums_floats(run, n_row_heads) + n_row_heads * (1 + run->width / 2);
}

static struct attn_workspace workspace_of(const struct attn_run *run, int worker,
                                          struct attend *call)
{
    const int n_row_heads = BLOCK_ROWS * run->n_group;
    float *at = run->cpu->workers[worker].data;
    struct attn_workspace workspace = {.call = call};

    workspace.page[0] = at;
    workspace.page[1] = at + PAGE_TOKENS * run->width;
    at += 2 * PAGE_TOKENS * run->width;
    for (int which = 0; which < 2; which++, at += tree_page_floats(run))
        workspace.tree_page[which] = (char *)at;
    workspace.total = sums_at(run, at, n_row_heads);
    at += attn_sums_floats(run, n_row_heads);
    workspace.split = sums_at(run, at, n_row_heads);
    at += attn_sums_floats(run, n_row_heads);
    workspace.q_scales = at;
    workspace.codes = (int16_t *)(at + n_row_heads);
    return workspace;
}

/* Computes the sums of one split; afterwards `largest` is in base e. `then` is the first page of
 * the thread's next task, to prefetch, or NULL. */
static void attend_split(const struct attn_run *run, const struct row_block *block, int kv_head,
                         int split, const struct attn_page_ref *then,
                         const struct attn_workspace *workspace, const struct sums *sums)
{
    const struct span seen =
        span_within(attn_block_span(run, block), split * SPLIT_TOKENS, SPLIT_TOKENS);
    const int last = (seen.end - 1) / PAGE_TOKENS;
    struct attn_page_ref at = {block->seq, kv_head, seen.first / PAGE_TOKENS};
    const float unit = run->cpu->kernels->attend == NULL ? 1.0f : 0.693147181f; /* ln 2 */

    begin_sums(run, sums, attn_row_heads(run, block));
    if (attn_has_codes(run))
        attn_codes(run, block, kv_head, workspace);
    for (; at.page <= last; at.page++) {
        const struct attn_page_ref next = {at.seq, kv_head, at.page + 1};

        attn_page(run, block, &at, at.page < last ? &next : then, workspace, sums);
    }
    for (int i = 0; i < attn_row_heads(run, block); i++)
        sums->states[i].largest *= unit;
}

static void run_whole(const struct attn_run *run, const struct attn_task *task, int kv_head,
                      const struct attn_page_ref *then, const struct attn_workspace *workspace)
{
    const struct row_block *block = &run->cpu->blocks[task->block];

    begin_total(run, &workspace->total, attn_row_heads(run, block), kv_head);
    for (int split = task->first_split; split < task->end_split; split++) {
        const struct attn_page_ref next = {block->seq, kv_head, (split + 1) * SPLIT_PAGES};

        attend_split(run, block, kv_head, split, split + 1 < task->end_split ? &next : then,
                     workspace, &workspace->split);
        merge_split(run, block, split, &workspace->total, &workspace->split);
    }
    end_rows(run, block, kv_head, &workspace->total);
}

/* Where a split of a cut block stores its sums: (split, key/value head). */
static struct sums part_of(const struct attn_run *run, const struct attn_task *task, int kv_head,
                           int split)
{
    const int n = attn_row_heads(run, &run->cpu->blocks[task->block]);
    const int64_t i = (int64_t)split * run->n_kv_heads + kv_head;

    return sums_at(run, run->partials + task->offset + i * attn_sums_floats(run, n), n);
}

static void run_split_kv(const struct attn_run *run, const struct attn_task *task, int kv_head,
                         const struct attn_page_ref *then, const struct attn_workspace *workspace)
{
    const struct row_block *block = &run->cpu->blocks[task->block];
    const struct span seen = attn_block_span(run, block);
    const int first = seen.first / SPLIT_TOKENS, end = (seen.end - 1) / SPLIT_TOKENS + 1;
    const struct sums mine = part_of(run, task, kv_head, task->first_split - first);

    attend_split(run, block, kv_head, task->first_split, then, workspace, &mine);
    if (atomic_fetch_sub(&run->n_remaining[task->split_kv * run->n_kv_heads + kv_head], 1) > 1)
        return;
    begin_total(run, &workspace->total, attn_row_heads(run, block), kv_head);
    for (int split = first; split < end; split++) {
        const struct sums part = part_of(run, task, kv_head, split - first);

        merge_split(run, block, split, &workspace->total, &part);
    }
    end_rows(run, block, kv_head, &workspace->total);
}

/* The task and head of part `part` of the loop. The longest tasks are last in the list, and run
 * first. */
static const struct attn_task *task_of(const struct attn_run *run, int part, int *kv_head)
{
    const int i = run->n_tasks * run->n_kv_heads - 1 - part;

    *kv_head = i % run->n_kv_heads;
    return &run->tasks[i / run->n_kv_heads];
}

/* The first page of a part. */
static struct attn_page_ref page_ref_of(const struct attn_run *run, int part)
{
    int kv_head;
    const struct attn_task *task = task_of(run, part, &kv_head);
    const struct row_block *block = &run->cpu->blocks[task->block];
    const struct span seen = attn_block_span(run, block);
    const int first = seen.first > task->first_split * SPLIT_TOKENS
                          ? seen.first
                          : task->first_split * SPLIT_TOKENS;

    return (struct attn_page_ref){block->seq, kv_head, first / PAGE_TOKENS};
}

/* Threads take parts in order, so a thread's next part is probably `part` + n_threads. */
static void run_task(void *ctx, int part, int worker)
{
    const struct attn_run *run = ctx;
    const int next = part + pool_threads(run->cpu->pool);
    const bool is_last = next >= run->n_tasks * run->n_kv_heads;
    const struct attn_page_ref then = page_ref_of(run, is_last ? part : next);
    struct attend call = attn_call(run);
    const struct attn_workspace workspace = workspace_of(run, worker, &call);
    int kv_head;
    const struct attn_task *task = task_of(run, part, &kv_head);

    (task->split_kv < 0 ? run_whole : run_split_kv)(run, task, kv_head, is_last ? NULL : &then,
                                                    &workspace);
}

/* ---- a call ---- */

static void add_work(const struct attn_run *run, struct work *work)
{
    const struct batch *b = run->cpu->batch;
    const struct tensor *kv = &run->a->kv;
    const double q_width = (double)run->a->q.dim[1];
    const double kv_bytes = /* of one position */
        (double)kv_page_bytes(kv->dtype, kv->dim[2], kv->dim[4]) / PAGE_TOKENS;
    int n_seen = 0; /* positions of the sequence that are counted */

    for (int i = 0; i < run->cpu->n_blocks; i++) {
        const struct row_block *block = &run->cpu->blocks[i];
        const int32_t *positions = BATCH_POSITIONS(b) + block->first_row;
        const struct span seen = attn_block_span(run, block);
        const int end = seen.end, first = seen.first;

        if (i == 0 || block->seq != block[-1].seq || first > n_seen)
            n_seen = first; /* keys that several blocks see count once */
        if (end > n_seen) {
            work->bytes += kv_bytes * (end - n_seen);
            n_seen = end;
        }
        for (int row = 0; row < block->n_rows; row++) {
            const struct span keys = attn_span(run->a, positions[row]);

            work->flops += 4 * q_width * (keys.end - keys.first);
        }
        work->bytes += 8 * q_width * block->n_rows;
    }
}

enum osp_status cpu_attn(struct cpu *cpu, const struct attn_args *a, struct work *work)
{
    struct attn_run run = {.cpu = cpu,
                           .a = a,
                           .n_kv_heads = (int)a->kv.dim[2],
                           .head_dim = (int)a->kv.dim[4],
                           .width = kv_width(a->kv.dim[4]),
                           .n_group = (int)(a->q.dim[1] / (a->kv.dim[2] * a->kv.dim[4]))};
    enum osp_status st;

    TRY(cpu_reserve_workers(cpu, (size_t)attn_workspace_floats(&run), sizeof(float),
                            "attention sums"));
    TRY(attn_plan(&run));
    pool_run(cpu->pool, run_task, &run, run.n_tasks * run.n_kv_heads);
    add_work(&run, work);
out:
    return st;
}
