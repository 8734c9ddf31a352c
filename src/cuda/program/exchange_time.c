/* Measures the exchange between ranks alone: sums of float rows over all ranks, one behind the
 * other, by the kernels or collectives of a step and in a CUDA graph as those. Untimed sums at the
 * beginning of the graph wait for ranks that begin later. */
#include "cuda/program/fuse_internal.h"
#include "cuda/program/plan.h"

enum { SUMS_UNTIMED = 8, RUNS = 3 };
enum { OP_UNTIMED, OP_TIMED, N_OPS };

struct exchange_run {
    struct gpu *gpu;
    struct launch_list list;
    struct stage_events events; /* before both ops, and at the end */
    cudaGraphExec_t graph;
    struct tensor h; /* (n_rows, n_columns) zeros */
};

/* Two ops, whose outputs the ranks add; nothing computes them. */
static void list_sums(struct exchange_run *t, int n_sums)
{
    struct program_op ops[N_OPS] = {
        [OP_UNTIMED] = {.stage = STAGE_attn_out, .exchange = EXCHANGE_SUM},
        [OP_TIMED] = {.stage = STAGE_experts, .exchange = EXCHANGE_SUM}};
    const struct program program = {.ops = ops, .n_ops = N_OPS};
    const struct fuse_input in = {.program = &program,
                                  .gpu = &t->gpu->kernels->gpu,
                                  .peers = &t->gpu->peers,
                                  .is_gathered = t->gpu->exchange_backend == EXCHANGE_BY_NCCL};
    struct fuse f = {.list = &t->list, .in = &in, .n_rows = (int)t->h.dim[0]};

    launch_list_init(&t->list, in.gpu);
    for (int op = 0; op < N_OPS; op++)
        for (int i = op == OP_TIMED ? n_sums : SUMS_UNTIMED; i > 0; i--)
            exchange_sums(&f, op, &t->h, 0, NULL);
    for (int i = 0; i < t->list.n; i++)
        t->list.launches[i].stage = (int)ops[t->list.launches[i].op].stage;
}

static enum osp_status run_open(struct exchange_run *t, int n_rows, int n_columns, int n_sums)
{
    const size_t n_bytes = (size_t)n_rows * (size_t)n_columns * sizeof(float);
    enum osp_status st;

    t->h = (struct tensor){.dtype = DTYPE_F32, .dim = {n_rows, n_columns}};
    TRY(gpu_check(cudaMalloc(&t->h.data, n_bytes), "allocating rows to exchange"));
    TRY(gpu_check(cudaMemsetAsync(t->h.data, 0, n_bytes, t->gpu->stream), "clearing these rows"));
    list_sums(t, n_sums);
    if (t->list.has_failed)
        return fail(OSP_ENOMEM, "out of memory for a list of exchanges");
    TRY(gpu_list_capture(t->gpu, &t->list, &t->events, &t->graph));
out:
    return st;
}

/* The numbers of these exchanges follow those of the steps so far, on all ranks. */
static enum osp_status run_once(struct exchange_run *t, double *us)
{
    struct gpu *gpu = t->gpu;
    float time_ms;
    enum osp_status st;

    TRY(gpu_check(cudaMemcpyAsync(gpu->peers.n_before, &gpu->n_exchanges, sizeof(gpu->n_exchanges),
                                  cudaMemcpyHostToDevice, gpu->stream),
                  "setting the number of an exchange"));
    gpu->n_exchanges += (uint32_t)t->list.n_exchanges;
    TRY(gpu_check(cudaGraphLaunch(t->graph, gpu->stream), "launching exchanges"));
    TRY(gpu_peers_wait(gpu, t->events.list[N_OPS].begin));
    TRY(gpu_stream_wait(gpu, "exchanges"));
    TRY(gpu_check(
        cudaEventElapsedTime(&time_ms, t->events.list[OP_TIMED].begin, t->events.list[N_OPS].begin),
        "the time of exchanges"));
    *us = (double)time_ms * 1e3;
out:
    return st;
}

static void run_close(struct exchange_run *t)
{
    if (t->graph != NULL)
        (void)cudaGraphExecDestroy(t->graph);
    gpu_stage_events_free(&t->events);
    launch_list_free(&t->list);
    (void)cudaFree(t->h.data);
}

enum osp_status gpu_exchange_time(struct gpu *gpu, int n_rows, int n_columns, int n_sums,
                                  double *us)
{
    const int n_ranks = gpu->peers.n_ranks;
    struct exchange_run t = {.gpu = gpu};
    double least = 0;
    enum osp_status st = OSP_OK;

    if (gpu->window == NULL)
        return fail(OSP_EUNSUPPORTED, "cuda: there is one rank, or no program was compiled yet");
    if (n_rows < 1 || n_columns < 1 || n_columns % RANK_WORDS != 0 || n_sums < 1 ||
        rank_slot_bytes(n_rows, n_columns, n_ranks) > gpu->peers.slot_bytes)
        return fail(
            OSP_EINVAL,
            "cuda: %d sums of %d rows of %d columns: expected at least one of each, columns "
            "a multiple of %d, and no more rows than a step has",
            n_sums, n_rows, n_columns, (int)RANK_WORDS);
    TRY(run_open(&t, n_rows, n_columns, n_sums));
    for (int i = 0; i < RUNS; i++) {
        double all = 0;

        TRY(run_once(&t, &all));
        least = i == 0 || all < least ? all : least;
    }
    *us = least / n_sums;
out:
    run_close(&t);
    return st;
}
