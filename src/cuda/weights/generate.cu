/* Generates synthetic weights on the device, by the same formula as the host
 * (backend/random_weights.h); one word of eight bytes per thread and iteration. Bound by integer
 * multiplications, a few instructions per byte. At start-up the packing that follows takes as
 * long. */
#include "cuda/launch/launch.h"

enum { THREADS = 256, BLOCKS_MAX = 4096 };

/* Stores the bytes of word i that are in [first, first + n). */
static __device__ void store_part(unsigned char *out, uint64_t word, int64_t i, int64_t first,
                                  int64_t n)
{
    for (int b = 0; b < RANDOM_WORD_BYTES; b++) {
        const int64_t at = i * RANDOM_WORD_BYTES + b - first;

        if (at >= 0 && at < n)
            out[at] = (unsigned char)(word >> 8 * b);
    }
}

static __global__ void fill_random(unsigned char *out, const struct random_fill values,
                                   int64_t first, int64_t n)
{
    const int64_t begin = first / RANDOM_WORD_BYTES;
    const int64_t end = (first + n + RANDOM_WORD_BYTES - 1) / RANDOM_WORD_BYTES;

    for (int64_t i = begin + (int64_t)blockIdx.x * THREADS + threadIdx.x; i < end;
         i += (int64_t)gridDim.x * THREADS) {
        const uint64_t word = random_word(&values, (uint64_t)i);
        const int64_t at = i * RANDOM_WORD_BYTES - first;

        if (first % RANDOM_WORD_BYTES == 0 && at + RANDOM_WORD_BYTES <= n)
            *reinterpret_cast<uint64_t *>(out + at) = word;
        else
            store_part(out, word, i, first, n);
    }
}

void launch_generate(cudaStream_t stream, void *out, const struct random_fill *values,
                     int64_t first, int64_t n)
{
    int64_t n_blocks = (n / RANDOM_WORD_BYTES + THREADS) / THREADS;

    if (n_blocks > BLOCKS_MAX)
        n_blocks = BLOCKS_MAX;
    fill_random<<<(unsigned)n_blocks, THREADS, 0, stream>>>((unsigned char *)out, *values, first,
                                                            n);
}
