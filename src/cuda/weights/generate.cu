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

/* Bytes of a part whose pieces are not whole words. */
static __global__ void fill_part(unsigned char *out, const struct random_fill values, int64_t first,
                                 int64_t n)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        const int64_t at = random_part_at(&values.part, first + i);

        out[i] = (unsigned char)(random_word(&values, (uint64_t)(at / RANDOM_WORD_BYTES)) >>
                                 at % RANDOM_WORD_BYTES * 8);
    }
}

/* The part of a tensor as whole words: all its numbers are multiples of a word. */
static __global__ void fill_part_words(uint64_t *out, const struct random_fill values,
                                       int64_t first, int64_t n)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n / RANDOM_WORD_BYTES;
         i += (int64_t)gridDim.x * THREADS) {
        const int64_t at = random_part_at(&values.part, first + i * RANDOM_WORD_BYTES);

        out[i] = random_word(&values, (uint64_t)(at / RANDOM_WORD_BYTES));
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

static bool is_in_words(const struct random_part *p, int64_t first, int64_t n)
{
    return (p->first | p->whole | p->width | p->stride | p->length | first | n) %
               RANDOM_WORD_BYTES ==
           0;
}

void launch_generate(cudaStream_t stream, void *out, const struct random_fill *values,
                     int64_t first, int64_t n)
{
    const struct random_part *part = &values->part;
    int64_t n_blocks = (n / RANDOM_WORD_BYTES + THREADS) / THREADS;

    if (n_blocks > BLOCKS_MAX)
        n_blocks = BLOCKS_MAX;
    if (part->first != 0 || part->length != 0) {
        if (is_in_words(part, first, n))
            fill_part_words<<<(unsigned)n_blocks, THREADS, 0, stream>>>((uint64_t *)out, *values,
                                                                        first, n);
        else
            fill_part<<<(unsigned)n_blocks, THREADS, 0, stream>>>((unsigned char *)out, *values,
                                                                  first, n);
        return;
    }
    fill_random<<<(unsigned)n_blocks, THREADS, 0, stream>>>((unsigned char *)out, *values, first,
                                                            n);
}
