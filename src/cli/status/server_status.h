/* What a server does, from /health, /version, /v1/models and /metrics. */
#ifndef CLI_STATUS_SERVER_STATUS_H
#define CLI_STATUS_SERVER_STATUS_H

#include <stdint.h>

#include "cli/client/client_server.h"
#include "cli/client/prometheus.h"

/* X(member, name of the metric): vLLM's names where vLLM has the metric */
#define STATUS_METRIC_LIST(X)                                                                      \
    X(RUNNING, "vllm:num_requests_running")                                                        \
    X(WAITING, "vllm:num_requests_waiting")                                                        \
    X(SEQS_MAX, "osprey:max_num_seqs")                                                             \
    X(BACKLOG, "osprey:backlog_seconds")                                                           \
    X(DONE, "osprey:requests_done_total")                                                          \
    X(FINISHED, "vllm:request_success_total")                                                      \
    X(FAILED, "osprey:requests_failed_total")                                                      \
    X(REFUSED, "osprey:requests_refused_total")                                                    \
    X(PROMPT_TOKENS, "vllm:prompt_tokens_total")                                                   \
    X(GENERATED_TOKENS, "vllm:generation_tokens_total")                                            \
    X(KV_USAGE, "vllm:kv_cache_usage_perc")                                                        \
    X(KV_PAGES, "osprey:kv_pages")                                                                 \
    X(KV_PAGES_USED, "osprey:kv_pages_used")                                                       \
    X(KV_PAGES_CACHED, "osprey:kv_pages_cached")                                                   \
    X(PREEMPTIONS, "vllm:num_preemptions_total")                                                   \
    X(CACHE_QUERIES, "vllm:prefix_cache_queries_total")                                            \
    X(CACHE_HITS, "vllm:prefix_cache_hits_total")                                                  \
    X(WEIGHT_BYTES, "osprey:weight_bytes")                                                         \
    X(KV_CACHE_BYTES, "osprey:kv_cache_bytes")                                                     \
    X(RESIDENT_BYTES, "process_resident_memory_bytes")                                             \
    X(START_TIME, "process_start_time_seconds")

enum status_metric {
#define STATUS_ENUM(member, name) STATUS_##member,
    STATUS_METRIC_LIST(STATUS_ENUM)
#undef STATUS_ENUM
        STATUS_N_METRICS
};

enum { STATUS_TEXT_BYTES_MAX = 256, STATUS_ERROR_BYTES_MAX = 1024 };

/* The state of a server at one time. Values that the server does not report are "" or negative. */
struct server_status {
    bool is_reachable;                  /* it has answered */
    bool is_healthy;                    /* /health is 200, and the key was not refused */
    char state[STATUS_TEXT_BYTES_MAX];  /* "ok", "loading", ... */
    char reason[STATUS_TEXT_BYTES_MAX]; /* of a state other than ok */
    char version[STATUS_TEXT_BYTES_MAX], model[STATUS_TEXT_BYTES_MAX];
    char error[STATUS_ERROR_BYTES_MAX]; /* why it is not healthy, or what could not be read */
    int n_models;
    double context_tokens_max, uptime_s;
    struct metric metrics[STATUS_N_METRICS];
    uint64_t time_ns; /* clock_ns() at which the metrics were read */
};

/* Does not fail: what went wrong is in `out`. */
void server_status_read(struct server_status *out, const struct client_server *s);
/* Reads /health alone, which needs no API key. */
void server_status_read_health(struct server_status *out, const struct client_server *s);

/* Values below 0: not known. */
double status_value(const struct server_status *now, enum status_metric id);
/* Growth of a counter in one second, between two moments; `before` NULL: not known. A server that
 * was started again in between begins at zero. */
double status_rate(const struct server_status *now, const struct server_status *before,
                   enum status_metric id);
double status_kv_usage(const struct server_status *now); /* 0 to 1, the mean of all engines */
double status_hit_rate(const struct server_status *now); /* 0 to 1, of the prefix cache */
double status_requests_done(const struct server_status *now);

#endif
