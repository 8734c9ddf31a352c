/* Generates synthetic weights on the device, by the same formula as the host
 * (backend/random_weights.h); one word of eight bytes per thread and iteration. Bound by integer
 * multiplications, a few instructions per byte. At start-up the packing that follows takes as
 * long. */
#include "cuda/launch/launch.h"

enum { THREADS = 256, BLOCKS_MAX = 4096 };

/* Bytes of a tensor, or of a part of it, that are not whole words: those of small vectors. */
static __global__ void fill_bytes(unsigned char *out, const struct random_fill values,
                                  int64_t first, int64_t n)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        const int64_t at = random_part_at(&values.part, first + i);

        out[i] = (unsigned char)(random_word(&values, (uint64_t)(at / RANDOM_WORD_BYTES)) >>
                                 at % RANDOM_WORD_BYTES * 8);
    }
}

/* Whole words: all numbers of the part, `first` and n are multiples of a word. */
static __global__ void fill_words(uint64_t *out, const struct random_fill values, int64_t first,
                                  int64_t n)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n / RANDOM_WORD_BYTES;
         i += (int64_t)gridDim.x * THREADS) {
        const int64_t at = random_part_at(&values.part, first + i * RANDOM_WORD_BYTES);

        out[i] = random_word(&values, (uint64_t)(at / RANDOM_WORD_BYTES));
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
    int64_t n_blocks = (n / RANDOM_WORD_BYTES + THREADS) / THREADS;

    if (n_blocks > BLOCKS_MAX)
        n_blocks = BLOCKS_MAX;
    if (is_in_words(&values->part, first, n))
        fill_words<<<(unsigned)n_blocks, THREADS, 0, stream>>>((uint64_t *)out, *values, first, n);
    else
        fill_bytes<<<(unsigned)n_blocks, THREADS, 0, stream>>>((unsigned char *)out, *values, first,
                                                               n);
}
