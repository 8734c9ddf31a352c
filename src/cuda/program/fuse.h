/* From a program to its kernels: fuse() is a pure function from the stages of a program, the counts
 * of a batch, the tuning table and the description of the GPU to a launch list. It touches no
 * device.
 *
 * Only fuse() decides which stages share a kernel, and which kernel computes which rows. Docs:
 * docs/cuda.md; printed lists: tests/golden/launches. */
#ifndef CUDA_PROGRAM_FUSE_H
#define CUDA_PROGRAM_FUSE_H

#include "backend/program.h"
#include "cuda/common/rank_share.h"
#include "cuda/launch/launch_list.h"
#include "cuda/device/kernel_config.h"
#include "cuda/program/workspace.h"

/* The counts that the launches of a step depend on. Steps with equal counts have the same launch
 * list and the same CUDA graph.
 *
 * Steps with more than a few decode rows, and no others, are padded: their counts are those of the
 * next padded batch size (step_counts_pad()), the arrays of their batch are laid out for these
 * counts, and the kernels read the number of rows from the batch (common/live_rows.cuh). */
struct step_counts {
    int n_rows, n_seqs, n_samples;
    int n_decode; /* decode rows, which come before the prefill rows */
    /* attention units of the row at the highest position, rounded up by attn_units_bucket() */
    int n_units;
    /* Long decode rows (attn_is_long()), rounded up to a power of two; 0 if there are none, or too
     * many, or too few others, for launches of their own. */
    int n_long;
    int has_special;   /* a sample needs more than argmax or temperature sampling over all tokens */
    int n_tail;        /* rows that are sampled; 0 .. n_rows */
    int n_tail_decode; /* decode rows among them */
    /* the samples have different rows in ascending order: the last layer can compute these only */
    int has_tail;
    int has_trees;      /* rows may have tree masks (attention/attn_tree.h) */
    int has_candidates; /* samples give several ids (sample_args.candidates) */
    int is_padded; /* the counts are upper bounds; the batch has n rows, n sequences, n samples */
};
/* The counts of the batch itself. OSP_EINTERNAL: a decode row follows a prefill row. */
CHECKED enum osp_status step_counts_of(struct step_counts *out, const struct batch *b);
/* Pads a step of DECODE_FUSED_MAX + 1 to DECODE_ROWS_MAX decode rows, each of which is a sequence
 * and is sampled: to 6, or a multiple of 8 rows up to 64, of 16 up to 256, then of 64, but at most
 * n_most >= n_rows.
 * (Six rows: the LM head's kernel has two blocks per SM with them, and one with eight.)
 * Other steps are unchanged. */
void step_counts_pad(struct step_counts *n, int n_most);
/* Copies *b to `memory` with its arrays laid out for the counts, of which it has
 * step_batch_bytes(); the header has the numbers of *b. Padding is zero: no sample, and rows of
 * PHASE_PREFILL, which the attention kernels of decode rows skip. Returns the copy. */
struct batch *step_batch_copy(void *memory, const struct batch *b, const struct step_counts *n);
int64_t step_batch_bytes(const struct batch *b, const struct step_counts *n);

struct fuse_input {
    const struct program *program;
    struct step_counts counts;
    const struct gpu_desc *gpu;
    enum arch arch;                     /* rows of the tuning table */
    const struct kernel_config *config; /* kernels that the options select */
    int n_rows_max, n_samples_max;      /* of the largest step: workspaces are laid out for it */
    const struct workspaces *workspaces;
    const struct batch *batch;        /* laid out for the counts; only the header is read */
    const struct rank_peers *peers;   /* n_ranks 1, or NULL: there is one rank */
    int64_t signals_at;               /* in the windows of peers */
    const struct rank_gather *gather; /* likewise; NULL: ranks do not share out rows */
    bool is_gathered; /* NCCL gathers the numbers of ranks (common/rank_gathered.h): no pushes */
    uint64_t *n_experts_read; /* device memory: experts whose weights were read, accumulated */
    /* device memory of expert_grids_floats(program, n_ops); NULL if that is 0 */
    const float *expert_grids;
};

/* Floats of the grids (common/expert_sums.h) of the experts before op n of the program: where the
 * grid of op n begins. Experts that the decode kernels do not support have none. */
int64_t expert_grids_floats(const struct program *p, int n);
/* Whether the decode kernels support such experts on a GPU with enough shared memory: their sums
 * have a grid. */
bool has_expert_grid(const struct experts_args *a);

/* Appends the launches of the whole program to *list, which is empty. OSP_EINTERNAL: a stage that
 * no kernel supports; OSP_ENOMEM. */
CHECKED enum osp_status fuse(struct launch_list *list, const struct fuse_input *in);

#endif
