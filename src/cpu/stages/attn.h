/* Inside of stage attn: how its work is cut, and one row's heads against one page. */
#ifndef CPU_STAGES_ATTN_H
#define CPU_STAGES_ATTN_H

#include <stdatomic.h>

#include "cpu/common/cpu.h"
#include "cpu/stages/kv.h"

/* A split is a run of pages at absolute positions: sums begin anew in each, and are merged in
 * order. Its length is part of the arithmetic. Long enough that merging costs nothing, short
 * enough that one sequence of 4,096 positions has work for 64 threads. */
enum { SPLIT_PAGES = 8, SPLIT_TOKENS = SPLIT_PAGES * PAGE_TOKENS };

/* What a row sees: [first, end). */
struct span {
    int first, end;
};

/* Running sums of a block's rows for the heads of one group: row r and head g at r * n_group +
 * g. */
struct sums {
    struct softmax *states;
    float *acc; /* W floats each */
};

/* Splits [first, end) of a block of rows, for each key/value head. A whole block is finished by
 * its task; of a block that is cut, each split is a task that leaves its sums in attn_run.parts,
 * and the last to end merges them. */
struct attn_task {
    int32_t block, first_split, end_split;
    int32_t split_kv; /* which of the cut blocks, -1: whole */
    int64_t offset;   /* of a cut block's first sums in parts, in floats */
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

/* Room of a thread: sums of the rows, of one split of them, a page of f32, and the rows' queries as
 * codes where the ISA takes pages of I16 as they lie. */
struct attn_workspace {
    struct sums total, split;
    float *page[2];      /* keys and values, P * W each */
    struct attend *call; /* of the page at hand */
    float *q_scales;     /* (rows, n_group) */
    int16_t *codes;      /* (rows, n_group, W) */
};

struct span attn_span(const struct attn_args *a, int position);
/* The keys that some row of a block sees. */
struct span attn_block_span(const struct attn_run *run, const struct row_block *block);
int attn_row_heads(const struct attn_run *run, const struct row_block *block);
/* Of a block's sums for one key/value head. */
int64_t attn_sums_floats(const struct attn_run *run, int n_row_heads);

/* Floats of a thread's workspace. */
int64_t attn_workspace_floats(const struct attn_run *run);

/* The most that attn_plan() lists and leaves in parts, of blocks of n_rows rows in all whose
 * sequences have at most n_seq_pages pages; of the run its widths are read. */
struct attn_max {
    size_t n_tasks, n_split_kv, n_floats;
};
struct attn_max attn_max_of(const struct attn_run *run, int n_rows, int n_seq_pages, int n_threads);

/* Lists the run's tasks in the device's workspace, and makes room for the sums of blocks that are
 * cut. */
CHECKED enum osp_status attn_plan(struct attn_run *run);

/* Whether pages meet codes. */
static inline bool attn_has_codes(const struct attn_run *run)
{
    return run->a->kv.dtype == DTYPE_I16 && run->cpu->kernels->attend_i16 != NULL;
}

/* What of a span lies within [first, first + n); empty: first >= end. */
static inline struct span span_within(struct span s, int first, int n)
{
    const int end = first + n;

    return (struct span){s.first > first ? s.first : first, s.end < end ? s.end : end};
}

/* A page of one key/value head of a sequence. */
struct attn_page_ref {
    int seq, kv_head, page;
};

/* What all calls of the kernel share. */
struct attend attn_call(const struct attn_run *run);

/* The queries of a block's rows as codes, into the workspace. */
void attn_codes(const struct attn_run *run, const struct row_block *block, int kv_head,
                const struct attn_workspace *workspace);

/* Adds the keys of a page to the sums of a block's rows, and fetches page `next` meanwhile;
 * NULL: none. */
void attn_page(const struct attn_run *run, const struct row_block *block,
               const struct attn_page_ref *at, const struct attn_page_ref *next,
               const struct attn_workspace *workspace, const struct sums *sums);

#endif
