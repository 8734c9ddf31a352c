/* Inside of the CUDA backend: the device, its stream and its rooms. One stream does everything,
 * in order; the host waits for it in step_wait and where it reads. */
#ifndef CUDA_DEVICE_GPU_H
#define CUDA_DEVICE_GPU_H

#include <stdbool.h>

#include "backend/backend.h"
#include "cuda/device/kernel_config.h"
#include "cuda/common/launch.h"
#include "cuda/device/tuning.h"

/* Memory of the device that grows and is kept: stages know their needs only when they run. */
struct gpu_workspace {
    void *data;
    size_t size_bytes;
};

/* X(room); what the largest step needs of it says bytes_of_<room>() in rooms.c. */
#define WORKSPACE_LIST(X)                                                                          \
    X(batch_buffer)                                                                                \
    X(cos_sin)                                                                                     \
    X(lists)   /* of generated rows, or MXFP8: an expert's entries */                              \
    X(operand) /* of prompts: prefill.c, prefill_mxfp8.c */                                        \
    X(units)                                                                                       \
    X(tiles)                                                                                       \
    X(mxfp8)      /* rows of prompts, by a norm */                                                 \
    X(partials)   /* of the plain attention */                                                     \
    X(merge_bufs) /* of attention: where splits of a row meet */                                   \
    X(chunks)                                                                                      \
    X(tops)    /* of chunks: their likeliest tokens */                                             \
    X(bins)    /* of rows that are drawn with top_k or top_p */                                    \
    X(rounded) /* generated rows as their products take them: decode_gemm.c */                     \
    X(jobs)    /* of the experts of few rows */                                                    \
    X(router)  /* of few rows: what the output product leaves to the choice (decode_fused.c) */    \
    X(factors) /* of the norms of a join's rows (fused_router.c) */                                \
    X(raw)     /* weights to be packed */

/* What a stage touches, for the share of the roofline. */
struct work {
    double bytes, flops;
};

/* A stage of the step in progress: it ends where the next one begins. */
struct stage_event {
    cudaEvent_t begin;
    enum stage stage;
};

/* Of a step whose stages are timed, and one behind. A graph has its own, as each turn has for
 * steps without one: a step may begin before the times of the one before are taken. */
struct stage_events {
    struct stage_event *list; /* (n) */
    size_t n, room;           /* room: that have an event */
};

/* What pack() made, kept until the device closes. */
struct packed {
    struct packed *next;
    void *data;
};

/* What decides which kernels a step launches, with which sizes: the batch's arrays lie at places
 * that follow from the counts. */
struct graph_key {
    uint64_t program; /* its serial number */
    int n_rows, n_seqs, n_samples;
    int n_prefill;   /* rows of a prompt: kinds have kernels of their own */
    int n_units;     /* of attention, of the row at the highest position: a level of attn.h */
    int has_special; /* a sample that asks for more than a plain draw */
};

/* A program, compiled: its arguments with addresses. */
struct compiled {
    const struct program *program; /* borrowed */
    union stage_args *args;        /* (program->n_ops) */
    struct sample_args sample;     /* of its stage sample; data NULL: it has none */
    uint64_t serial;               /* from 1; names its graphs, and is not used again */
};

/* Whether the stages of a step with a graph are timed. */
enum timing { UNTIMED, TIMED, N_TIMINGS };

/* A step that was recorded, to be launched as one. */
struct graph {
    struct graph_key key;
    uint64_t n_steps, last_step;      /* steps with this key, and when the last one was */
    cudaGraphExec_t exec[N_TIMINGS];  /* NULL: not recorded yet */
    cudaGraph_t recorded;             /* what the first of them was made of */
    unsigned expected;                /* kernels of the table in it, as bits */
    struct stage_events stage_events; /* of the timed one */
    struct stage_cost step[N_STAGES]; /* of one step; times as of the last one that was timed */
    double step_ns; /* of a whole step without the stages' events; 0: not yet known */
};

enum { GRAPHS_MAX = 64 }; /* a few sizes of decode batches, each for a few lengths of context */

/* What a stage of a decode step left to the next one (decode_fused.c). */
enum pending_kind {
    PENDING_NONE,
    PENDING_OUT,      /* attn_out: its product */
    PENDING_RESIDUAL, /* attn_out and the join behind it: all of both */
    PENDING_RMSNORM,  /* join behind attn_out: all of it */
    PENDING_NORM,     /* join: y; x is there */
    PENDING_TOPK,     /* route: ids and gates; scores are there */
    PENDING_LOGITS,   /* route: ids and gates, and the join's y; the router's sums are there */
    PENDING_EXPERTS,  /* route: nothing, but the experts know that they come next */
    PENDING_DOWN,     /* experts: the second product, and ids and gates of route */
    PENDING_COMBINE   /* experts: the sum of a token's parts */
};
struct pending {
    enum pending_kind what;
    const void *out; /* h, where attn_out left it and no join came since; NULL: nowhere */
    struct attn_out_args attn_out;
    struct residual_rmsnorm_args join;
    bool is_after_attn_out; /* it is the one behind attn_out */
    uint16_t *rounded;      /* where that join leaves y as FP16, too; NULL: nowhere */
    struct router_args route;
    struct experts_args experts;
    struct residual_rmsnorm_args normed; /* the join whose norm's factors are in their room, */
    bool has_factors;                    /* if the last one has them */
    bool has_sums,
        are_sums_cleared; /* of the router: the experts choose by them; they are ready for the next layer */
};

/* A step from its begin until it was waited for, and the host's memory for what goes to the
 * device and comes back: two of them take turns, so that one can be filled while the step of the
 * other one runs. */
struct step_slot {
    uint64_t ticket;
    bool is_running; /* its times were not taken */
    cudaEvent_t done;
    char *batch; /* random numbers and the batch; pinned, as are */
    size_t batch_bytes;
    struct step_results *results;
    struct stage_cost
        work[N_STAGES]; /* what the step does, but for its time: counted when it has ended */
    struct stage_events timed_events; /* of a step that is told */
    cudaEvent_t span[2];              /* around one whose stages are not timed */
    /* as of the step's end */
    struct graph *graph;                     /* NULL: it has none */
    const struct stage_events *stage_events; /* NULL: its stages are not timed */
    bool is_spanned;
};

enum { N_STEP_SLOTS = 2 };

enum mode { MODE_EAGER, MODE_RECORDING, MODE_REPLAYING };

struct gpu {
    struct backend_options limits;
    struct cudaDeviceProp properties;
    enum arch arch;
    struct kernel_config kernel_config; /* kernels that were asked for */
    cudaStream_t stream;
    const struct batch *batch;     /* of the step in progress; borrowed */
    const struct batch *on_device; /* the same, in the device's memory */
    const double *uniforms;        /* (R), on the device: the random numbers of its samples */
    struct step_slot step_slots[N_STEP_SLOTS];
    struct step_slot *step_slot; /* of the step that began last */
    struct step_slot *completed; /* of the step that was last waited for; NULL: none was */
    struct sample_args sampled;  /* of the step that began last; data NULL: it does not sample */
    bool has_top;                /* a sample of it asks for the likeliest tokens */
    struct loader *loader;       /* of large weights; NULL: none is on its way */
#define WORKSPACE_MEMBER(name) struct gpu_workspace name;
    WORKSPACE_LIST(WORKSPACE_MEMBER)
#undef WORKSPACE_MEMBER
    const float
        *rounded_of;       /* the rows that are in the room rounded as they were made; NULL: none */
    bool has_workspaces;   /* those of the largest step */
    const float *mxfp8_of; /* the rows that are in the room mxfp8; NULL: none yet */
    int n_decode;          /* rows of the step in progress, in front of those of prompts */
    const struct rope *cos_sin_of; /* NULL at the start of a step */
    struct packed *packed;
    uint64_t *n_experts_read; /* on the device: experts whose weights were read, of all calls; */
    uint64_t n_experts_read_then;      /* and what it was behind the last step */
    double expert_bytes;               /* of one expert's weights */
    bool is_spanned;                   /* the step in progress has a span around it, */
    struct stage_events *stage_events; /* or these between its stages; NULL: it has not */
    struct graph *graphs;              /* (GRAPHS_MAX), those without steps are free */
    unsigned expected;                 /* kernels of the table that the step in progress launches */
    struct graph *graph;               /* of the step in progress; NULL: it has none */
    enum mode mode;                    /* of the step in progress */
    struct pending pending;            /* between its stages */
    enum timing timing;
    uint64_t ticket; /* of the last step that ended */
    uint64_t serial; /* of the last program that was compiled */
    struct stage_cost costs[N_STAGES];
};

static inline struct gpu *gpu_of(struct backend *be)
{
    return (struct gpu *)be;
}

extern const struct backend_ops gpu_ops; /* device.c */

/* OSP_OK, or a failure that says what was done and what CUDA says. */
CHECKED enum osp_status gpu_check(cudaError_t error, const char *what);
/* rooms.c */
/* Makes *room at least that large; what it held is lost when it grows. */
CHECKED enum osp_status gpu_workspace_reserve(struct gpu *gpu, struct gpu_workspace *room,
                                              int64_t size_bytes, const char *what);

/* Of all steps of that shape, with what the driver takes; and takes it. */
int64_t gpu_step_bytes(const struct step_shape *shape);
CHECKED enum osp_status gpu_step_reserve(struct backend *be, const struct step_shape *shape);
void gpu_workspaces_release(struct gpu *gpu);

/* step.c */
/* Host memory for batches of so many bytes, with what is in front of them, in both turns. */
CHECKED enum osp_status gpu_slots_reserve(struct gpu *gpu, size_t size_bytes);
void gpu_slots_release(struct gpu *gpu);
CHECKED enum osp_status gpu_transfer_try(struct gpu *gpu);
/* *is_replayed: the step has a recorded graph, and no stage is to be called. */
CHECKED enum osp_status gpu_step_begin(struct gpu *gpu, const struct compiled *c,
                                       const struct batch *b, bool *is_replayed);
CHECKED enum osp_status gpu_step_end(struct gpu *gpu, uint64_t *ticket);
CHECKED enum osp_status gpu_step_wait(struct backend *be, uint64_t ticket);
bool gpu_step_has_ended(struct backend *be, uint64_t ticket);
CHECKED enum osp_status gpu_sampled(struct backend *be, struct sampled *out);

/* times.c */
/* Waits for the step, and takes its times: those of the last timed one where it was not timed. */
CHECKED enum osp_status gpu_step_finish(struct gpu *gpu, struct step_slot *t);
void gpu_stage_events_free(struct stage_events *m);
/* Notes that what follows belongs to this stage. */
CHECKED enum osp_status gpu_record_stage(struct gpu *gpu, enum stage stage);

/* decode_fused.c: stages of decode steps; those that do not take a stage did nothing, and
 * gpu_fused_flush() comes before whatever is launched instead. */
void gpu_fused_begin(struct gpu *gpu);
CHECKED enum osp_status gpu_fused_flush(struct gpu *gpu);
bool gpu_fused_attn_in(struct gpu *gpu, const struct attn_qkv_args *a, const float *cos_sin);
bool gpu_fused_attn_out(struct gpu *gpu, const struct attn_out_args *a);
CHECKED enum osp_status gpu_fused_rmsnorm(struct gpu *gpu, const struct residual_rmsnorm_args *a,
                                          bool *is_taken);
/* Whether the join, of which it is known where it leaves y as FP16, is left to the router's
 * kernel; is_of_out: it is the one behind attn_out. */
bool gpu_fused_defer_rmsnorm(struct gpu *gpu, const struct residual_rmsnorm_args *a,
                             uint16_t *rounded, bool is_of_out);
/* *n_rows: the first ones, whose scores are there or will be made from what waits; all of them:
 * and so with ids and gates. */
CHECKED enum osp_status gpu_fused_router(struct gpu *gpu, const struct router_args *a, int *n_rows);
/* Where this join, whose launch comes next, leaves its norm's factors; NULL: it does not. */
CHECKED enum osp_status gpu_fused_factors(struct gpu *gpu, const struct residual_rmsnorm_args *a,
                                          bool is_of_out, float **out);
CHECKED enum osp_status gpu_fused_experts(struct gpu *gpu, const struct experts_args *a,
                                          bool *is_taken);
bool gpu_fused_logits(struct gpu *gpu, const struct logits_args *a);
/* All of the stage behind the choice, for the first n_rows rows, grouped by expert. */
CHECKED enum osp_status gpu_grouped_experts(struct gpu *gpu, const struct experts_args *a,
                                            int n_rows, bool *is_taken);

/* decode_gemm.c: *out is where who makes the generated rows of y leaves them as FP16, too; NULL:
 * nobody wants them. */
CHECKED enum osp_status gpu_rounded_buffer(struct gpu *gpu, const struct tensor *y, uint16_t **out);
/* Rows of n floats, generated ones that begin at x, as FP16. */
CHECKED enum osp_status gpu_rounded_rows(struct gpu *gpu, const float *x, int n, int n_rows,
                                         const uint16_t **out);
/* A product of several generated rows, by that kernel where it takes it; not taken: nothing was
 * done. */
CHECKED enum osp_status gpu_decode_gemm(struct gpu *gpu, const struct matmul *m, enum kernel kernel,
                                        bool *is_taken);
/* All of the stage, of which m are the products; the rotations are there. */
CHECKED enum osp_status gpu_gemm_attn_in(struct gpu *gpu, const struct attn_qkv_args *a,
                                         const struct matmul *m, bool *is_taken);

/* pack.c */
/* Neither waits for the device. */
CHECKED enum osp_status gpu_pack(struct gpu *gpu, struct tensor *out, const struct tensor *host);
CHECKED enum osp_status gpu_generate(struct gpu *gpu, struct tensor *out, const struct tensor *host,
                                     const struct random_weight *values);
/* Gives back what packing needed, for now. */
CHECKED enum osp_status gpu_pack_end(struct gpu *gpu);
int64_t gpu_pack_bytes(const struct tensor *host);
void gpu_pack_release(struct gpu *gpu);

/* graphs.c: which graph a step has, if any, and what is to be done with it. */
CHECKED enum osp_status gpu_graph_begin(struct gpu *gpu, const struct compiled *c,
                                        const struct batch *b);
CHECKED enum osp_status gpu_graph_end(struct gpu *gpu);
/* Forgets all graphs: the memory that they point to has moved. */
void gpu_graphs_drop(struct gpu *gpu);
/* The same for those of one program. */
void gpu_graphs_drop_program(struct gpu *gpu, uint64_t serial);

/* report.c: the kernels of recorded steps. OSP_EDEVICE: one ran that was not asked for, or none
 * that was. */
CHECKED enum osp_status gpu_kernels(const struct gpu *gpu, struct kernel_use *out, int n_max,
                                    int *n);

/* describe.c */
void gpu_describe(const struct gpu *gpu, describe_fn *put, void *ctx);

/* device.c */
CHECKED enum osp_status gpu_memory(struct device_memory *out);

/* probe.c */
CHECKED enum osp_status gpu_probe(struct gpu *gpu, struct probe *out);

/* products.c: the table's row for a stage of the step in progress, for rows of this kind. */
const struct tuning_row *gpu_tuning_row(const struct gpu *gpu, enum stage stage,
                                        enum weight_format format, enum phase phase, int n_rows);
enum weight_format gpu_format_of(const struct tensor *w);

/* stages.c: the step's batch in the device's memory: what BATCH_ gives of the host's, moved
 * there. */
const void *gpu_on_device(const struct gpu *gpu, const void *host);

/* prefill_sm90.c: products of many rows, of prompts, with bits of their own, as the table has
 * them for the card. */
CHECKED enum osp_status gpu_sm90_matmul(struct gpu *gpu, const struct matmul *m);
/* All of the stage, over n_rows rows that begin where the tensors do, by tiles of so many rows
 * of weights. */
CHECKED enum osp_status gpu_sm90_experts(struct gpu *gpu, const struct experts_args *a, int n_rows,
                                         int tile_rows);
/* prefill_mma.c: the same by mma.sync. */
CHECKED enum osp_status gpu_mma_matmul(struct gpu *gpu, const struct matmul *m);
CHECKED enum osp_status gpu_mma_experts(struct gpu *gpu, const struct experts_args *a, int n_rows);
/* prefill_mxfp8.c: the same, the rows as MXFP8 and the weights MXFP4, by tiles of 64 or 128 of
 * their rows. */
CHECKED enum osp_status gpu_mxfp8_rmsnorm(struct gpu *gpu, const struct residual_rmsnorm_args *a,
                                          float *factors);
CHECKED enum osp_status gpu_mxfp8_matmul(struct gpu *gpu, const struct matmul *m, int tile_rows);
CHECKED enum osp_status gpu_mxfp8_experts(struct gpu *gpu, const struct experts_args *a, int n_rows,
                                          int tile_rows);

/* stage_attn.c: what attention's launches depend on, beside counts of rows. */
int gpu_attn_units(const struct batch *b);

/* stages.c, stage_attn.c, stage_experts.c: puts the stage's kernels into the stream. */
#define STAGE_FUNCTION(stage)                                                                      \
    CHECKED enum osp_status gpu_##stage(struct gpu *gpu, const struct stage##_args *a,             \
                                        struct work *work);
STAGE_LIST(STAGE_FUNCTION)
#undef STAGE_FUNCTION

#endif
