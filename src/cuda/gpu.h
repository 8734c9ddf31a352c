/* Inside of the CUDA backend: the device, its stream and its rooms. One stream does everything, in order;
 * the host waits for it in step_wait and where it reads. */
#ifndef CUDA_GPU_H
#define CUDA_GPU_H

#include <stdbool.h>

#include "backend/backend.h"
#include "cuda/launch.h"

/* Memory of the device that grows and is kept: stages know their needs only when they run. */
struct gpu_room {
    void *data;
    size_t size_bytes;
};

enum stage {
#define STAGE_ENUM(stage) STAGE_##stage,
    STAGE_LIST(STAGE_ENUM)
#undef STAGE_ENUM
        N_STAGES
};

/* What a stage touches, for the share of the roofline. */
struct work {
    double bytes, flops;
};

/* A stage of the step in progress: it ends where the next one begins. */
struct mark {
    cudaEvent_t begin;
    enum stage stage;
};

/* What pack() made, kept until the device closes. */
struct packed {
    struct packed *next;
    void *data;
};

struct gpu {
    struct backend_options limits;
    struct cudaDeviceProp properties;
    cudaStream_t stream;
    const struct batch *batch;     /* of the step in progress; borrowed */
    const struct batch *on_device; /* the same, in the device's memory */
    const double *uniforms;        /* (R), on the device: the random numbers of its samples */
    char *staging; /* host memory that the device can read: the batch goes through it */
    size_t staging_bytes;
    struct gpu_room batch_room, rotations, lists, parts, raw;
    const struct rope *rotations_of; /* NULL at the start of a step */
    struct packed *packed;
    uint64_t *n_experts_read;   /* on the device: experts whose weights were read, of all calls */
    double expert_bytes;        /* of one expert's weights */
    struct mark *marks;         /* of the step, (n_marks), and one behind */
    size_t n_marks, marks_room; /* marks_room: that have an event */
    bool is_running;            /* a step whose times were not taken */
    uint64_t ticket;            /* of the last step that ended */
    struct stage_cost costs[N_STAGES];
};

static inline struct gpu *gpu_of(struct backend *be)
{
    return (struct gpu *)be;
}

/* OSP_OK, or a failure that says what was done and what CUDA says. */
CHECKED enum osp_status gpu_check(cudaError_t error, const char *what);
/* Makes *room at least that large; what it held is lost when it grows. */
CHECKED enum osp_status gpu_room_need(struct gpu *gpu, struct gpu_room *room, size_t size_bytes,
                                      const char *what);

/* pack.c */
CHECKED enum osp_status gpu_pack(struct gpu *gpu, struct tensor *out, const struct tensor *host);
int64_t gpu_pack_bytes(const struct tensor *host);
void gpu_pack_release(struct gpu *gpu);

/* stages.c: puts the stage's kernels into the stream. */
#define STAGE_FUNCTION(stage)                                                                      \
    CHECKED enum osp_status gpu_##stage(struct gpu *gpu, const struct stage##_args *a,             \
                                        struct work *work);
STAGE_LIST(STAGE_FUNCTION)
#undef STAGE_FUNCTION

#endif
