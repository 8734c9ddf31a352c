/* Loops that read memory: one stream or four, with registers of every width, with and without
 * prefetching. Which is fastest differs from CPU to CPU, so all are tried. */
#include <string.h>

#include "base/probe.h"

enum { LANES = 8, AHEAD_VECTORS = 48 };

typedef uint64_t words
    __attribute__((vector_size(64))); /* LANES of them, in as many registers as need be */

#if defined(__x86_64__)
#define TARGET(level) __attribute__((target(level)))
#else
#define TARGET(level)
#endif

static inline __attribute__((always_inline)) uint64_t folded(const words *sum)
{
    uint64_t lanes[LANES], result = 0;

    memcpy(lanes, sum, sizeof lanes);
    for (int i = 0; i < LANES; i++)
        result ^= lanes[i];
    return result;
}

/* Independent sums, so that no load waits for another. */
#define READ_ONE(function, level, PREFETCH)                                                        \
    TARGET(level) static uint64_t function(const void *from, size_t n_bytes)                       \
    {                                                                                              \
        const words *data = from;                                                                  \
        const size_t n = n_bytes / sizeof(words);                                                  \
        words a = {0}, b = {0}, c = {0}, d = {0};                                                  \
                                                                                                   \
        for (size_t i = 0; i < n; i += 4) {                                                        \
            PREFETCH(&data[i + AHEAD_VECTORS]);                                                    \
            a ^= data[i];                                                                          \
            PREFETCH(&data[i + AHEAD_VECTORS + 1]);                                                \
            b ^= data[i + 1];                                                                      \
            PREFETCH(&data[i + AHEAD_VECTORS + 2]);                                                \
            c ^= data[i + 2];                                                                      \
            PREFETCH(&data[i + AHEAD_VECTORS + 3]);                                                \
            d ^= data[i + 3];                                                                      \
        }                                                                                          \
        a ^= b ^ c ^ d;                                                                            \
        return folded(&a);                                                                         \
    }

#define READ_FOUR(function, level)                                                                 \
    TARGET(level) static uint64_t function(const void *from, size_t n_bytes)                       \
    {                                                                                              \
        const words *data = from;                                                                  \
        const size_t n = n_bytes / sizeof(words) / 4;                                              \
        words a = {0}, b = {0}, c = {0}, d = {0};                                                  \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            a ^= data[i];                                                                          \
            b ^= data[n + i];                                                                      \
            c ^= data[2 * n + i];                                                                  \
            d ^= data[3 * n + i];                                                                  \
        }                                                                                          \
        a ^= b ^ c ^ d;                                                                            \
        return folded(&a);                                                                         \
    }

#define PREFETCH_NOT(address)
#define PREFETCH_READ(address) __builtin_prefetch(address)

#if defined(__x86_64__)
READ_ONE(one_avx2, "avx2", PREFETCH_NOT)
READ_ONE(one_avx2_prefetch, "avx2", PREFETCH_READ)
READ_FOUR(four_avx2, "avx2")
READ_ONE(one_avx512, "avx512f", PREFETCH_NOT)
READ_FOUR(four_avx512, "avx512f")
#endif
READ_ONE(one_any, "sse2", PREFETCH_NOT)
READ_FOUR(four_any, "sse2")

static int add(struct probe_reader *out, int n, const char *name,
               uint64_t (*run)(const void *data, size_t n_bytes))
{
    out[n] = (struct probe_reader){name, run};
    return n + 1;
}

int probe_readers(struct probe_reader out[PROBE_READERS_MAX])
{
    int n = 0;

#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        n = add(out, n, "AVX-512, one stream", one_avx512);
        n = add(out, n, "AVX-512, four streams", four_avx512);
    }
    if (__builtin_cpu_supports("avx2")) {
        n = add(out, n, "AVX2, one stream", one_avx2);
        n = add(out, n, "AVX2, one stream, prefetched", one_avx2_prefetch);
        n = add(out, n, "AVX2, four streams", four_avx2);
        return n;
    }
#endif
    n = add(out, n, "one stream", one_any);
    return add(out, n, "four streams", four_any);
}
