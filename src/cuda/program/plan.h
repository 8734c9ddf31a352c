/* Compiled programs: a plan for each combination of counts that steps have had, with its launch
 * list, CUDA graphs and work. */
#ifndef CUDA_PROGRAM_PLAN_H
#define CUDA_PROGRAM_PLAN_H

#include "cuda/device/gpu.h"
#include "cuda/program/fuse.h"

/* Whether the stages are timed in a step that runs as a graph. */
enum timing { UNTIMED, TIMED, N_TIMINGS };

/* Steps of one program with the same counts. */
struct step_plan {
    struct step_counts counts;
    uint64_t n_steps, last_step; /* number of steps, and the ticket of the last one */
    struct launch_list list;
    cudaGraphExec_t exec[N_TIMINGS]; /* NULL: not captured yet */
    struct stage_events events;      /* of the timed graph */
    int64_t time_ns[N_STAGES];       /* of the last timed step */
    double step_ns;                  /* of a whole step without stage events; 0: not known yet */
};

static inline bool plan_has_prefill(const struct step_plan *plan)
{
    return plan->counts.n_decode < plan->counts.n_rows;
}

/* What the work of a step is proportional to. Tail: rows of the last layer that are sampled. */
enum work_per {
    WORK_PER_STEP,
    WORK_PER_ROW,
    WORK_PER_TAIL,
    WORK_PER_TAIL_ROW,
    WORK_PER_SAMPLING, /* a step with samples */
    WORK_PER_SAMPLE,
    WORK_PER_KEY,        /* that a row sees, without a window */
    WORK_PER_WINDOW_KEY, /* in the sliding window */
    WORK_PER_TAIL_KEY,   /* the same of the tail's rows */
    WORK_PER_TAIL_WINDOW_KEY,
    N_WORK_PERS
};

struct work_rates {
    struct work of[N_STAGES][N_WORK_PERS];
    int n_calls[N_STAGES][2]; /* ops of the stage: of all rows, and of the tail */
    int window_tokens; /* of all layers with a window, which is one number; 0: there are none */
    enum stage stage;  /* while it is built */
};

/* A few sizes of decode batches (step_counts_pad()), each for a few ranges of context length, and
 * steps with prefill rows. The least recently used plan is dropped: of the plans with prefill rows
 * if there are PREFILL_PLANS_MAX, so that these, of which most run once, do not displace graphs. */
enum { PLANS_MAX = 192, PREFILL_PLANS_MAX = 32 };

struct compiled {
    struct compiled *next;
    const struct program *program; /* borrowed */
    struct work_rates rates;
    float *expert_grids;                /* device memory, of fuse_input, which programs of the same
                                * experts share; NULL: no experts have a grid */
    struct sample_args sample;          /* tokens.data NULL: the program does not sample */
    struct step_plan *plans[PLANS_MAX]; /* NULL: free */
};

/* The plan for the counts: an existing one, or a new one with its list. header: of a batch that is
 * laid out for the counts. Errors: OSP_ENOMEM and those of fuse(). */
CHECKED enum osp_status gpu_plan_of(struct gpu *gpu, struct compiled *c,
                                    const struct step_counts *counts, const struct batch *header,
                                    struct step_plan **out);
/* graphs.c: launches the step: as a graph, but for the first step of a plan with prefill rows. */
CHECKED enum osp_status gpu_plan_run(struct gpu *gpu, struct step_plan *plan,
                                     struct step_slot *slot);
/* A graph of the list. events: one where the launches of each op begin, and one at the end; NULL:
 * it is not timed. The caller destroys *out. */
CHECKED enum osp_status gpu_list_capture(struct gpu *gpu, const struct launch_list *list,
                                         struct stage_events *events, cudaGraphExec_t *out);

/* workspace.c: workspaces for the largest batch of the program, if gpu_step_reserve() was not
 * called. */
CHECKED enum osp_status gpu_program_reserve(struct gpu *gpu, const struct program *p);

/* step_work.c: calls, bytes and flops of each stage in one step over the batch, whose counts these
 * are (not padded); times are 0. */
void work_rates_of(struct work_rates *out, const struct program *p);
void step_work(struct stage_cost out[N_STAGES], const struct work_rates *r,
               const struct step_counts *n, const struct batch *b);
/* Bytes of one expert's weights; 0: the program has no experts. */
double step_expert_bytes(const struct program *p);

#endif
