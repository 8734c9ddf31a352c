/* Internals of the CPU backend: the device, its workspaces and its stages. Each stage is in the
 * file of its name, runs its loops on the device's thread pool and reports the work that it did. */
#ifndef CPU_COMMON_CPU_H
#define CPU_COMMON_CPU_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "base/pool.h"
#include "cpu/kernels/kernels.h"

/* Memory that grows and is kept: the need of a stage depends on the batch. */
struct workspace {
    void *data;
    size_t size_bytes;
};

/* Where a thread's share of the tiles goes on; a cache line of its own. */
struct share {
    _Alignas(64) atomic_int next;
};

/* A few adjacent rows of one sequence: what one attention task works on. */
struct row_block {
    int32_t seq, first_row, n_rows;
};

struct cpu {
    struct pool *pool;
    const struct kernels *kernels;
    bool has_prefetch; /* see kernels_want_prefetch() */
    struct backend_options limits;
    const struct batch *batch; /* of the step in progress; borrowed */
    /* Rows of the stage at hand and their phases: the batch's, or, in the last layer, those that
     * samples name, which are then the first n_rows of every activation. */
    int n_rows;
    const int32_t *phases;
    bool is_tail;
    int32_t *tail_phases;     /* room for (n_rows_max) */
    uint64_t ticket;          /* of the last step that ended */
    struct row_block *blocks; /* of the batch, (n_blocks) */
    int n_blocks;
    struct workspace *workers;     /* one a thread */
    struct workspace cos_sin;      /* (T, D) f32: of the batch's positions, filled for cos_sin_of */
    const struct rope *cos_sin_of; /* NULL at the begin of a step */
    struct workspace scratch;      /* which token goes to which expert */
    struct workspace jobs;         /* matrix products of one stage */
    struct workspace counts;       /* how many tiles each of them has */
    struct workspace act_int8;     /* the rows that they multiply with, as int8 */
    struct workspace interleaved,
        interleaved_first;                /* and those by tiles; see int8_interleaved.h */
    struct workspace attn_tasks;          /* of attention */
    struct workspace attn_partials;       /* sums of blocks whose splits are tasks of their own */
    struct workspace attn_remaining;      /* how many splits of each are not done */
    struct workspace bf16_rows, permuted; /* or as bf16; see bf16_rows.h */
    struct share *shares;                 /* one a thread */
    struct packed *packed;                /* see pack.h */
    struct stage_cost costs[N_STAGES];
};

/* The bytes and flops of a stage, for its share of the roofline. */
struct work {
    double bytes, flops;
};

/* Grows *workspace to n * size_bytes bytes if it is smaller; growing loses the contents. */
CHECKED enum osp_status workspace_reserve(struct workspace *workspace, size_t n, size_t size_bytes,
                                          const char *what);
/* The same for the workspace of every thread. */
CHECKED enum osp_status cpu_reserve_workers(struct cpu *cpu, size_t n, size_t size_bytes,
                                            const char *what);

/* Tiles of several jobs, spread over the pool. Thread i's share of a job is the same run of tiles
 * whenever the job has as many, so that weights can lie near the thread that reads them. */
struct tiles {
    const int32_t *n; /* (n_jobs): tiles of each */
    int n_jobs;
    int at_once; /* a thread takes a multiple of these at a time; 0 = 1 */
};
typedef void tiles_fn(void *ctx, int job, int first, int end, int worker);
void cpu_run_tiles(struct cpu *cpu, const struct tiles *tiles, tiles_fn *fn, void *ctx);
/* The share, of a job of n_tiles, that holds this one: tiles [*first, *end). */
void cpu_share_of(const struct cpu *cpu, int n_tiles, int tile, int *first, int *end);
/* The same for memory that is written here for the first time, n_jobs matrices of n_tiles each:
 * on several memory nodes every thread does its own share and no other, so that it lies on its
 * node. */
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

/* Rows of an attention task: enough to use a page of keys several times while it is in the cache,
 * few enough that a short prompt still gives every thread a task. */
enum { BLOCK_ROWS = 8 };

/* The CPU's table of device options, and a log line for each kernel name of vLLM that is set. */
extern const struct device_option_row cpu_option_rows[];
void cpu_options_log(const struct device_options *o);

#endif
