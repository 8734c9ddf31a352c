/* Cycles an instruction of straight-line code of 16 to 256 KB, on all SMs, with one and two warps a
 * scheduler: the first pass behind a kernel that reads 60 MB, later passes of the same launch, and
 * the first pass of a launch directly behind. It says how much code the kernels of a layer may have.
 *
 *     nvcc -O2 -arch=sm_90a -Isrc -o build/instruction_cache_cuda bench/instruction_cache_cuda.cu
 *     build/instruction_cache_cuda */
#include <cstdio>

#include "check_cuda.h"

enum {
    PASSES = 4,
    REPEATS = 5, /* the first one is not counted */
    WARP = 32,
    INSTRUCTION_BYTES = 16,
    STREAM_BYTES = 60 << 20,
    CHAINS = 4
};

/* N fused multiply-adds in a row, PASSES times. */
template <int N> static __global__ void run_code(float *out, long long *cycles, float a, float b)
{
    float x[CHAINS] = {a, b, a + b, a - b};

    for (int pass = 0; pass < PASSES; pass++) {
        const long long begin = clock64();

#pragma unroll
        for (int i = 0; i < N; i++)
            x[i % CHAINS] = fmaf(x[i % CHAINS], a, b);
        if (threadIdx.x == 0)
            cycles[blockIdx.x * PASSES + pass] = clock64() - begin;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x[0] + x[1] + x[2] + x[3];
}

static __global__ void read_all(const uint4 *in, float *out, int n)
{
    unsigned sum = 0;

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i].x ^ in[i].y ^ in[i].z ^ in[i].w;
    if (sum == 0x12345678u) /* never true; keeps the compiler from removing the loads */
        *out = 1;
}

struct buffers {
    float *out;
    long long *cycles;
    uint4 *data;
    int n_sms;
};

static double sum_of_pass(const struct buffers *b, int pass)
{
    double sum = 0;

    CHECK(cudaDeviceSynchronize());
    for (int block = 0; block < b->n_sms; block++)
        sum += (double)b->cycles[block * PASSES + pass];
    return sum;
}

template <int N> static void measure(const struct buffers *b, int n_warps)
{
    const double n = (double)(REPEATS - 1) * b->n_sms * N;
    double first = 0, second = 0, last = 0, next = 0;

    for (int i = 0; i < REPEATS; i++) {
        read_all<<<2 * b->n_sms, 512>>>(b->data, b->out, STREAM_BYTES / (int)sizeof(uint4));
        run_code<N><<<b->n_sms, n_warps * WARP>>>(b->out, b->cycles, 1.0001f, 0.5f);
        if (i > 0) {
            first += sum_of_pass(b, 0);
            second += sum_of_pass(b, 1);
            last += sum_of_pass(b, PASSES - 1);
        }
        run_code<N><<<b->n_sms, n_warps * WARP>>>(b->out, b->cycles, 1.0001f, 0.5f);
        next += i > 0 ? sum_of_pass(b, 0) : 0;
    }
    printf("%4d KB, %d warps: first pass after 60 MB %.2f, second %.2f, fourth %.2f; next launch "
           "%.2f\n",
           N * INSTRUCTION_BYTES >> 10, n_warps, first / n, second / n, last / n, next / n);
}

int main(void)
{
    struct buffers b;
    struct cudaDeviceProp properties;

    CHECK(cudaGetDeviceProperties(&properties, 0));
    b.n_sms = properties.multiProcessorCount;
    CHECK(cudaMalloc(&b.out, (size_t)b.n_sms * 1024 * sizeof(float)));
    CHECK(cudaMallocHost(&b.cycles, (size_t)b.n_sms * PASSES * sizeof(long long)));
    CHECK(cudaMalloc(&b.data, STREAM_BYTES));
    CHECK(cudaMemset(b.data, 1, STREAM_BYTES));
    for (int n_warps = 4; n_warps <= 8; n_warps *= 2) {
        measure<1024>(&b, n_warps);
        measure<2048>(&b, n_warps);
        measure<4096>(&b, n_warps);
        measure<6144>(&b, n_warps);
        measure<8192>(&b, n_warps);
        measure<10240>(&b, n_warps);
        measure<16384>(&b, n_warps);
    }
    return 0;
}
