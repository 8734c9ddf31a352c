/* Stage attn, its tasks: who sees what, and which blocks of rows are cut into splits. */
#include "cpu/stages/attn.h"

enum {
    TASKS_A_THREAD = 4,        /* with fewer, long blocks are cut */
    PARTS_BYTES_MAX = 64 << 20 /* sums of cut blocks; beyond it blocks stay whole */
};

/* ---- who sees what ---- */

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

    return (struct span){attn_span(run->a, positions[0]).first, positions[block->n_rows - 1] + 1};
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

/* Cuts a block: a task a split. Gives the floats that their sums take. */
static int64_t cut_block(struct attn_run *run, struct attn_task *tasks, int block, int64_t offset)
{
    const struct row_block *b = &run->cpu->blocks[block];
    const int first = attn_block_span(run, b).first / SPLIT_TOKENS, n = splits_of(run, block);

    for (int i = 0; i < n; i++)
        tasks[run->n_tasks++] = (struct attn_task){.block = block,
                                                   .first_split = first + i,
                                                   .end_split = first + i + 1,
                                                   .cut = run->n_cut,
                                                   .offset = offset};
    run->n_cut++;
    return n * run->n_kv_heads * attn_sums_floats(run, attn_row_heads(run, b));
}

static void keep_block(struct attn_run *run, struct attn_task *tasks, int block)
{
    const int first = attn_block_span(run, &run->cpu->blocks[block]).first / SPLIT_TOKENS;

    tasks[run->n_tasks++] = (struct attn_task){.block = block,
                                               .first_split = first,
                                               .end_split = first + splits_of(run, block),
                                               .cut = -1};
}

/* Whether there are so few blocks that long ones may be cut. */
static bool may_cut(int n_blocks, int n_kv_heads, int n_threads)
{
    return n_blocks * n_kv_heads < TASKS_A_THREAD * n_threads;
}

static bool run_may_cut(const struct attn_run *run)
{
    return may_cut(run->cpu->n_blocks, run->n_kv_heads, pool_threads(run->cpu->pool));
}

/* Whether a block is cut; with few blocks, those are that are longer than a split. */
static bool is_cut(const struct attn_run *run, int block, int64_t n_floats)
{
    const struct row_block *b = &run->cpu->blocks[block];
    const struct span seen = attn_block_span(run, b);
    const int64_t n_more =
        splits_of(run, block) * run->n_kv_heads * attn_sums_floats(run, attn_row_heads(run, b));

    return run_may_cut(run) && seen.end - seen.first > SPLIT_TOKENS &&
           (n_floats + n_more) * (int64_t)sizeof(float) <= PARTS_BYTES_MAX;
}

static enum osp_status plan_rooms(struct attn_run *run, struct attn_task **tasks)
{
    struct cpu *cpu = run->cpu;
    size_t n_most = 0;
    enum osp_status st;

    for (int i = 0; i < cpu->n_blocks; i++)
        n_most += run_may_cut(run) ? (size_t)splits_of(run, i) : 1;
    TRY(room_need(&cpu->attn_tasks, n_most, sizeof(struct attn_task), "attention tasks"));
    *tasks = cpu->attn_tasks.data;
out:
    return st;
}

struct attn_most attn_most_of(const struct attn_run *run, int n_rows, int n_seq_pages,
                              int n_threads)
{
    const int64_t n_splits =
        n_seq_pages / SPLIT_PAGES + 2; /* the first and the last may be parts */
    const int64_t n_floats = attn_sums_floats(run, BLOCK_ROWS * run->n_group) * run->n_kv_heads;
    const int64_t n_floats_max = PARTS_BYTES_MAX / (int64_t)sizeof(float);
    int64_t n_cut = 0;

    while (n_cut < n_rows && may_cut((int)n_cut + 1, run->n_kv_heads, n_threads))
        n_cut++;
    return (struct attn_most){.n_tasks =
                                  (size_t)(n_cut * n_splits > n_rows ? n_cut * n_splits : n_rows),
                              .n_cut = (size_t)n_cut,
                              .n_floats = (size_t)(n_cut * n_splits * n_floats < n_floats_max
                                                       ? n_cut * n_splits * n_floats
                                                       : n_floats_max)};
}

enum osp_status attn_plan(struct attn_run *run)
{
    struct cpu *cpu = run->cpu;
    struct attn_task *tasks;
    int64_t n_floats = 0;
    enum osp_status st;

    TRY(plan_rooms(run, &tasks));
    run->tasks = tasks;
    for (int i = 0; i < cpu->n_blocks; i++)
        if (is_cut(run, i, n_floats))
            n_floats += cut_block(run, tasks, i, n_floats);
        else
            keep_block(run, tasks, i);
    TRY(room_need(&cpu->attn_parts, (size_t)n_floats, sizeof(float), "attention sums of splits"));
    TRY(room_need(&cpu->attn_left, (size_t)run->n_cut, (size_t)run->n_kv_heads * sizeof(atomic_int),
                  "attention splits"));
    run->parts = cpu->attn_parts.data;
    run->n_left = cpu->attn_left.data;
    for (int i = 0; i < run->n_tasks; i++)
        for (int head = 0; tasks[i].cut >= 0 && head < run->n_kv_heads; head++)
            atomic_init(&run->n_left[tasks[i].cut * run->n_kv_heads + head],
                        splits_of(run, tasks[i].block));
out:
    return st;
}
