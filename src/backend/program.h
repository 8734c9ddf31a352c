/* A program: the stages of a forward pass as data. The model emits it once (model/forward.c); a
 * backend compiles it, and runs the compiled program for every batch. A stage's arguments name
 * their tensors by ids of the program, so that a device can see which stage reads what another one
 * wrote, and so that a program can be checked without a device. */
#ifndef BACKEND_PROGRAM_H
#define BACKEND_PROGRAM_H

#include <stdbool.h>

#include "backend/args.h"
#include "base/status.h"

enum stage {
#define STAGE_ENUM(stage) STAGE_##stage,
    STAGE_LIST(STAGE_ENUM)
#undef STAGE_ENUM
        N_STAGES
};
extern const char *const stage_names[N_STAGES]; /* "attn_qkv" */

union stage_args {
#define STAGE_MEMBER(stage) struct stage##_args stage;
    STAGE_LIST(STAGE_MEMBER)
#undef STAGE_MEMBER
};

/* How a stage uses a tensor. */
enum access {
    ACCESS_WEIGHT,    /* read; no step writes it */
    ACCESS_READ,      /* read; an earlier stage of the program wrote it */
    ACCESS_WRITE,     /* written; its previous contents are not used */
    ACCESS_UPDATE,    /* read and written: the residual stream */
    ACCESS_APPEND,    /* written in the places of this step's rows only: the KV cache */
    ACCESS_CACHE,     /* read, with what earlier steps appended: the KV cache */
    ACCESS_WORKSPACE, /* its contents are undefined before and after the stage */
    N_ACCESSES
};

/* A tensor of a stage's argument struct. */
struct stage_field {
    const char *name; /* "wqkv[0]" */
    size_t offset;    /* of the struct tensor in the argument struct, in bytes */
    enum access access;
};
enum { STAGE_FIELDS_MAX = 12 };
/* The tensors of a stage's argument struct, (*n), in the order of args.h; static memory. */
const struct stage_field *stage_fields(enum stage stage, int *n);

/* The rows of a stage's outputs that a later stage or the caller reads. */
enum rows_needed {
    ROWS_ALL,
    ROWS_SAMPLED /* those that the samples of the batch name */
};

/* What follows a stage where the model is divided among ranks (exchange.h). */
enum exchange_kind {
    EXCHANGE_NONE,
    EXCHANGE_SUM,    /* its outputs are partial sums over ranks */
    EXCHANGE_GATHER, /* its outputs are columns of a row, of which every rank has a part */
    EXCHANGE_FIRST   /* its outputs are those of rank 0, which the other ranks get */
};

enum { NO_LAYER = -1 };

struct program_op {
    enum stage stage;
    int layer;                   /* from 0; NO_LAYER before and after the layers */
    enum rows_needed rows;       /* set by program_end() */
    enum exchange_kind exchange; /* likewise; EXCHANGE_NONE with one rank */
    union stage_args args;       /* tensors have ids and no addresses; see program_args() */
};

struct program_tensor {
    struct tensor tensor; /* with its address on the device */
    const char *name;     /* of the field that named it first: "x", "wqkv[0]" */
    enum access first;    /* how the first stage that names it uses it */
    bool is_tapped;       /* the caller reads it after the program has run */
};

/* Owns both arrays. The tensors' data, and structs that arguments point to (rope), are borrowed. */
struct program {
    struct program_op *ops;         /* (n_ops), in the order in which they run */
    struct program_tensor *tensors; /* (n_tensors): the tensor with id i is tensors[i - 1] */
    int n_ops, n_tensors;
    int ops_capacity, tensors_capacity;
    int n_ranks; /* that run it together; 0 and 1: one. Set before program_end() */
};

/* Appends a stage to a program, which starts as {0}. Two tensors are the same if address, dtype,
 * layout and shape are equal; a tensor without an address gets id 0. OSP_ENOMEM: the program is
 * unchanged but for tensors, and program_free() still applies. */
CHECKED enum osp_status program_add(struct program *p, enum stage stage, int layer,
                                    const union stage_args *args);
/* The same with the stage's argument struct: PROGRAM_ADD(&p, attn, i, l->attn). */
#define PROGRAM_ADD(p, stage, layer, args)                                                         \
    program_add((p), STAGE_##stage, (layer), &(const union stage_args){.stage = (args)})
/* Declares that the caller reads this tensor after the program has run. Ignores a tensor that no
 * stage names. */
void program_tap(struct program *p, const struct tensor *t);
/* Declares that the caller reads every tensor that a stage of the program writes or appends to. */
void program_tap_outputs(struct program *p);
/* Call after the last program_add() and program_tap(): sets every op's `rows`. */
void program_end(struct program *p);
/* Makes `out`, which must be {0}, the program of ops [first, first + n) of p, and ends it. Every
 * tensor that these ops write is tapped. It does not borrow from p. OSP_ENOMEM. */
CHECKED enum osp_status program_range(struct program *out, const struct program *p, int first,
                                      int n);
void program_free(struct program *p); /* accepts a zeroed one, and zeroes */

/* The arguments of op i with the tensors' addresses; the ids stay. */
void program_args(const struct program *p, int i, union stage_args *out);
/* The same of all ops, (n_ops); the caller frees *out. OSP_ENOMEM. */
CHECKED enum osp_status program_all_args(const struct program *p, union stage_args **out);
/* How op i uses the tensor with this id, from 1; N_ACCESSES: not at all. */
enum access program_access(const struct program *p, int i, int id);
/* Whether a later op, or the caller, reads what op i leaves in the tensor with this id. Later
 * steps are not considered: the KV cache outlives the program. */
bool program_reads_after(const struct program *p, int i, int id);

#endif
