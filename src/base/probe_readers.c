/* Loops that read memory: one, two or four streams, with registers of every width, with and without
 * prefetching. The fastest differs between CPUs, so all are tried. */
#include <string.h>

#include "base/probe.h"

enum { AHEAD_BYTES = 1024, LINE_BYTES = 64 };

/* A register of each width. */
typedef uint64_t words16 __attribute__((vector_size(16)));
typedef uint64_t words32 __attribute__((vector_size(32)));
typedef uint64_t words64 __attribute__((vector_size(64)));

#if defined(__x86_64__)
#define TARGET(level) __attribute__((target(level)))
#else
#define TARGET(level)
#endif

/* Two cache lines of a stream. Independent named sums, so that they are registers and no load waits
 * for another. */
#define READ_LINES(vector, from, PREFETCH)                                                         \
    {                                                                                              \
        const vector *at = (const vector *)(const void *)(from);                                   \
                                                                                                   \
        PREFETCH(from);                                                                            \
        PREFETCH((from) + LINE_BYTES);                                                             \
        a ^= at[0];                                                                                \
        b ^= at[1];                                                                                \
        if (sizeof(vector) <= LINE_BYTES / 2) {                                                    \
            c ^= at[2];                                                                            \
            d ^= at[3];                                                                            \
        }                                                                                          \
        if (sizeof(vector) <= LINE_BYTES / 4) {                                                    \
            a ^= at[4];                                                                            \
            b ^= at[5];                                                                            \
            c ^= at[6];                                                                            \
            d ^= at[7];                                                                            \
        }                                                                                          \
    }

/* Streams are parts of the memory that are read side by side, n bytes each. A core has more lines
 * in flight from memory when its prefetchers see several streams. */
#define STREAMS_1(vector, PREFETCH) READ_LINES(vector, data + i, PREFETCH)
#define STREAMS_2(vector, PREFETCH)                                                                \
    STREAMS_1(vector, PREFETCH)                                                                    \
    READ_LINES(vector, data + n + i, PREFETCH)
#define STREAMS_4(vector, PREFETCH)                                                                \
    STREAMS_2(vector, PREFETCH)                                                                    \
    READ_LINES(vector, data + 2 * n + i, PREFETCH)                                                 \
    READ_LINES(vector, data + 3 * n + i, PREFETCH)

#define READER(function, level, vector, n_streams, PREFETCH)                                       \
    TARGET(level) static uint64_t function(const void *from, size_t n_bytes)                       \
    {                                                                                              \
        const char *data = from;                                                                   \
        const size_t n = n_bytes / (n_streams);                                                    \
        vector a = {0}, b = {0}, c = {0}, d = {0};                                                 \
        uint64_t lanes[sizeof(vector) / sizeof(uint64_t)], result = 0;                             \
                                                                                                   \
        for (size_t i = 0; i < n; i += 2 * LINE_BYTES) {                                           \
            STREAMS_##n_streams(vector, PREFETCH)                                                  \
        }                                                                                          \
        a ^= b ^ c ^ d;                                                                            \
        memcpy(lanes, &a, sizeof lanes);                                                           \
        for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)                                  \
            result ^= lanes[i];                                                                    \
        return result;                                                                             \
    }

#define NO_PREFETCH(address)
#define PREFETCH(address) __builtin_prefetch((address) + AHEAD_BYTES)

#if defined(__x86_64__)
READER(one_avx2, "avx2", words32, 1, NO_PREFETCH)
READER(one_ahead_avx2, "avx2", words32, 1, PREFETCH)
READER(two_ahead_avx2, "avx2", words32, 2, PREFETCH)
READER(four_avx2, "avx2", words32, 4, NO_PREFETCH)
READER(four_ahead_avx2, "avx2", words32, 4, PREFETCH)
READER(one_avx512, "avx512f", words64, 1, NO_PREFETCH)
READER(four_avx512, "avx512f", words64, 4, NO_PREFETCH)
READER(four_ahead_avx512, "avx512f", words64, 4, PREFETCH)
#endif
READER(one_any, "sse2", words16, 1, NO_PREFETCH)
READER(four_any, "sse2", words16, 4, NO_PREFETCH)
READER(four_ahead_any, "sse2", words16, 4, PREFETCH)

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
        n = add(out, n, "AVX-512, four streams, prefetched", four_ahead_avx512);
    }
    if (__builtin_cpu_supports("avx2")) {
        n = add(out, n, "AVX2, one stream", one_avx2);
        n = add(out, n, "AVX2, one stream, prefetched", one_ahead_avx2);
        n = add(out, n, "AVX2, two streams, prefetched", two_ahead_avx2);
        n = add(out, n, "AVX2, four streams", four_avx2);
        return add(out, n, "AVX2, four streams, prefetched", four_ahead_avx2);
    }
#endif
    n = add(out, n, "one stream", one_any);
    n = add(out, n, "four streams", four_any);
    return add(out, n, "four streams, prefetched", four_ahead_any);
}
