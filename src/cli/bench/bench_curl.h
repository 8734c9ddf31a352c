/* HTTP requests of the benchmark, over libcurl. The library is loaded when it is needed: no other
 * command calls servers, so osprey starts faster and runs on machines without libcurl. */
#ifndef CLI_BENCH_BENCH_CURL_H
#define CLI_BENCH_BENCH_CURL_H

#include <stddef.h>

#include "base/status.h"

/* Called with bytes of the response body as they arrive, if the status is 200. */
typedef void bench_body_fn(void *ctx, const char *bytes, size_t n_bytes);

struct bench_call {
    const char *url, *body; /* body NULL: GET */
    const char *api_key;    /* may be NULL */
    long timeout_s;
    bench_body_fn *on_body;
    void *ctx;
};

/* Loads libcurl, once, from the main thread. OSP_EUNAVAILABLE names the package to install. */
CHECKED enum osp_status bench_curl_load(void);
/* From any thread after that. For a status other than 200 the error has the response's body. */
CHECKED enum osp_status bench_curl_call(const struct bench_call *call);

#endif
