/* /metrics: metrics of the engine and of the server in Prometheus text format. A metric that
 * vLLM has as well uses vLLM's name, so that dashboards made for vLLM work. */
#include "serve/core/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/process_stats.h"
#include "serve/stored/response_conversations.h"
#include "serve/stored/response_events.h"
#include "serve/stored/response_store.h"

enum {
    METRICS_BYTES_MAX = 256 << 10, /* of a server with one replica */
    REPLICA_BYTES_MAX = 128 << 10, /* more for each other one */
    LABEL_BYTES_MAX = 1024
};

/* A replica; the whole engine where there is one. */
struct replica_data {
    struct osp_engine_stats stats;
    struct osp_engine_metrics engine;
    struct osp_engine_health health;
    const struct server *server;
    struct buf labels; /* model_name and engine, the replica's number */
};

struct metrics_data {
    struct replica_data *replicas; /* (n_replicas) owned */
    int n_replicas;
    struct osp_replay_stats replay;
    struct http_counts http;
    struct process_stats process;
    struct response_counts stored;
    const struct server *server;
};

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* X(name, type, help, value): metrics of a replica, with the labels model_name and engine. */
#define REPLICA_LIST(X)                                                                            \
    X("vllm:num_requests_running", "gauge", "Requests in the running batch.", f->stats.n_running)  \
    X("vllm:num_requests_waiting", "gauge", "Requests waiting in the queue.", f->stats.n_waiting)  \
    X("vllm:kv_cache_usage_perc", "gauge", "Fraction of the KV cache pages in use, 0 to 1.",       \
      share(f->stats.pages_used, f->stats.pages_total))                                            \
    X("vllm:gpu_cache_usage_perc", "gauge",                                                        \
      "The same as vllm:kv_cache_usage_perc, under its older name, which routers read.",           \
      share(f->stats.pages_used, f->stats.pages_total))                                            \
    X("osprey:kv_pages_used", "gauge", "KV cache pages in use.", f->stats.pages_used)              \
    X("osprey:kv_pages_cached", "gauge", "KV cache pages held only by the prefix cache.",          \
      f->stats.pages_cached)                                                                       \
    X("osprey:kv_pages", "gauge", "KV cache pages in total.", f->stats.pages_total)                \
    X("osprey:max_num_seqs", "gauge", "Maximum number of running requests.", f->stats.n_seqs_max)  \
    X("osprey:weight_bytes", "gauge", "Memory of the weights.", f->server->info.weight_bytes)      \
    X("osprey:kv_cache_bytes", "gauge", "Memory of the KV cache.", f->server->info.kv_cache_bytes) \
    X("osprey:backlog_seconds", "gauge",                                                           \
      "Backlog of queued work in seconds at the recent token rate; 0: not measured yet.",          \
      f->engine.backlog_seconds)                                                                   \
    X("osprey:engine_up", "gauge", "1 while this replica is ok, else 0.",                          \
      f->health.state == OSP_ENGINE_OK)                                                            \
    X("osprey:engine_restarts_total", "counter", "Restarts of the engine after a device failure.", \
      f->health.n_restarts)                                                                        \
    X("vllm:prompt_tokens_total", "counter",                                                       \
      "Prompt tokens computed; tokens found in the prefix cache are not counted.",                 \
      f->stats.n_prompt_tokens)                                                                    \
    X("vllm:prefix_cache_queries_total", "counter",                                                \
      "Prompt tokens looked up in the prefix cache.",                                              \
      f->stats.n_prompt_tokens + f->stats.n_cached_tokens)                                         \
    X("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.",       \
      f->stats.n_cached_tokens)                                                                    \
    X("vllm:gpu_prefix_cache_queries_total", "counter",                                            \
      "The same as vllm:prefix_cache_queries_total, under its older name, which routers read.",    \
      f->stats.n_prompt_tokens + f->stats.n_cached_tokens)                                         \
    X("vllm:gpu_prefix_cache_hits_total", "counter",                                               \
      "The same as vllm:prefix_cache_hits_total, under its older name, which routers read.",       \
      f->stats.n_cached_tokens)                                                                    \
    X("vllm:num_preemptions_total", "counter", "Preemptions of running requests.",                 \
      f->stats.n_preemptions)                                                                      \
    X("osprey:swapped_pages_total", "counter",                                                     \
      "KV cache pages swapped to host memory by preemptions.", f->stats.n_swapped_pages)           \
    X("vllm:generation_tokens_total", "counter", "Tokens generated.", f->stats.n_generated_tokens) \
    X("vllm:spec_decode_num_drafts_total", "counter", "Drafts of a request that a step verified.", \
      f->stats.drafts.n_proposals)                                                                 \
    X("vllm:spec_decode_num_draft_tokens_total", "counter", "Draft tokens verified.",              \
      f->stats.drafts.n_draft_tokens)                                                              \
    X("vllm:spec_decode_num_accepted_tokens_total", "counter",                                     \
      "Draft tokens that became tokens of an answer.", f->stats.drafts.n_accepted_tokens)          \
    X("osprey:steps_total", "counter", "Engine steps.", f->stats.n_steps)                          \
    X("osprey:device_seconds_total", "counter",                                                    \
      "Time from the begin of a step to its results, summed over all steps.",                      \
      f->stats.device_seconds)                                                                     \
    X("osprey:device_idle_seconds_total", "counter",                                               \
      "Time without a step on the device although there was work.", f->stats.device_idle_seconds)  \
    X("osprey:kv_event_batches_total", "counter", "Batches published by --kv-events-config.",      \
      f->stats.n_kv_event_batches)                                                                 \
    X("osprey:kv_events_dropped_total", "counter",                                                 \
      "Changes of the prefix cache that were not published, as the queue was full.",               \
      f->stats.n_kv_events_dropped)                                                                \
    X("osprey:requests_done_total", "counter", "Requests that have ended, for any reason.",        \
      f->stats.n_requests_done)                                                                    \
    X("osprey:requests_failed_total", "counter", "Requests that ended with an error.",             \
      f->engine.n_failed)

/* The same for metrics of the server; engine is 0. */
#define SERVER_LIST(X)                                                                             \
    X("osprey:replay_hits_total", "counter",                                                       \
      "Earlier answers of conversations that were rendered from their generated tokens.",          \
      f->replay.n_hits)                                                                            \
    X("osprey:replay_misses_total", "counter",                                                     \
      "Earlier answers of conversations that were rendered from their text.", f->replay.n_misses)  \
    X("osprey:replay_evictions_total", "counter", "Answers evicted from the completion cache.",    \
      f->replay.n_evictions)                                                                       \
    X("osprey:replay_answers", "gauge", "Answers in the completion cache.", f->replay.n_answers)   \
    X("osprey:replay_bytes", "gauge", "Memory of the completion cache.", f->replay.n_bytes)        \
    X("osprey:stored_responses", "gauge", "Responses in the store of /v1/responses.", f->stored.n) \
    X("osprey:stored_responses_bytes", "gauge", "Memory of the stored responses.",                 \
      f->stored.n_bytes)                                                                           \
    X("osprey:conversations", "gauge", "Conversations in the store of /v1/conversations.",         \
      conversations_count(f->server->conversations))                                               \
    X("osprey:background_responses", "gauge", "Background responses that have not finished.",      \
      backgrounds_running(f->server->backgrounds))                                                 \
    X("osprey:requests_refused_total", "counter", "Requests refused with status 429.",             \
      f->server->n_refused)                                                                        \
    X("osprey:tokenize_requests", "gauge",                                                         \
      "Requests of /tokenize and /detokenize that wait or run.", f->server->tokens.n)              \
    X("osprey:tokenize_canceled_total", "counter",                                                 \
      "Requests of /tokenize and /detokenize canceled by a disconnect or by the shutdown.",        \
      f->server->tokens.n_canceled)                                                                \
    X("osprey:requests_over_time_total", "counter", "Requests aborted by --request-time-limit.",   \
      f->server->n_timed_out)

/* Metrics of the process, without labels. */
#define PROCESS_LIST(X)                                                                            \
    X("process_resident_memory_bytes", "gauge", "Resident memory.", f->process.resident_bytes)     \
    X("process_virtual_memory_bytes", "gauge", "Virtual memory.", f->process.virtual_bytes)        \
    X("process_open_fds", "gauge", "Open file descriptors.", f->process.n_files)                   \
    X("process_cpu_seconds_total", "counter", "User and system CPU time.", f->process.cpu_seconds) \
    X("process_start_time_seconds", "gauge", "Unix time at which the server became ready.",        \
      f->server->start_unix_s)

/* X(finished_reason, value), with vLLM's names of the reasons. */
#define FINISH_LIST(X)                                                                             \
    X("stop", f->engine.n_stopped)                                                                 \
    X("length", f->engine.n_length)                                                                \
    X("abort", f->engine.n_canceled)                                                               \
    X("error", f->engine.n_failed)

static void put_help(struct buf *out, const char *name, const char *type, const char *text)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, text, name, type);
}

/* Prometheus requires escapes for backslash, double quote and line feed in a label value. */
static void put_label_value(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            buf_putc(out, '\\');
        if (*text == '\n')
            buf_puts(out, "\\n");
        else
            buf_putc(out, *text);
    }
}

/* X(name, ending of the help text, value) of the steps of one kind. */
#define STEP_LIST(X)                                                                               \
    X("steps_total", "", s->n)                                                                     \
    X("steps_graph_total", " that were one launch of a CUDA graph", s->n_graphs)                   \
    X("step_rows_total", ": their rows", s->n_rows)                                                \
    X("step_seconds_total", ": their time", s->seconds)

static void put_steps(struct buf *out, const struct metrics_data *all, enum osp_step_kind of,
                      const char *kind, const char *text)
{
#define PUT(name, ending, value)                                                                   \
    buf_printf(out, "# HELP osprey:%s_%s %s%s.\n# TYPE osprey:%s_%s counter\n", kind, name, text,  \
               ending, kind, name);                                                                \
    for (const struct replica_data *f = all->replicas; f < all->replicas + all->n_replicas; f++) { \
        const struct osp_step_stats *s = &f->stats.steps[of];                                      \
                                                                                                   \
        buf_printf(out, "osprey:%s_%s{%s} %.17g\n", kind, name, buf_text(&f->labels),              \
                   (double)(value));                                                               \
    }
    STEP_LIST(PUT)
#undef PUT
}

static void put_replicas(struct buf *out, const struct metrics_data *all)
{
    const struct replica_data *const end = all->replicas + all->n_replicas, *f;

#define PUT(name, type, text, value)                                                               \
    put_help(out, name, type, text);                                                               \
    for (f = all->replicas; f < end; f++)                                                          \
        buf_printf(out, "%s{%s} %.17g\n", name, buf_text(&f->labels), (double)(value));
    REPLICA_LIST(PUT)
#undef PUT
#define PUT_STEPS(member, kind, text) put_steps(out, all, member, kind, text);
    OSP_STEP_KIND_LIST(PUT_STEPS)
#undef PUT_STEPS
    put_help(out, "vllm:request_success_total", "counter",
             "Requests that have ended, by finish reason.");
#define PUT(reason, value)                                                                         \
    buf_printf(out, "vllm:request_success_total{%s,finished_reason=\"%s\"} %lld\n",                \
               buf_text(&f->labels), reason, (long long)(value));
    for (f = all->replicas; f < end; f++) {
        FINISH_LIST(PUT)
    }
#undef PUT
}

/* What routers size their own tables by. */
static void put_cache_config(struct buf *out, const struct metrics_data *all)
{
    put_help(out, "vllm:cache_config_info", "gauge",
             "The prefix cache: tokens of a block, and blocks.");
    for (const struct replica_data *f = all->replicas; f < all->replicas + all->n_replicas; f++)
        buf_printf(out,
                   "vllm:cache_config_info{%s,block_size=\"%d\",num_gpu_blocks=\"%d\","
                   "cache_dtype=\"%s\",enable_prefix_caching=\"%s\"} 1\n",
                   buf_text(&f->labels), OSP_BLOCK_TOKENS, f->stats.pages_full,
                   all->server->info.kv_cache_dtype,
                   all->server->opt.defaults.no_prefix_cache ? "False" : "True");
}

static void put_drafts(struct buf *out, const struct metrics_data *all)
{
    put_help(out, "vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter",
             "Draft tokens that became tokens of an answer, by their position in the draft.");
    for (int k = 0; k < all->n_replicas; k++)
        for (int i = 0; i < OSP_DRAFTS_MAX; i++)
            buf_printf(out,
                       "vllm:spec_decode_num_accepted_tokens_per_pos_total{%s,position=\"%d\"} "
                       "%lld\n",
                       buf_text(&all->replicas[k].labels), i,
                       (long long)all->replicas[k].stats.drafts.n_accepted_at[i]);
}

/* X(name, type, help, value); the label `rank` has the number, `process` where it runs. */
#define RANK_LIST(X)                                                                               \
    X("osprey:rank_steps_total", "counter", "Steps of a rank since it started.", r->n_steps)       \
    X("osprey:rank_step_seconds_total", "counter", "Time of a rank in steps.", r->step_seconds)    \
    X("osprey:rank_wait_seconds_total", "counter",                                                 \
      "Time of a rank in steps that it waited for other ranks.", r->wait_seconds)                  \
    X("osprey:rank_sent_bytes_total", "counter", "Bytes that a rank gave to others in steps.",     \
      r->n_bytes)                                                                                  \
    X("osprey:rank_late_seconds", "gauge",                                                         \
      "How much longer a step takes on a rank than on the fastest one, in the last second.",       \
      r->late_seconds)

/* No samples where the model is not divided. */
static void put_ranks(struct buf *out, const struct metrics_data *all)
{
    const struct osp_rank_metrics *r;
    const struct replica_data *f;

#define PUT(metric, type, text, value)                                                             \
    put_help(out, metric, type, text);                                                             \
    for (f = all->replicas; f < all->replicas + all->n_replicas; f++)                              \
        for (int i = 0; i < f->engine.n_ranks; i++) {                                              \
            r = &f->engine.ranks[i];                                                               \
            buf_printf(out, "%s{%s,rank=\"%d\",process=\"", metric, buf_text(&f->labels), i);      \
            put_label_value(out, r->name);                                                         \
            buf_printf(out, "\"} %.17g\n", (double)(value));                                       \
        }
    RANK_LIST(PUT)
#undef PUT
}

static void put_histogram(struct buf *out, const struct replica_data *f, enum osp_histogram_id id)
{
    const struct osp_histogram_info *info = osp_histogram_info(id);
    const struct osp_histogram *h = &f->engine.histograms[id];
    const char *labels = buf_text(&f->labels);
    long long n = 0;

    for (int i = 0; i < info->n_bounds; i++) {
        n += h->counts[i];
        buf_printf(out, "%s_bucket{%s,le=\"%g\"} %lld\n", info->name, labels, info->bounds[i], n);
    }
    n += h->counts[info->n_bounds];
    buf_printf(out, "%s_bucket{%s,le=\"+Inf\"} %lld\n", info->name, labels, n);
    buf_printf(out, "%s_sum{%s} %.17g\n", info->name, labels, h->sum);
    buf_printf(out, "%s_count{%s} %lld\n", info->name, labels, n);
}

static void put_histograms(struct buf *out, const struct metrics_data *all)
{
    for (int id = 0; id < OSP_N_HISTOGRAMS; id++) {
        const struct osp_histogram_info *info = osp_histogram_info((enum osp_histogram_id)id);

        put_help(out, info->name, "histogram", info->text);
        for (int i = 0; i < all->n_replicas; i++)
            put_histogram(out, &all->replicas[i], (enum osp_histogram_id)id);
    }
}

static void put_server(struct buf *out, const struct metrics_data *f)
{
#define PUT(name, type, text, value)                                                               \
    put_help(out, name, type, text);                                                               \
    buf_printf(out, "%s{%s} %.17g\n", name, buf_text(&f->replicas[0].labels), (double)(value));
    SERVER_LIST(PUT)
#undef PUT
}

static void put_process(struct buf *out, const struct metrics_data *f)
{
#define PUT(name, type, text, value)                                                               \
    put_help(out, name, type, text);                                                               \
    buf_printf(out, "%s %.17g\n", name, (double)(value));
    PROCESS_LIST(PUT)
#define PUT_HTTP(member, name, type, text) PUT(name, type, text, f->http.member)
    HTTP_COUNT_LIST(PUT_HTTP)
#undef PUT_HTTP
#undef PUT
    put_help(out, "http_requests_total", "counter", "Responses by status class.");
    for (int i = 1; i < 6; i++)
        buf_printf(out, "http_requests_total{status=\"%dxx\"} %lld\n", i,
                   (long long)f->http.n_responses[i]);
}

static void read_replica(struct replica_data *f, const struct server *s, int i)
{
    f->server = s;
    osp_engine_get_replica_stats(s->engine, i, &f->stats);
    osp_engine_get_replica_metrics(s->engine, i, &f->engine);
    osp_engine_get_replica_health(s->engine, i, &f->health);
    buf_init(&f->labels, LABEL_BYTES_MAX);
    buf_puts(&f->labels, "model_name=\"");
    put_label_value(&f->labels, s->names[0]);
    buf_printf(&f->labels, "\",engine=\"%d\"", i);
}

static void read_metrics(struct metrics_data *f, const struct server *s)
{
    f->server = s;
    f->n_replicas = osp_engine_n_replicas(s->engine);
    f->replicas = mem_new((size_t)f->n_replicas * sizeof *f->replicas);
    for (int i = 0; i < f->n_replicas; i++)
        read_replica(&f->replicas[i], s, i);
    osp_engine_get_replay(s->engine, &f->replay);
    http_get_counts(s->http, &f->http);
    response_store_count(s->responses, &f->stored);
    process_stats_read(&f->process);
}

static void release_metrics(struct metrics_data *f)
{
    for (int i = 0; i < f->n_replicas; i++)
        buf_release(&f->replicas[i].labels);
    free(f->replicas);
}

void route_metrics(struct server *s, struct http_exchange *x, const char *name)
{
    struct metrics_data f;
    struct buf out;

    (void)name;
    read_metrics(&f, s);
    buf_init(&out, METRICS_BYTES_MAX + (size_t)(f.n_replicas - 1) * REPLICA_BYTES_MAX);
    put_replicas(&out, &f);
    put_cache_config(&out, &f);
    put_drafts(&out, &f);
    put_server(&out, &f);
    put_ranks(&out, &f);
    put_histograms(&out, &f);
    put_process(&out, &f);
    http_respond(x, 200, "text/plain; version=0.0.4; charset=utf-8", buf_text(&out),
                 out.size_bytes);
    buf_release(&out);
    release_metrics(&f);
}
