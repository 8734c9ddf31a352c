/* Measures a streamed chat completion as it arrives: when its chunks come, and its usage. The
 * address must stay the same from init to release. */
#ifndef CLI_BENCH_BENCH_SSE_H
#define CLI_BENCH_BENCH_SSE_H

#include "cli/bench/bench.h"
#include "cli/client/sse_reader.h"

struct bench_sse {
    struct timeline *timeline; /* borrowed */
    struct sse_reader lines;
    uint64_t now_ns; /* of the bytes that are being read */
    bool failed;     /* the stream has an error event or an invalid line */
    char error[512];
};

void bench_sse_init(struct bench_sse *s, struct timeline *timeline);
void bench_sse_release(struct bench_sse *s);
void bench_sse_push(struct bench_sse *s, const char *bytes, size_t n_bytes, uint64_t now_ns);

#endif
