/* The tasks of stage attn: which keys each row sees, and which blocks of rows are cut into
 * splits. */
#include "cpu/stages/attn.h"

enum {
    TASKS_PER_THREAD = 4,         /* with fewer tasks, long blocks are cut */
    PARTIALS_BYTES_MAX = 64 << 20 /* of partial sums; above it, blocks stay whole */
};

/* ---- visible keys ---- */

struct span attn_span(const struct attn_args *a, int position)
{
    const int end = position + 1;
    const int first = a->window_tokens > 0 && end > a->window_tokens ? end - a->window_tokens : 0;

    return (struct span){first, end};
}

/* The keys that some row of a block sees. */
struct span attn_block_span(const struct attn_run *run, const struct row_block *block)
{
    const int32_t *positions = BATCH_POSITIONS(run->cpu->batch) + block->first_row;
    int first = positions[0], last = first;

    for (int i = 1; i < block->n_rows; i++) { /* rows of a tree are not in order */
        first = positions[i] < first ? positions[i] : first;
        last = positions[i] > last ? positions[i] : last;
    }
    return (struct span){attn_span(run->a, first).first, last + 1};
}

int attn_row_heads(const struct attn_run *run, const struct row_block *block)
{
    return block->n_rows * run->n_group;
}

/* Floats of a block's sums for one key/value head. */
int64_t attn_sums_floats(const struct attn_run *run, int n_row_heads)
{
    return (int64_t)n_row_heads * (run->width + (int)(sizeof(struct softmax) / sizeof(float)));
}

/* ---- tasks ---- */

static int splits_of(const struct attn_run *run, int block)
{
    const struct span seen = attn_block_span(run, &run->cpu->blocks[block]);

    return (seen.end - 1) / SPLIT_TOKENS + 1 - seen.first / SPLIT_TOKENS;
}

/* Cuts a block into one task a split. Returns the floats that their sums need. */
static int64_t split_kv_block(struct attn_run *run, struct attn_task *tasks, int block,
                              int64_t offset)
{
    const struct row_block *b = &run->cpu->blocks[block];
    const int first = attn_block_span(run, b).first / SPLIT_TOKENS, n = splits_of(run, block);

    for (int i = 0; i < n; i++)
        tasks[run->n_tasks++] = (struct attn_task){.block = block,
                                                   .first_split = first + i,
                                                   .end_split = first + i + 1,
                                                   .split_kv = run->n_split_kv,
                                                   .offset = offset};
    run->n_split_kv++;
    return n * run->n_kv_heads * attn_sums_floats(run, attn_row_heads(run, b));
}

static void keep_block(struct attn_run *run, struct attn_task *tasks, int block)
{
    const int first = attn_block_span(run, &run->cpu->blocks[block]).first / SPLIT_TOKENS;

    tasks[run->n_tasks++] = (struct attn_task){.block = block,
                                               .first_split = first,
                                               .end_split = first + splits_of(run, block),
                                               .split_kv = -1};
}

/* Whether there are so few blocks that long ones may be cut. */
static bool may_split_kv(int n_blocks, int n_kv_heads, int n_threads)
{
    return n_blocks * n_kv_heads < TASKS_PER_THREAD * n_threads;
}

static bool run_may_split_kv(const struct attn_run *run)
{
    return may_split_kv(run->cpu->n_blocks, run->n_kv_heads, pool_threads(run->cpu->pool));
}

/* Whether a block is cut: only if there are few blocks, and if it is longer than a split. */
static bool is_split_kv(const struct attn_run *run, int block, int64_t n_floats)
{
    const struct row_block *b = &run->cpu->blocks[block];
    const struct span seen = attn_block_span(run, b);
    const int64_t n_more =
        splits_of(run, block) * run->n_kv_heads * attn_sums_floats(run, attn_row_heads(run, b));

    return run_may_split_kv(run) && seen.end - seen.first > SPLIT_TOKENS &&
           (n_floats + n_more) * (int64_t)sizeof(float) <= PARTIALS_BYTES_MAX;
}

static enum osp_status plan_workspace(struct attn_run *run, struct attn_task **tasks)
{
    struct cpu *cpu = run->cpu;
    size_t n_most = 0;
    enum osp_status st;

    for (int i = 0; i < cpu->n_blocks; i++)
        n_most += run_may_split_kv(run) ? (size_t)splits_of(run, i) : 1;
    TRY(workspace_reserve(&cpu->attn_tasks, n_most, sizeof(struct attn_task), "attention tasks"));
    *tasks = cpu->attn_tasks.data;
out:
    return st;
}

struct attn_max attn_max_of(const struct attn_run *run, int n_rows, int n_seq_pages, int n_threads)
{
    const int64_t n_splits =
        n_seq_pages / SPLIT_PAGES + 2; /* the first and the last split may be partial */
    const int64_t n_floats = attn_sums_floats(run, BLOCK_ROWS * run->n_group) * run->n_kv_heads;
    const int64_t n_floats_max = PARTIALS_BYTES_MAX / (int64_t)sizeof(float);
    int64_t n_split_kv = 0;

    while (n_split_kv < n_rows && may_split_kv((int)n_split_kv + 1, run->n_kv_heads, n_threads))
        n_split_kv++;
    return (struct attn_max){
        .n_tasks = (size_t)(n_split_kv * n_splits > n_rows ? n_split_kv * n_splits : n_rows),
        .n_split_kv = (size_t)n_split_kv,
        .n_floats = (size_t)(n_split_kv * n_splits * n_floats < n_floats_max
                                 ? n_split_kv * n_splits * n_floats
                                 : n_floats_max)};
}

enum osp_status attn_plan(struct attn_run *run)
{
    struct cpu *cpu = run->cpu;
    struct attn_task *tasks;
    int64_t n_floats = 0;
    enum osp_status st;

    TRY(plan_workspace(run, &tasks));
    run->tasks = tasks;
    for (int i = 0; i < cpu->n_blocks; i++)
        if (is_split_kv(run, i, n_floats))
            n_floats += split_kv_block(run, tasks, i, n_floats);
        else
            keep_block(run, tasks, i);
    TRY(workspace_reserve(&cpu->attn_partials, (size_t)n_floats, sizeof(float),
                          "attention sums of splits"));
    TRY(workspace_reserve(&cpu->attn_remaining, (size_t)run->n_split_kv,
                          (size_t)run->n_kv_heads * sizeof(atomic_int), "attention splits"));
    run->partials = cpu->attn_partials.data;
    run->n_remaining = cpu->attn_remaining.data;
    for (int i = 0; i < run->n_tasks; i++)
        for (int head = 0; tasks[i].split_kv >= 0 && head < run->n_kv_heads; head++)
            atomic_init(&run->n_remaining[tasks[i].split_kv * run->n_kv_heads + head],
                        splits_of(run, tasks[i].block));
out:
    return st;
}
