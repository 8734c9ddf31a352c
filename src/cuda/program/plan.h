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
    cudaGraphExec_t exec[N_TIMINGS];  /* NULL: not captured yet */
    struct stage_events events;       /* of the timed graph */
    struct stage_cost step[N_STAGES]; /* of one step; times are those of the last timed step */
    double step_ns;                   /* of a whole step without stage events; 0: not known yet */
};

/* a few sizes of decode batches, each for a few ranges of context length */
enum { PLANS_MAX = 64 };

struct compiled {
    struct compiled *next;
    const struct program *program;      /* borrowed */
    struct sample_args sample;          /* tokens.data NULL: the program does not sample */
    struct step_plan *plans[PLANS_MAX]; /* NULL: free */
};

/* The plan for the counts of the batch: an existing one, or a new one with its list and work.
 * Errors: OSP_ENOMEM and those of fuse(). */
CHECKED enum osp_status gpu_plan_of(struct gpu *gpu, struct compiled *c, const struct batch *b,
                                    struct step_plan **out);
/* graphs.c: launches the step, captured as a graph from its second time on. */
CHECKED enum osp_status gpu_plan_run(struct gpu *gpu, struct step_plan *plan,
                                     struct step_slot *slot);

/* workspace.c: workspaces for the largest batch of the program, if gpu_step_reserve() was not
 * called. */
CHECKED enum osp_status gpu_program_reserve(struct gpu *gpu, const struct program *p);

/* step_work.c: calls, bytes and flops of each stage in one step over the batch; times are left
 * unchanged. */
void step_work(struct stage_cost out[N_STAGES], const struct program *p,
               const struct step_counts *n, const struct batch *b);
/* Bytes of one expert's weights; 0: the program has no experts. */
double step_expert_bytes(const struct program *p);

#endif
