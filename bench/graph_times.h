/* For the benchmarks in this folder: captures launches as a CUDA graph and times its replays. */
#ifndef BENCH_GRAPH_TIMES_H
#define BENCH_GRAPH_TIMES_H

#include <algorithm>
#include <vector>

#include "check_cuda.h"

/* Milliseconds of n replays of the graph captured from `put`, the best first. */
template <typename Put>
static std::vector<float> graph_times(cudaStream_t stream, int n_launches, Put put)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t begin, end;
    std::vector<float> times((size_t)n_launches);

    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    put();
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (float &ms : times) {
        CHECK(cudaEventRecord(begin, stream));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventElapsedTime(&ms, begin, end));
    }
    std::sort(times.begin(), times.end());
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return times;
}

#endif
