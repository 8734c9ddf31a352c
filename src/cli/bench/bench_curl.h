/* HTTP requests of the benchmark, over libcurl. The library is looked for when it is needed:
 * nothing else of osprey talks to servers, and a program without it starts faster and runs
 * anywhere. */
#ifndef CLI_BENCH_BENCH_CURL_H
#define CLI_BENCH_BENCH_CURL_H

#include <stddef.h>

#include "base/status.h"

/* Bytes of the answer's body as they arrive, when its status is 200. */
typedef void bench_body_fn(void *ctx, const char *bytes, size_t n_bytes);

struct bench_call {
    const char *url, *body; /* body NULL: GET */
    const char *api_key;    /* may be NULL */
    long timeout_s;
    bench_body_fn *on_body;
    void *ctx;
};

/* Loads libcurl; OSP_EUNAVAILABLE says how to get it. From the main thread, once. */
CHECKED enum osp_status bench_curl_load(void);
/* From any thread after that. A status other than 200 is an error with what the server said. */
CHECKED enum osp_status bench_curl_call(const struct bench_call *call);

#endif
