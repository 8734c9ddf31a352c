/* From a program to the kernels that run it: fuse() is a pure function from the program's stages, the counts of a
 * batch, the tuning table and the GPU's description to a list of launches. It touches no device.
 *
 * Which stages share a kernel, and which kernel takes which rows, is decided here and nowhere else. Docs:
 * docs/cuda.md; printed lists: tests/golden/launches. */
#ifndef CUDA_PROGRAM_FUSE_H
#define CUDA_PROGRAM_FUSE_H

#include "backend/program.h"
#include "cuda/common/launch_list.h"
#include "cuda/device/kernel_config.h"
#include "cuda/program/workspace.h"

/* What a step's launches depend on. Steps with equal counts have the same list, and the same CUDA graph. */
struct step_counts {
    int n_rows, n_seqs, n_samples;
    int n_decode; /* decode rows, which come before the prefill rows */
    int n_units; /* of attention, of the row at the highest position, rounded up to a level (attn.h) */
    int has_special; /* a sample asks for more than temperature sampling or argmax over all tokens */
    int n_tail;      /* rows that samples name; 0 .. n_rows */
    int n_tail_decode; /* decode rows among them */
    int has_tail; /* each sample names another row, in rising order: the last layer can take these alone */
};
/* OSP_EINTERNAL: a decode row behind a prefill row. */
CHECKED enum osp_status step_counts_of(struct step_counts *out, const struct batch *b);

struct fuse_input {
    const struct program *program;
    struct step_counts counts;
    const struct gpu_desc *gpu;
    enum arch arch;                     /* rows of the tuning table */
    const struct kernel_config *config; /* kernels that options ask for */
    bool has_mxfp8;                     /* prefill rows meet MXFP4 weights as MXFP8 */
    int n_rows_max, n_samples_max;      /* of the largest step: workspaces are laid out for it */
    const struct workspaces *workspaces;
    const struct batch *batch; /* offsets of its arrays; only the header is read */
    uint64_t *n_experts_read;  /* device memory: experts whose weights were read, added up */
};

/* Appends the launches of the whole program to *list, which is empty. OSP_EINTERNAL: a stage that no kernel takes;
 * OSP_ENOMEM. */
CHECKED enum osp_status fuse(struct launch_list *list, const struct fuse_input *in);

#endif
