/* The CUDA backend: the device, its stream and its memory. One stream runs everything in order. The
 * host waits for it in step_wait() and when it reads device memory. */
#ifndef CUDA_DEVICE_GPU_H
#define CUDA_DEVICE_GPU_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "backend/backend.h"
#include "cuda/common/rank_share.h"
#include "cuda/device/exchange_backend.h"
#include "cuda/launch/kernel_table.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/workspaces.h"
#include "cuda/device/kernel_config.h"
#include "cuda/device/nccl.h"
#include "cuda/device/tuning.h"

/* Memory that pack() has allocated; it is kept until the device closes. */
struct packed {
    struct packed *next;
    void *data;
};

/* Memory traffic and operations of a stage, for its fraction of the roofline. */
struct work {
    double bytes, flops;
};

/* Events at the beginning of each stage of a step, and at the end of the last one. */
struct stage_events {
    struct stage_event {
        cudaEvent_t begin;
        enum stage stage;
    } * list;           /* (n) */
    size_t n, capacity; /* capacity: entries that have an event */
};

struct step_plan; /* program/plan.h */

/* An in-flight step, from run() until step_wait(), with pinned host memory for its batch and
 * results. */
struct step_slot {
    uint64_t ticket;
    bool is_running; /* its times have not been read */
    cudaEvent_t done;
    char *batch; /* random numbers and the batch */
    size_t batch_bytes;
    struct step_results *results;
    struct stage_cost work[N_STAGES]; /* without times */
    struct step_plan *plan;           /* NULL: the plan was dropped, or the slot had no step */
    bool is_graph;
    bool is_timed, is_spanned;  /* events for each stage; two events for the whole step */
    struct stage_events events; /* of a timed step that ran without a CUDA graph */
    bool has_graph_events;      /* the times are in the events of the plan */
    cudaEvent_t span[2];
};

struct gpu {
    struct backend_options limits;
    int device; /* of CUDA */
    struct cudaDeviceProp properties;
    struct kernel_table *kernels;
    enum arch arch;
    struct kernel_config kernel_config; /* kernels that the options select */
    cudaStream_t stream;
    struct step_slot step_slots[STEPS_QUEUED_MAX];
    struct step_slot *completed; /* of the last step_wait(); NULL: there was none */
    /* Tickets of the steps in workspace `sampled`; 0: none. */
    uint64_t sampled_by[STEPS_QUEUED_MAX];
    struct loader *loader; /* of large weights; NULL: no weight is being loaded */
    struct workspaces workspaces;
    bool is_reserved; /* the workspaces have the sizes of the largest step */
    struct packed *packed;
    uint64_t *n_experts_read; /* device memory: experts whose weights were read, in all steps */
    uint64_t n_experts_read_so_far; /* its value after the last step_wait() */
    double expert_bytes;            /* weights of one expert */
    struct compiled *programs;      /* the list of compiled programs */
    uint64_t ticket;                /* of the last step */
    struct rank_peers peers;        /* zeros: there is one rank */
    uint32_t n_exchanges;           /* of all steps so far */
    const char *exchange_asked;     /* value of --rank-exchange; NULL: the device chooses */
    enum exchange_backend exchange_backend;
    struct nccl *nccl;              /* NULL: ranks push, or there is one rank */
    uint32_t n_collectives;         /* of NCCL, launched one by one */
    bool has_lost_ranks;            /* a wait has failed: kernels of NCCL may never end */
    void *window;                   /* of this rank; NULL: there is one rank */
    int64_t signals_at;             /* in windows */
    struct rank_gather gather;      /* likewise */
    void *mappings[RANK_PEERS_MAX]; /* of other ranks' windows; own: of rank 0's logits */
    struct stage_cost costs[N_STAGES];
};

/* The GPU of a backend, which becomes the current device of the calling thread. (Device 0 is
 * current in every thread from its start.) */
static inline struct gpu *gpu_select(struct backend *be)
{
    struct gpu *gpu = (struct gpu *)be;

    if (gpu != NULL && gpu->device != 0)
        (void)cudaSetDevice(gpu->device);
    return gpu;
}

extern const struct backend_ops gpu_ops; /* device.c */

/* OSP_OK, or a failure with `what`, the operation, and the message of CUDA. */
CHECKED enum osp_status gpu_check(cudaError_t error, const char *what);
CHECKED enum osp_status gpu_memory(struct device_memory *out, int first, int n); /* backend_ops */

/* program/workspace.c */
/* Makes the workspace at least size_bytes large; its contents are lost when it grows. */
CHECKED enum osp_status gpu_workspace_reserve(struct gpu *gpu, enum workspace w,
                                              int64_t size_bytes);
int64_t gpu_step_bytes(const struct step_shape *shape);
CHECKED enum osp_status gpu_step_reserve(struct backend *be, const struct step_shape *shape);
void gpu_workspaces_release(struct gpu *gpu);

/* program/step.c */
/* Allocates pinned host memory for batches of size_bytes, in all slots. */
CHECKED enum osp_status gpu_slots_reserve(struct gpu *gpu, size_t size_bytes);
void gpu_slots_release(struct gpu *gpu);
/* Loads the upload and download kernels before a request waits for them. */
CHECKED enum osp_status gpu_transfer_try(struct gpu *gpu);
CHECKED enum osp_status gpu_run(struct backend *be, struct compiled *c, const struct batch *b,
                                uint64_t *ticket);
CHECKED enum osp_status gpu_step_wait(struct backend *be, uint64_t ticket);
bool gpu_step_has_ended(struct backend *be, uint64_t ticket);
CHECKED enum osp_status gpu_sampled(struct backend *be, struct sampled *out);

/* program/plan.c */
CHECKED enum osp_status gpu_compile(struct backend *be, const struct program *p,
                                    struct compiled **out);
void gpu_release_program(struct backend *be, struct compiled *c);
/* Drops the launch lists and graphs of all programs: memory that they point to has moved. */
void gpu_plans_drop(struct gpu *gpu);

/* program/times.c */
/* Waits for the step of the slot and adds its times to the costs. A step that was not timed counts
 * with the times of the last timed one. */
CHECKED enum osp_status gpu_step_finish(struct gpu *gpu, struct step_slot *slot);
void gpu_stage_events_free(struct stage_events *events);
/* Records an event at the beginning of a stage, in a stream that is being captured or not. */
CHECKED enum osp_status gpu_record_stage(struct gpu *gpu, struct stage_events *events,
                                         enum stage stage, bool is_captured);

/* program/report.c: the kernels of the steps that ran. OSP_EDEVICE: no kernel of the kind that an
 * option selects by name. */
CHECKED enum osp_status gpu_kernels(const struct gpu *gpu, struct kernel_use *out, int n_max,
                                    int *n);

/* pack.c: these do not wait for the device. */
CHECKED enum osp_status gpu_pack(struct gpu *gpu, struct tensor *out, const struct tensor *host);
CHECKED enum osp_status gpu_generate(struct gpu *gpu, struct tensor *out, const struct tensor *host,
                                     const struct random_weight *values);
/* Frees the memory that packing needed. */
CHECKED enum osp_status gpu_pack_end(struct gpu *gpu);
int64_t gpu_pack_bytes(const struct tensor *host);
void gpu_pack_release(struct gpu *gpu);

/* describe.c */
void gpu_describe(const struct gpu *gpu, describe_fn *put, void *ctx);

/* peers.c: the exchange with other ranks. */
/* Maps the windows of all ranks, or joins them by NCCL, for steps of the shape; collective. With
 * one rank it does nothing. */
CHECKED enum osp_status gpu_peers_open(struct gpu *gpu, const struct step_shape *shape);
int64_t gpu_peers_bytes(const struct step_shape *shape);
void gpu_peers_close(struct gpu *gpu);
/* Maps rank 0's logits (rank_peers); collective, at the first program with logits. */
CHECKED enum osp_status gpu_peers_logits(struct gpu *gpu, float *logits);
/* data[i] = the sum over all ranks, on the host. */
CHECKED enum osp_status gpu_peers_sum(struct gpu *gpu, int64_t *data, size_t n);

/* peers_wait.c */
/* Leaves the communicator, if there is one, which ends its kernels that wait for a lost rank. CUDA
 * graphs with collectives are destroyed before: NCCL waits for that. After an error of CUDA nothing
 * runs or can be freed, and the communicator is left alone. */
void gpu_nccl_leave(struct gpu *gpu);
/* Waits until the event has completed. After a fault of another rank the wait fails at once, with
 * the rank's name. Pushing kernels have ended then; those of NCCL go on until gpu_peers_close(), or
 * until the process ends: aborting a communicator takes too long for an answer within a second. */
CHECKED enum osp_status gpu_peers_wait(struct gpu *gpu, cudaEvent_t done);
/* Waits for the stream. Only with NCCL the wait can fail because of another rank. */
CHECKED enum osp_status gpu_stream_wait(struct gpu *gpu, const char *what);
/* Appends a collective of a launch list to the stream. */
CHECKED enum osp_status gpu_collective(struct gpu *gpu, const struct collective *c);

/* probe.c */
CHECKED enum osp_status gpu_probe(struct gpu *gpu, struct probe *out);

/* program/exchange_time.c: see exchange_time() of backend.h. */
CHECKED enum osp_status gpu_exchange_time(struct gpu *gpu, int n_rows, int n_columns, int n_sums,
                                          double *us);

/* links.c */
CHECKED enum osp_status gpu_links(struct device_link *out, int n_max, int *n_devices, int *n);

#endif
