/* For the benchmarks in this folder: captures a launch list as a CUDA graph and times replays. */
#ifndef BENCH_GRAPH_TIMES_H
#define BENCH_GRAPH_TIMES_H

#include <algorithm>
#include <vector>

#include "run_launches.h"

/* Milliseconds of n replays of a graph of the launches that `add` appends, the best first. */
template <typename Add>
static std::vector<float> graph_times(cudaStream_t stream, int n_replays, Add add)
{
    struct launch_list list = make_launches(add);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t begin, end;
    std::vector<float> times((size_t)n_replays);

    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    run_launches(stream, &list);
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
    launch_list_free(&list);
    return times;
}

#endif
