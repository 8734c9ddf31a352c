/* A model of gpt-oss's shape whose tensors have addresses and no memory: fuse() makes its launch
 * lists on a host without a GPU. The addresses are 16 GiB apart, so that an address in a kernel's
 * parameters names its tensor. */
#ifndef TESTS_CUDA_HOST_SYMBOLIC_H
#define TESTS_CUDA_HOST_SYMBOLIC_H

#include "cuda/program/fuse.h"
#include "model/model.h"

enum {
    SYMBOLIC_LAYERS_MAX = 4,
    SYMBOLIC_ROWS_MAX = 3200, /* of the largest step */
    SYMBOLIC_SAMPLES_MAX = 1120
};

struct symbolic_spec {
    bool is_20b;           /* 32 experts; else 128, as gpt-oss-120b has */
    bool is_nano;          /* narrow: 8 experts, rows of 256 numbers, 8 heads of 32 */
    bool has_draft;        /* with a draft head, which has the dense type too */
    bool has_float_router; /* float32 weights in rows: no tensor-core kernel takes them */
    enum dtype dense;      /* of attention and of the head: DTYPE_BF16 or DTYPE_MXFP4 */
    enum dtype kv;
    int n_layers;      /* the even ones have a window */
    int n_ranks, rank; /* n_ranks 0: one */
    bool is_gathered;  /* by NCCL */
};

struct symbolic {
    struct model model;
    struct layer layers[SYMBOLIC_LAYERS_MAX];
    struct program program; /* forward_program()'s */
    struct workspaces workspaces;
    uint64_t *n_experts_read;
    const float *expert_grids;
    struct rank_peers peers;
    struct rank_gather gather;
    bool is_gathered;
    uintptr_t next; /* address of the next tensor */
};

/* The caller frees it with symbolic_free(). */
struct symbolic *symbolic_new(const struct symbolic_spec *spec);
void symbolic_free(struct symbolic *s);

/* Whose address this is. */
enum address_of { ADDRESS_OTHER, ADDRESS_TENSOR, ADDRESS_WORKSPACE };
/* *index: id of the tensor in p, or the workspace. */
enum address_of symbolic_find(const struct symbolic *s, const struct program *p, uint64_t address,
                              int *index);

/* ---- steps ---- */

enum samples {
    SAMPLES_EACH, /* every decode row, and the last prefill row */
    SAMPLES_DECODE,
    SAMPLES_FALLING, /* those of EACH, the last row first: the tail cannot be used */
    SAMPLES_LAST,    /* the last row */
    SAMPLES_NO
};

struct step_spec {
    int n_decode, n_prefill; /* rows; the prefill rows are one sequence */
    int n_each;              /* decode rows of a sequence; 0: one */
    int n_context;           /* positions before each decode row */
    int n_context_first;     /* of the first row, unless 0 */
    enum samples samples;
    bool has_special; /* the first sample wants the likeliest tokens */
    bool has_trees, has_candidates;
};

/* The caller frees it with free(). */
struct batch *symbolic_batch(const struct step_spec *spec);

#endif
