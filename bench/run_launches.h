/* For the benchmarks in this folder: a launch list is made before the timed loop and run in it. The
 * kernels have the launch attributes (PDL, clusters), shared memory and carveout that they have in
 * a step of the CUDA backend. */
#ifndef BENCH_RUN_LAUNCHES_H
#define BENCH_RUN_LAUNCHES_H

#include "check_cuda.h"
#include "cuda/launch/kernel_table.h"

/* The kernels of the current device. */
static struct kernel_table *device_kernels(void)
{
    static struct kernel_table kernels;
    static bool is_ready;
    struct cudaDeviceProp properties;

    if (!is_ready) {
        CHECK(cudaGetDeviceProperties(&properties, 0));
        kernel_table_init(&kernels, &properties);
        is_ready = true;
    }
    return &kernels;
}

/* The launches that `add` appends, ready to run; the caller frees the list. A launch that the GPU
 * does not support ends the program. */
template <typename Add> static struct launch_list make_launches(Add add)
{
    struct launch_list list = {};
    const struct launch *refused;

    launch_list_init(&list, &device_kernels()->gpu);
    add(&list);
    refused = kernel_table_prepare(device_kernels(), &list);
    if (refused != NULL || list.has_failed) {
        if (refused != NULL)
            printf("the GPU does not support this launch: %s\n", refused->name);
        else
            printf("out of memory for the launch list\n");
        exit(1);
    }
    return list;
}

static void run_launches(cudaStream_t stream, const struct launch_list *list)
{
    CHECK(launch_list_run(list, 0, list->n, stream));
}

/* Makes the list and runs it once. */
template <typename Add> static void launch_once(cudaStream_t stream, Add add)
{
    struct launch_list list = make_launches(add);

    run_launches(stream, &list);
    launch_list_free(&list);
}

#endif
