/* The interface between model and device: one table of functions. The model emits the stages of a
 * step once, as a program (program.h); the device compiles it, and then runs the compiled program
 * for every batch. A backend is used by one thread at a time. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include <stdbool.h>

#include "backend/device_options.h"
#include "backend/exchange.h"
#include "backend/program.h"
#include "backend/random_weights.h"
#include "backend/row_copies.h"
#include "base/probe.h"
#include "base/status.h"

struct backend;

/* Of a device with runs_pipelined: steps that have been run and not waited for: a step, the one
 * that is sent behind it, and passes of a draft head between both. */
enum { STEPS_QUEUED_MAX = 4 };

struct backend_options {
    int n_threads;            /* host threads that compute; 0 = all usable CPUs */
    int n_rows_max;           /* T of the largest batch */
    int n_samples_max;        /* R of the largest batch */
    const char *cpu_features; /* ISA of the CPU's kernels; NULL or "" = the best of this machine */
    const char *cpu_affinity; /* of the host threads (base/bind.h); NULL: they are not bound */
    bool is_eager;            /* no graphs: every step launches every kernel by itself */
    struct device_options device_options; /* valid until open() returns */
    struct exchange *exchange; /* with the other ranks; borrowed; NULL: there is one rank */
};

struct device_info {
    char name[128];
    int n_threads;        /* host threads that compute; 0 = the device computes everything */
    int64_t memory_bytes; /* of the device; 0 = unknown */
    /* Names the layout that pack() writes into host memory: with the same name, the same weights
     * become the same bytes. NULL: pack() writes nothing into host memory. */
    const char *pack_layout;
    /* run() returns before the step has ended; step_wait() waits for its end. */
    bool runs_async;
    /* run() may also be called while STEPS_QUEUED_MAX - 1 earlier steps have not ended, and copy(),
     * which takes its place between the steps. Tokens of a step can be those that one of the
     * STEPS_QUEUED_MAX - 1 steps before it samples (batch.h: tokens_ticket), of any program, and
     * its positions can depend on how many drafts one of these accepts (struct batch_follow);
     * sampled() gives the results of each. */
    bool runs_pipelined;
    /* A step with decode and prefill rows takes as long as two steps, one with each. */
    bool runs_phases_apart;
    /* A step of few prefill rows takes nearly as long as one of more. */
    bool has_slow_small_prefill;
};

/* The results of a step, in host memory, and its time by the device's clock: the device had all
 * inputs of the step at begin_ns, and all its results at end_ns. */
struct sampled {
    const int32_t *tokens;
    const float *logprobs; /* (R) each */
    const int32_t *top_tokens;
    const float *top_logprobs; /* (R, TOP_LOGPROBS_MAX) each, valid if a sample has n_top > 0 */
    const int32_t *candidates; /* (R, DRAFT_CANDIDATES_MAX), valid if n_candidates > 0 */
    uint64_t begin_ns, end_ns;
    bool is_graph; /* the step was one launch, not one for each kernel */
};

/* The device's own memory; all zero for a device that works in host memory. */
struct device_memory {
    int64_t total_bytes, free_bytes;
    int n_devices;   /* that ranks of this host can use, a rank each */
    bool is_unified; /* it is host memory too, and free_bytes leaves out the page cache of files */
};

struct mem {
    void *data;
    size_t size_bytes;
};

/* The shape of a model's largest step. */
struct step_shape {
    struct batch_counts counts;                /* of its batch; n_pages: of all tables together */
    int64_t width, q_width;                    /* C, H*D */
    int64_t head_dim, n_kv_heads;              /* D, K */
    int64_t n_experts, n_active, expert_width; /* E, A, F */
    int64_t vocab_size;                        /* V */
    /* Of the draft head, 0: there is none: the widest row that one of its matrices reads, its query
     * heads' row, D of its attention. */
    int64_t draft_width, draft_q_width, draft_head_dim;
    int n_layers;
    int n_seq_pages; /* in the tables of one sequence, of all groups */
    int n_threads;   /* host threads that compute; 0 = all usable CPUs */
    int n_ranks;     /* that the model is divided among; 0 and 1: one. The shape is a rank's */
    enum dtype kv_dtype;
    struct device_options device_options; /* as for open(); valid during the call */
};

/* A program that a device has compiled; each device defines its own. */
struct compiled;

/* The work of a stage since open(), as the backend counts it. */
struct stage_cost {
    const char *stage;
    int64_t n_calls;
    int64_t time_ns;
    double bytes, flops;
};

/* From slot to slot of a layer's cache. */
struct kv_move {
    int32_t from_page, from_slot, to_page, to_slot;
};

/* One after the other, each in all of these caches, which have equal shapes. */
struct kv_moves {
    const struct tensor *const *kv; /* (n_layers) */
    int n_layers;
    const struct kv_move *list; /* (n) */
    int n;
};

/* A link from one device of this host to another, measured. */
struct device_link {
    int32_t from, to;        /* numbers of the devices */
    int32_t has_peer_access; /* 1: kernels of `from` reach the memory of `to` */
    double bytes_per_s;      /* of large copies */
    double push_latency_s;   /* of a write that the other device's kernel sees; 0: no peer access */
};

/* A kernel of a step that the device has recorded. */
struct kernel_use {
    char name[96];
    int n_rows, n_prefill, n_seqs; /* of the step: rows, prefill rows among them, sequences */
    int64_t n_steps;               /* steps with these counts */
    int n_calls;                   /* launches in one step */
    int grid[3], block[3], shared_bytes;
};

/* Receives a line about a device: its subject and its text, both valid during the call. */
typedef void describe_fn(void *ctx, const char *key, const char *text);

struct backend_ops {
    const char *name;      /* "cpu" */
    bool runs_in_worker;   /* its failure ends the process, so `auto` runs it in a worker process */
    bool runs_draft_heads; /* it has the stages of draft heads (args.h) */
    enum shard_rule shard_rule;              /* how a model is divided among ranks of this device */
    const struct device_option_row *options; /* this device's own; ends with a row without a name,
                                                NULL: it has no options */
    enum osp_status (*open)(struct backend **out, const struct backend_options *opt);
    void (*close)(struct backend *be);
    void (*info)(const struct backend *be, struct device_info *out);
    enum osp_status (*alloc)(struct backend *be, struct mem *out, size_t size_bytes);
    void (*release)(struct backend *be, struct mem *m);
    enum osp_status (*write)(struct backend *be, void *dst, const void *src, size_t size_bytes);
    enum osp_status (*read)(struct backend *be, void *dst, const void *src, size_t size_bytes);
    /* Within the device's memory. It takes effect before every later step and call; a failure may
     * be reported by one of these. */
    enum osp_status (*copy)(struct backend *be, void *dst, const void *src, size_t size_bytes);
    /* Copies the keys and values of all heads from slots of layers' caches to other slots, bit for
     * bit: of accepted drafts in a tree, to their positions. It takes effect as copy() does. Only
     * between steps. */
    enum osp_status (*kv_move)(struct backend *be, const struct kv_moves *moves);
    /* As copy(), of many rows at once (row_copies.h). Only for devices with runs_draft_heads. */
    enum osp_status (*copy_rows)(struct backend *be, const struct row_copies *copies);
    /* Places a weight in the layout that the device's kernels read. The host tensor outlives the
     * backend, so a device that works in host memory may point to it. `host` may be a result of
     * an earlier pack() that was kept in a file. */
    enum osp_status (*pack)(struct backend *be, struct tensor *out, const struct tensor *host);
    /* As pack() of a host tensor with these values; the data of `host` is not read. Only for
     * devices with memory of their own. */
    enum osp_status (*fill_random)(struct backend *be, struct tensor *out,
                                   const struct tensor *host, const struct random_weight *values);
    /* Bytes that pack() allocates for the tensor; 0 = the result points to host memory. */
    int64_t (*pack_bytes)(const struct backend *be, const struct tensor *host);
    /* The type of KV pages: DTYPE_NONE in *out becomes the default of a device with these
     * options; DTYPE_F32, DTYPE_BF16, DTYPE_F8 and DTYPE_I16 stay. OSP_EINVAL: the device does not
     * have that type. */
    enum osp_status (*kv_dtype)(const struct backend_options *opt, enum dtype *out);
    /* Memory of the devices of ranks [first, first + n), {0, 1} without ranks: the least of them.
     * Device memory of the process stays in use on that of `first` alone. */
    enum osp_status (*memory)(struct device_memory *out, int first, int n);
    /* The most device memory, in bytes, that steps need besides activations and pages. */
    int64_t (*step_bytes)(const struct step_shape *shape);
    /* Ends the loading of weights and allocates that memory, so that no step within the shape
     * allocates. The call is optional; without it any step can fail with OSP_ENOMEM. */
    enum osp_status (*step_reserve)(struct backend *be, const struct step_shape *shape);
    /* Prepares the program for run(). p and everything that its arguments point to are borrowed
     * until release_program(). A device may keep a CUDA graph, or another recording, with it. */
    enum osp_status (*compile)(struct backend *be, const struct program *p, struct compiled **out);
    /* Only while no step runs; accepts NULL. */
    void (*release_program)(struct backend *be, struct compiled *c);
    /* Runs one step: the program over *b, which is read only until run() returns. After
     * step_reserve() it allocates no device memory, if the batch is within the reserved shape.
     * *ticket names the step for step_wait(). Between run() and step_wait() no other function is
     * called, except run() and copy() of a device with runs_pipelined; its steps are then waited
     * for in order. A step whose results nobody reads need not be waited for. */
    enum osp_status (*run)(struct backend *be, struct compiled *c, const struct batch *b,
                           uint64_t *ticket);
    enum osp_status (*step_wait)(struct backend *be, uint64_t ticket);
    /* Whether that step has ended or the device has failed; does not wait. Only for devices with
     * runs_pipelined. */
    bool (*step_has_ended)(struct backend *be, uint64_t ticket);
    /* The results of the step that was last waited for, valid until STEPS_QUEUED_MAX more steps
     * have been run after it. Only for devices with runs_pipelined; for others, read() the tensors
     * of stage sample. */
    enum osp_status (*sampled)(struct backend *be, struct sampled *out);
    /* Describes the device, the kernels of its stages and the reason for each, line by line. */
    void (*describe)(const struct backend *be, describe_fn *put, void *ctx);
    /* The kernels of all recorded steps, step by step. OSP_EDEVICE: they are not the requested
     * ones. OSP_EUNSUPPORTED: the device records no steps. */
    enum osp_status (*kernels)(const struct backend *be, struct kernel_use *out, int n_max, int *n);
    /* Measures the device's peak rates, between steps. OSP_EUNSUPPORTED: the device computes with
     * host threads, which base/probe.h measures. */
    enum osp_status (*probe)(struct backend *be, struct probe *out);
    /* Measures the links between all devices of this kind, without an open backend. At most n_max
     * are measured. NULL: there is one device. */
    enum osp_status (*links)(struct device_link *out, int n_max, int *n_devices, int *n);
    /* *us: the time of one of n_sums sums over all ranks, one behind the other, of n_rows rows of
     * n_columns floats. All ranks call it at the same time, between steps. OSP_EUNSUPPORTED: there
     * is one rank, or the host exchanges for this device, which dist/host_exchange.h measures. */
    enum osp_status (*exchange_time)(struct backend *be, int n_rows, int n_columns, int n_sums,
                                     double *us);
    /* Costs since open(), one entry for each stage; returns their number (at most n_max). */
    int (*costs)(const struct backend *be, struct stage_cost *out, int n_max);
};

/* The backend with this name: "cpu", "cuda", or "auto" (and NULL), which is cuda where it can run,
 * else cpu. It asserts shapes and batches (checked.h). NULL with a failure message: no such
 * backend. */
const struct backend_ops *backend_find(const char *name);

extern const struct backend_ops cpu_backend_ops;

#endif
