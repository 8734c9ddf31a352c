/* Internals of stage attn: the division into tasks and splits, and the heads of one row against one
 * page. */
#ifndef CPU_STAGES_ATTN_H
#define CPU_STAGES_ATTN_H

#include <stdatomic.h>

#include "cpu/common/cpu.h"
#include "cpu/stages/kv.h"

/* A split is a run of pages at absolute positions. Sums start again in each split and are merged in
 * order, so its length is part of the arithmetic. It is long enough that merging costs nothing, and
 * short enough that one sequence of 4,096 positions has work for 64 threads. */
enum { SPLIT_PAGES = 8, SPLIT_TOKENS = SPLIT_PAGES * PAGE_TOKENS };

/* The keys that a row sees: positions [first, end). */
struct span {
    int first, end;
};

/* Running sums of a block's rows for the query heads of one key/value head: row r and head g are at
 * r * n_group + g. */
struct sums {
    struct softmax *states;
    float *acc; /* W floats each */
};

/* Splits [first, end) of a block of rows, for each key/value head. One task computes a whole block.
 * Of a block that is cut, each split is a task that stores its sums in attn_run.partials, and the
 * last one to finish merges them. */
struct attn_task {
    int32_t block, first_split, end_split;
    int32_t split_kv; /* number among the cut blocks; -1: whole */
    int64_t offset;   /* of the first sums of a cut block in partials, in floats */
};

struct attn_run {
    struct cpu *cpu;
    const struct attn_args *a;
    int n_kv_heads, n_group; /* n_group query heads share a key/value head */
    int head_dim, width;     /* D, and W of kv_page.h */
    const struct attn_task *tasks;
    int n_tasks, n_split_kv;
    float *partials;
    atomic_int *n_remaining; /* (n_split_kv, n_kv_heads): splits that are not done */
};

/* Workspace of a thread: sums of the rows and of one split, a page as f32, and, if the ISA reads
 * I16 pages in place, the rows' queries as codes. */
struct attn_workspace {
    struct sums total, split;
    float *page[2];      /* keys and values, P * W each */
    char *tree_page[2];  /* keys and values of a row of a tree, with the dtype of the cache */
    struct attend *call; /* arguments for the current page */
    float *q_scales;     /* (rows, n_group) */
    int16_t *codes;      /* (rows, n_group, W) */
};

struct span attn_span(const struct attn_args *a, int position);
/* The keys that some row of a block sees. */
struct span attn_block_span(const struct attn_run *run, const struct row_block *block);
int attn_row_heads(const struct attn_run *run, const struct row_block *block);
/* Floats of a block's sums for one key/value head. */
int64_t attn_sums_floats(const struct attn_run *run, int n_row_heads);

/* Floats of a thread's workspace. */
int64_t attn_workspace_floats(const struct attn_run *run);

/* The most tasks, cut blocks and floats of partial sums that attn_plan() can need, for n_rows rows
 * in all whose sequences have at most n_seq_pages pages. Only the widths of `run` are read. */
struct attn_max {
    size_t n_tasks, n_split_kv, n_floats;
};
struct attn_max attn_max_of(const struct attn_run *run, int n_rows, int n_seq_pages, int n_threads);

/* Lists the run's tasks in the device's workspace, and reserves partial sums for the blocks that
 * are cut. */
CHECKED enum osp_status attn_plan(struct attn_run *run);

/* Whether queries are quantized, because the ISA multiplies I16 pages in place. */
static inline bool attn_has_codes(const struct attn_run *run)
{
    return run->a->kv.dtype == DTYPE_I16 && run->cpu->kernels->attend_i16 != NULL;
}

/* The part of a span within [first, first + n); empty if first >= end. */
static inline struct span span_within(struct span s, int first, int n)
{
    const int end = first + n;

    return (struct span){s.first > first ? s.first : first, s.end < end ? s.end : end};
}

/* A page of one key/value head of a sequence. */
struct attn_page_ref {
    int seq, kv_head, page;
};

/* The arguments that all calls of the kernel share. */
struct attend attn_call(const struct attn_run *run);

/* Quantizes the queries of a block's rows to codes, in the workspace. */
void attn_codes(const struct attn_run *run, const struct row_block *block, int kv_head,
                const struct attn_workspace *workspace);

/* Adds the keys and values of a page to the sums of a block's rows, and prefetches page `next`
 * (NULL: no prefetch). */
void attn_page(const struct attn_run *run, const struct row_block *block,
               const struct attn_page_ref *at, const struct attn_page_ref *next,
               const struct attn_workspace *workspace, const struct sums *sums);

#endif
