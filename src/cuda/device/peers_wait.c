/* Waits for steps that exchange numbers with other ranks. Every wait ends when a rank is lost. */
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "cuda/device/gpu.h"

/* After an error, for the heartbeats to find the rank that has ended. */
enum { FAULT_MS_MAX = 700 };

static bool has_cuda_error(struct gpu *gpu)
{
    const cudaError_t error = cudaStreamQuery(gpu->stream);

    return error != cudaSuccess && error != cudaErrorNotReady;
}

void gpu_nccl_leave(struct gpu *gpu)
{
    if (gpu->nccl == NULL)
        return;
    gpu_plans_drop(gpu);
    if (!has_cuda_error(gpu))
        nccl_close(gpu->nccl);
    gpu->nccl = NULL;
}

static enum osp_status check_ranks(struct gpu *gpu)
{
    return gpu->limits.exchange->ops->check(gpu->limits.exchange);
}

/* A rank that ends takes its memory and its connections with it, so that CUDA and NCCL can fail
 * before its end is noticed: OSP_EDEVICE with its name, if it is soon. */
static enum osp_status await_fault(struct gpu *gpu)
{
    const uint64_t end_ns = clock_ns() + (uint64_t)FAULT_MS_MAX * 1000000u;
    enum osp_status st;

    do {
        TRY(check_ranks(gpu));
        (void)usleep(1000);
    } while (clock_ns() < end_ns);
out:
    return st;
}

static enum osp_status explain(struct gpu *gpu, cudaError_t error)
{
    enum osp_status st;

    TRY(await_fault(gpu));
    return gpu_check(error, "a step");
out:
    return st;
}

/* Whether the ranks can still end the step. */
static enum osp_status check_step(struct gpu *gpu, uint64_t begin_ns)
{
    enum osp_status st;

    TRY(check_ranks(gpu));
    if (gpu->nccl == NULL)
        return OSP_OK;
    st = nccl_check(gpu->nccl);
    if (st != OSP_OK) {
        TRY(await_fault(gpu));
        return nccl_check(gpu->nccl);
    }
    if (clock_ns() - begin_ns > EXCHANGE_WAIT_MS * (uint64_t)1000000)
        return fail(OSP_EDEVICE, "a step did not end within %d s: a rank did not reach an exchange",
                    EXCHANGE_WAIT_MS / 1000);
out:
    return st;
}

/* Polls until the event, or the stream, is done, or a rank is lost. */
static enum osp_status wait_for(struct gpu *gpu, cudaEvent_t done, cudaError_t *error)
{
    const uint64_t begin_ns = clock_ns();
    enum osp_status st = OSP_OK;

    while ((*error = done != NULL ? cudaEventQuery(done) : cudaStreamQuery(gpu->stream)) ==
           cudaErrorNotReady) {
        st = check_step(gpu, begin_ns);
        if (st != OSP_OK)
            break;
        (void)sched_yield();
    }
    (void)cudaGetLastError(); /* clears cudaErrorNotReady */
    gpu->has_lost_ranks |= st != OSP_OK || *error != cudaSuccess;
    if (st == OSP_OK || gpu->nccl != NULL)
        return st;
    *(volatile int32_t *)gpu->peers.state = RANK_STATE_ENDED;
    (void)cudaStreamSynchronize(gpu->stream);
    return st;
}

enum osp_status gpu_peers_wait(struct gpu *gpu, cudaEvent_t done)
{
    cudaError_t error;
    enum osp_status st;

    TRY(wait_for(gpu, done, &error));
    if (error != cudaSuccess)
        return explain(gpu, error);
    if (*gpu->peers.state > 0)
        return fail(OSP_EDEVICE, "rank %d did not reach the exchange of a step within %d s",
                    *gpu->peers.state - 1, EXCHANGE_WAIT_MS / 1000);
out:
    return st;
}

enum osp_status gpu_stream_wait(struct gpu *gpu, const char *what)
{
    cudaError_t error;
    enum osp_status st;

    if (gpu->nccl == NULL)
        return gpu_check(cudaStreamSynchronize(gpu->stream), what);
    TRY(wait_for(gpu, NULL, &error));
    TRY(gpu_check(error, what));
out:
    return st;
}

enum osp_status gpu_collective(struct gpu *gpu, const struct collective *c)
{
    enum osp_status st;

    TRY(check_ranks(gpu));
    st = nccl_run(gpu->nccl, c, gpu->stream);
    if (st == OSP_OK)
        return OSP_OK;
    gpu->has_lost_ranks = true;
    TRY(await_fault(gpu));
    return nccl_run(gpu->nccl, c, gpu->stream); /* its message again */
out:
    return st;
}
