/* Internals of the CPU backend: the device, its workspaces and its stages. Each stage is in the
 * file of its name, runs its loops on the device's thread pool and adds its bytes and flops to
 * struct work. */
#ifndef CPU_COMMON_CPU_H
#define CPU_COMMON_CPU_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "base/pool.h"
#include "cpu/kernels/kernels.h"

/* Memory that only grows and is reused by every step: what a stage needs depends on the batch. */
struct workspace {
    void *data;
    size_t size_bytes;
};

/* The next piece of a thread's share of tiles. Aligned to a cache line of its own, so that threads
 * do not share one (false sharing). */
struct share {
    _Alignas(64) atomic_int next;
};

/* Up to BLOCK_ROWS adjacent rows of one sequence: the unit of an attention task. */
struct row_block {
    int32_t seq, first_row, n_rows;
};

struct cpu {
    struct pool *pool;
    const struct kernels *kernels;
    bool has_prefetch; /* see kernels_want_prefetch() */
    struct backend_options limits;
    const struct batch *batch; /* of the step in progress; borrowed */
    /* The rows of the current stage and their phases. Those of the batch; in the last layer
     * (is_tail) only the rows that samples name, gathered to the first n_rows rows of every
     * activation. */
    int n_rows;
    const int32_t *phases;
    enum exchange_kind exchange_kind; /* of the current stage */
    bool is_tail;
    int32_t *tail_phases;     /* (n_rows_max) */
    uint64_t ticket;          /* of the last step that was completed */
    struct row_block *blocks; /* (n_blocks): row blocks of the batch */
    int n_blocks;
    struct workspace *workers;     /* (n_threads) */
    struct workspace cos_sin;      /* (T, D) f32: rotations of the batch, for cos_sin_of */
    const struct rope *cos_sin_of; /* NULL at the start of a step */
    struct workspace scratch; /* experts: the token lists of each expert; sample: partial results */
    struct workspace jobs;    /* the matmuls of one stage */
    struct workspace counts;  /* (n_jobs): tiles of each matmul */
    struct workspace sums;    /* (n_threads, SUMS_FLOATS): sums of one call of a kernel */
    struct workspace expert_sums; /* (T*A, C) i64: fixed-point sums before the MoE combine */
    struct workspace rank_sums;   /* (T, C) i64: of this rank, and then of all; see rank_sums.h */
    struct workspace act_int8;    /* activations as int8 rows, for packed MXFP4 */
    struct workspace interleaved,
        interleaved_first;          /* and interleaved by tiles; see int8_interleaved.h */
    struct workspace attn_tasks;    /* tasks of attention */
    struct workspace attn_partials; /* split-KV partials: sums of blocks that are cut into splits */
    struct workspace attn_remaining;      /* splits of each cut block that are not done */
    struct workspace bf16_rows, permuted; /* bf16 activations; see bf16_rows.h */
    struct share *shares;                 /* (n_threads) */
    struct packed *packed;                /* see pack.h */
    struct stage_cost costs[N_STAGES];
};

/* Bytes read and flops of a stage, for its place in the roofline model. */
struct work {
    double bytes, flops;
};

/* Grows *workspace to n * size_bytes bytes if it is smaller; growing loses the contents. */
CHECKED enum osp_status workspace_reserve(struct workspace *workspace, size_t n, size_t size_bytes,
                                          const char *what);
/* The same for the workspace of every thread. */
CHECKED enum osp_status cpu_reserve_workers(struct cpu *cpu, size_t n, size_t size_bytes,
                                            const char *what);

/* Tiles of several jobs, distributed over the thread pool. Jobs with equal numbers of tiles have
 * equal shares: thread i always gets the same range of tiles. So a thread's weights can be placed
 * in the memory of its NUMA node. */
struct tiles {
    const int32_t *n; /* (n_jobs): tiles of each job */
    int n_jobs;
    int at_once; /* tiles are taken in multiples of this number; 0 = 1 */
};
typedef void tiles_fn(void *ctx, int job, int first, int end, int worker);
void cpu_run_tiles(struct cpu *cpu, const struct tiles *tiles, tiles_fn *fn, void *ctx);
/* The share of a job of n_tiles tiles that has this tile: tiles [*first, *end). */
void cpu_share_of(const struct cpu *cpu, int n_tiles, int tile, int *first, int *end);
/* As cpu_run_tiles(), for memory that is written for the first time, n_jobs matrices of n_tiles
 * each. With several NUMA nodes every thread runs only its own share, so that first touch places
 * those pages on its node. */
CHECKED enum osp_status cpu_run_owned_tiles(struct cpu *cpu, int n_jobs, int32_t n_tiles,
                                            tiles_fn *fn, void *ctx);

/* Widens n elements from element `first` of a weight to f32. */
void cpu_widen(const struct kernels *k, float *out, const struct tensor *w, int64_t first,
               int64_t n);

#define STAGE_FUNCTION(stage)                                                                      \
    CHECKED enum osp_status cpu_##stage(struct cpu *cpu, const struct stage##_args *a,             \
                                        struct work *work);
STAGE_LIST(STAGE_FUNCTION)
#undef STAGE_FUNCTION

/* Rows of an attention task: enough to use a page of keys several times while it is in the L1
 * cache, few enough that a short prompt still has a task for every thread. */
enum { BLOCK_ROWS = 8 };

/* The CPU's table of device options, and a log line for each kernel name of vLLM that is set. */
extern const struct device_option_row cpu_option_rows[];
void cpu_options_log(const struct device_options *o);

#endif
