/* `osprey bench`: requests of known length, timed as a client sees them. Defines the targets that
 * run requests, the times of one request, and the report. The metrics are llama-benchy's and, for
 * percentiles, those of vLLM's serving benchmark (docs/bench.md). */
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/probe.h"
#include "base/status.h"
#include "cli/bench/bench_samples.h"
#include "osprey_tools.h"

enum {
    BENCH_CASES_MAX = 256,
    BENCH_LIST_MAX = 32, /* values of --pp, --tg, --depth, --concurrency */
    BENCH_CONCURRENCY_MAX = 1024,
    BENCH_REQUESTS_MAX = 16384, /* of a run */
    BENCH_STAGES_MAX = 32
};

/* A case: prompts of depth + pp tokens, outputs of tg tokens, number of concurrent requests. */
struct bench_case {
    int pp_tokens, tg_tokens, depth_tokens, concurrency;
};

/* ---- one request ---- */

struct bench_prompt {
    int n_tokens, n_answer_tokens;
    uint64_t seed; /* every request has another prompt, so that no prefix cache has it */
};

/* Times of the stages during a request that ran alone. */
struct stage_split {
    int n_stages;
    struct osp_stage_cost prefill[BENCH_STAGES_MAX], decode[BENCH_STAGES_MAX];
    int64_t n_decode_steps;
    double prefill_seconds, decode_seconds; /* by the engine's clock, first row to last token */
};

/* As the client sees a request; times are clock_ns(). */
struct timeline {
    uint64_t start_ns;
    uint64_t first_chunk_ns; /* the first with choices, even without text */
    uint64_t end_ns;
    uint64_t *chunk_ns; /* (n_chunks): pieces of text, of any kind */
    size_t n_chunks, n_chunks_max;
    int n_prompt_tokens, n_tokens; /* by the engine's count; 0: unknown */
    int n_prompt_asked, n_asked;   /* requested; 0: as the case says */
    struct stage_split *split;     /* NULL: not requested, or unknown */
};

void timeline_release(struct timeline *t);
void timeline_add_chunk(struct timeline *t, uint64_t now_ns);

/* ---- sources of answers ---- */

struct bench_job; /* a prepared prompt, of the source's own kind */

struct bench_step_time {
    double steps_seconds, backend_seconds;
};

/* Counters of the engine. X(name, metric of a server) */
#define BENCH_STEPS_OF(X, kind)                                                                    \
    X(kind##_steps, "osprey:" #kind "_steps_total")                                                \
    X(kind##_graphs, "osprey:" #kind "_steps_graph_total")                                         \
    X(kind##_rows, "osprey:" #kind "_step_rows_total")                                             \
    X(kind##_seconds, "osprey:" #kind "_step_seconds_total")
#define BENCH_ENGINE_LIST(X)                                                                       \
    BENCH_STEPS_OF(X, decode)                                                                      \
    BENCH_STEPS_OF(X, prefill)                                                                     \
    BENCH_STEPS_OF(X, mixed)                                                                       \
    X(idle_seconds, "osprey:device_idle_seconds_total")                                            \
    X(preemptions, "vllm:num_preemptions_total")                                                   \
    X(first_tokens, "vllm:time_to_first_token_seconds_count")                                      \
    X(first_token_seconds, "vllm:time_to_first_token_seconds_sum")                                 \
    X(admissions, "vllm:request_queue_time_seconds_count")                                         \
    X(queue_seconds, "vllm:request_queue_time_seconds_sum")

enum bench_engine_value {
#define BENCH_ENGINE_ENUM(name, metric) BENCH_##name,
    BENCH_ENGINE_LIST(BENCH_ENGINE_ENUM)
#undef BENCH_ENGINE_ENUM
        BENCH_N_ENGINE
};
struct bench_engine {
    double at[BENCH_N_ENGINE];
};

/* One kind: the engine in this process, or a server. prepare() is not timed. run() is called
 * once per job, several concurrently; it fills the timeline, and *split if that is not NULL. */
struct bench_source {
    void *self;
    const char *latency_mode; /* "none" or "api" */
    double latency_seconds;   /* of a request without inference; subtracted for est_ppt */
    enum osp_status (*prepare)(void *self, struct bench_job **out, const struct bench_prompt *p);
    enum osp_status (*run)(void *self, struct bench_job *job, struct timeline *out);
    void (*drop)(void *self, struct bench_job *job);
    /* Time of the engine's steps so far, and the part in the backend; NULL: unknown. */
    struct bench_step_time (*step_time)(void *self);
    /* The engine's counters so far; false: the server does not have them all. */
    bool (*engine)(void *self, struct bench_engine *out);
};

/* Costs of the stages so far, as of a finished step. */
struct bench_snapshot {
    struct osp_stage_cost costs[BENCH_STAGES_MAX];
    int n;
};

/* The engine in this process. */
struct bench_local {
    struct osp_model *model; /* borrowed */
    struct osp_engine *engine;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool wants_snapshot; /* under the lock, as is `first`: the costs at the next token */
    struct bench_snapshot first;
    int64_t n_steps_before;
    double draft_acceptance; /* negative: no replay */
};
struct bench_local_options {
    bool no_async_scheduling;
    struct osp_speculative speculative;
    /* Each answer is recorded once, without being measured, and then predicted with tokens that are
     * right with this probability; negative: no. */
    double draft_acceptance;
};
/* `out` must not move until it is closed. */
CHECKED enum osp_status bench_local_open(struct bench_local *out, struct osp_model *model,
                                         const struct bench_local_options *opt);
void bench_local_close(struct bench_local *l); /* accepts a zeroed one */
struct bench_source bench_local_source(struct bench_local *local);

/* A server with the OpenAI chat completions API. */
struct bench_http;
struct bench_http_options {
    const char *url;   /* "http://127.0.0.1:8000", with or without /v1 */
    const char *model; /* NULL: the first of /v1/models */
    const char *api_key;
    bool plain_body; /* only fields of the OpenAI API: some servers refuse others */
};
CHECKED enum osp_status bench_http_open(struct bench_http **out,
                                        const struct bench_http_options *opt);
void bench_http_close(struct bench_http *h);              /* accepts NULL */
const char *bench_http_model(const struct bench_http *h); /* owned by h */
struct bench_source bench_http_source(struct bench_http *h);

/* ---- results ---- */

/* Speeds in tokens per second, times in seconds, shares of 1. One value per run; the second list
 * and names with _req have one value per request. */
#define BENCH_RUN_LIST(X)                                                                          \
    X(pp_throughput)                                                                               \
    X(pp_req_throughput)                                                                           \
    X(tg_throughput)                                                                               \
    X(tg_req_throughput)                                                                           \
    X(peak_throughput)                                                                             \
    X(peak_req_throughput)                                                                         \
    X(output_throughput)                                                                           \
    X(ttfr)                                                                                        \
    X(est_ppt)                                                                                     \
    X(e2e_ttft)                                                                                    \
    X(outside_share)
#define BENCH_REQUEST_LIST(X) X(ttft) X(tpot) X(itl) X(e2el)

struct bench_row {
    struct bench_case c;
#define BENCH_MEMBER(name) struct samples name;
    BENCH_RUN_LIST(BENCH_MEMBER)
    BENCH_REQUEST_LIST(BENCH_MEMBER)
#undef BENCH_MEMBER
    int n_requests, n_failed, n_short; /* short: output has fewer tokens than requested */
    int n_prompt_tokens, n_tokens;     /* of the last request, by the engine's count */
    char error[512];                   /* of the first failure */
    bool has_split;
    struct stage_split split; /* summed over the runs */
    int n_split_runs;
    bool has_engine;
    struct bench_engine engine; /* what the runs added to each counter */
};
void bench_row_release(struct bench_row *r);

struct bench_run_options {
    int n_runs, n_warmups;
    int n_requests;      /* of a run, of which at most `concurrency` run at once; 0: as many */
    double request_rate; /* mean arrivals a second, at random (Poisson); 0: all at once */
    double range_ratio;  /* lengths are uniform in (1 - r) n to (1 + r) n */
    uint64_t seed;
    bool stages;
    struct probe_run *probe_run; /* reads memory before every run and after the last; may be NULL */
};

/* The longest of lengths around n: (1 + range_ratio) n. */
int bench_length_max(int n, double range_ratio);
/* Measures one case; failures of requests are counted in the row, not returned. */
void bench_run_case(struct bench_row *out, const struct bench_case *c,
                    const struct bench_source *source, const struct bench_run_options *opt);
/* Computes the values of one run from n timelines of requests that began together. */
void bench_add_run(struct bench_row *row, const struct timeline *timelines, size_t n,
                   double latency_seconds);

/* ---- counters of the engine: bench_engine.c ---- */

/* From a server's /metrics; false: some are missing. */
bool bench_engine_parse(struct bench_engine *out, const char *metrics, size_t n_bytes);
void bench_engine_read(struct bench_engine *out, const struct osp_engine *engine);
void bench_engine_add(struct bench_row *row, const struct bench_engine *before,
                      const struct bench_engine *after);
struct buf;
void bench_engine_json(struct buf *b, const struct bench_row *row); /* a member of the row */
void bench_engine_print(FILE *out, const struct bench_row *row);    /* a line */

/* ---- the machine and the process ---- */

struct bench_machine {
    char cpu[128], flags[256], kernel[128], host[64];
    int n_cpus, n_usable_cpus;
    double clock_mhz_min, clock_mhz_max; /* of the CPUs, now */
    int64_t memory_bytes, available_bytes;
};
void bench_machine_read(struct bench_machine *out);

/* Of a process by its id; 0: this one. False: there is no such process. */
struct bench_process {
    double seconds_alive, cpu_seconds;
    int64_t peak_bytes, resident_bytes, anonymous_bytes;
};
bool bench_process_read(struct bench_process *out, int pid);

/* Identifies the measured weights: a hash of the model's name and layers, config.json, and the
 * names and sizes of the checkpoint's files, not of their contents; of GGUF, the sizes. folder: the
 * checkpoint's folder or GGUF file. */
void bench_model_hash(char out[17], const char *folder, const char *name, int n_layers);

/* ---- reports ---- */

struct bench_quality {
    bool measured;
    double perplexity, reference_perplexity, kl_mean, kl_p99, same_top;
    int64_t n_tokens;
};

enum { BENCH_KERNELS_MAX = 512, BENCH_ROUTINGS = 4 };

/* Mean number of distinct experts that n_tokens tokens activate per layer. */
struct bench_routing {
    int n_tokens;
    double mean, uniform;
};

struct bench_report {
    const struct bench_row *rows; /* (n_rows) */
    size_t n_rows;
    const char *model, *path, *device, *url, *command;
    const char *kv_cache_dtype; /* NULL: unknown */
    const char *latency_mode;
    double latency_seconds;
    char model_hash[17], date[24];
    uint64_t seed;
    int n_runs, n_threads, n_layers;
    double request_rate, range_ratio;
    int64_t weight_bytes, kv_cache_bytes, n_parameters;
    struct bench_machine machine;
    double load_seconds, ready_seconds, first_token_seconds; /* 0: unknown */
    bool has_process;
    struct bench_process process; /* at the end */
    double cpus_busy;             /* while measuring */
    bool has_probe;
    struct probe probe;
    struct bench_quality quality;
    struct osp_kernel_use *kernels; /* (n_kernels); NULL: not asked for */
    int n_kernels;
    struct bench_routing routing[BENCH_ROUTINGS];
    bool has_routing;
};

void bench_print_md(FILE *out, const struct bench_report *r);
void bench_print_csv(FILE *out, const struct bench_report *r);
void bench_print_json(FILE *out, const struct bench_report *r);
/* Bandwidth of decode steps as a share of the probe's between the runs; 0: unknown. */
double bench_read_share(const struct bench_row *row, const struct probe *probe);
void bench_print_stages(FILE *out, const struct bench_row *row, const struct probe *probe);

void bench_print_kernels(FILE *out, const struct bench_report *r);
void bench_print_routing(FILE *out, const struct bench_report *r);

/* One line of the table of stages, for every format. */
struct stage_line {
    const char *stage;
    double ms, percent; /* of a decode step, or of the whole prefill */
    double bytes, gb_per_s, flops, roof_percent;
};
enum { STAGE_LINES_MAX = BENCH_STAGES_MAX + 1 };
/* Lines of the prefill or of a decode step; the last one is the time outside of all stages. */
int bench_stage_lines(struct stage_line out[STAGE_LINES_MAX], const struct bench_row *row,
                      bool decode, const struct probe *probe);

/* ---- earlier results ---- */

struct saved_row {
    struct bench_case c;
    double pp, tg, ttft_p50; /* tokens per second; seconds */
};
struct saved_bench {
    char *model, *label;
    struct saved_row rows[BENCH_CASES_MAX];
    int n_rows;
    int64_t peak_bytes;
    double ready_seconds;
    bool has_quality;
    double perplexity, kl_mean, kl_p99, same_top;
};
CHECKED enum osp_status saved_bench_parse(struct saved_bench *out, const char *json, size_t n_bytes,
                                          const char *name);
CHECKED enum osp_status saved_bench_read(struct saved_bench *out, const char *path);
void saved_bench_release(struct saved_bench *s);

/* Prints the differences and returns the number of regressions beyond the limits. */
int bench_compare(FILE *out, const struct saved_bench *a, const struct saved_bench *b);

/* Plots speed over context and over concurrency, one line per result. */
CHECKED enum osp_status bench_plot(const char *path, const struct saved_bench *const *series,
                                   int n_series);

/* ---- the matrix ---- */

enum { MATRIX_AXES_MAX = 16, MATRIX_VALUES_MAX = 32, MATRIX_CELLS_MAX = 512 };
struct matrix_axis {
    char *flag;
    char *values[MATRIX_VALUES_MAX];
    int n_values;
};
struct matrix {
    struct matrix_axis axes[MATRIX_AXES_MAX];
    int n_axes, n_cells;
};
CHECKED enum osp_status matrix_parse(struct matrix *out, const char *text, const char *name);
void matrix_release(struct matrix *m);
/* Value of axis `axis` in combination `cell`. */
const char *matrix_value(const struct matrix *m, int cell, int axis);
/* Runs every combination in a process of its own with argv and the combination's options. Sets the
 * number of failures. */
CHECKED enum osp_status matrix_run(const struct matrix *m, char **argv, int argc, FILE *out,
                                   const char *format, int *n_failed);

#endif
