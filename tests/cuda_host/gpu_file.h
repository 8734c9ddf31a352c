/* GPU descriptions from files (tests/golden/launches/gpu-*.txt), as tools/record_gpu_desc writes
 * them: the device's limits, and each kernel's static shared memory. */
#ifndef TESTS_CUDA_HOST_GPU_FILE_H
#define TESTS_CUDA_HOST_GPU_FILE_H

#include "cuda/launch/gpu_desc.h"

enum { GPU_FILE_KERNELS_MAX = 512, GPU_FILE_NAME_BYTES = 160 };

struct gpu_file {
    struct gpu_desc gpu; /* its ctx is this struct, which stays where it is */
    int clusters;        /* of eight blocks, of a kernel that asks, at once */
    int clusters_of_4;   /* the same of four blocks or fewer */
    int n;
    struct {
        char name[GPU_FILE_NAME_BYTES];
        int static_shared_bytes;
    } kernels[GPU_FILE_KERNELS_MAX];
};

/* Ends the program with a message if the file is missing or damaged. */
void gpu_file_read(struct gpu_file *out, const char *path);

#endif
