/* Requests to a server by its chat completions, streamed. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "cli/bench/bench_sse.h"
#include "cli/client/client_call.h"
#include "cli/client/client_server.h"

enum {
    REQUEST_TIMEOUT_S = 3600,
    CALL_TIMEOUT_S = 60,
    LATENCY_CALLS = 5,
    HTTP_OK = 200,
    ANSWER_BYTES_MAX = 4 << 20,
    BODY_BYTES_MAX = 64 << 20,
    SHORT_WORDS = 64, /* prompts that measure how many tokens a word has */
    LONG_WORDS = 512
};

struct bench_http {
    struct client_server server;
    char *model;
    bool plain_body;
    double latency_seconds;
    double tokens_per_word, overhead_tokens; /* of a prompt: per word, and of the chat format */
};

struct bench_job {
    char *body;
};

/* ---- small calls ---- */

static enum osp_status measure_latency(struct bench_http *h)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < LATENCY_CALLS; i++) {
        uint64_t begin_ns = clock_ns();
        struct buf answer;

        buf_init(&answer, ANSWER_BYTES_MAX);
        st = client_server_get(&h->server, "/v1/models", CALL_TIMEOUT_S, &answer, NULL);
        buf_release(&answer);
        if (st != OSP_OK)
            return st;
        h->latency_seconds += (double)(clock_ns() - begin_ns) * 1e-9 / LATENCY_CALLS;
    }
    return st;
}

/* ---- prompts ---- */

static const char *const WORDS[] = {
    "time",  "people", "water", "house",  "world", "school", "family", "story",
    "night", "music",  "river", "street", "paper", "table",  "summer", "winter",
    "light", "number", "voice", "garden", "money", "letter", "window", "morning",
    "horse", "city",   "south", "north",  "small", "young",  "green",  "early",
};
enum { N_WORDS = sizeof WORDS / sizeof WORDS[0] };

static void put_words(struct buf *b, int n_words, uint64_t seed)
{
    buf_putc(b, '"');
    for (int i = 0; i < n_words; i++)
        buf_printf(b, "%s%s", i > 0 ? " " : "", WORDS[rng_bits(seed, (uint64_t)i, 4) % N_WORDS]);
    buf_putc(b, '"');
}

/* Fields that keep outputs long and prefix caches unused, by the names of vLLM, SGLang and
 * llama-server. */
static const char LONG_AND_COLD[] = ",\"ignore_eos\":true,\"min_tokens\":%d,\"cache_prompt\":false";

static enum osp_status make_body(const struct bench_http *h, char **out, int n_words,
                                 int n_answer_tokens, uint64_t seed)
{
    struct buf b;

    buf_init(&b, BODY_BYTES_MAX);
    buf_puts(&b, "{\"model\":");
    buf_json_string(&b, h->model, strlen(h->model));
    buf_puts(&b, ",\"messages\":[{\"role\":\"user\",\"content\":");
    put_words(&b, n_words, seed);
    buf_printf(&b,
               "}],\"stream\":true,\"stream_options\":{\"include_usage\":true},"
               "\"temperature\":0,\"max_tokens\":%d",
               n_answer_tokens);
    if (!h->plain_body)
        buf_printf(&b, LONG_AND_COLD, n_answer_tokens);
    buf_puts(&b, "}");
    if (b.overflow) {
        buf_release(&b);
        return fail(OSP_ELIMIT, "a prompt of %d words is larger than the limit of %d bytes",
                    n_words, (int)BODY_BYTES_MAX);
    }
    *out = buf_take(&b);
    return OSP_OK;
}

static enum osp_status http_prepare(void *self, struct bench_job **out,
                                    const struct bench_prompt *p)
{
    struct bench_http *h = self;
    int n_words = (int)((p->n_tokens - h->overhead_tokens) / h->tokens_per_word + 0.5);
    char *body;
    enum osp_status st;

    if (n_words < 1)
        n_words = 1;
    TRY(make_body(h, &body, n_words, p->n_answer_tokens, p->seed));
    *out = mem_new(sizeof **out);
    (*out)->body = body;
out:
    return st;
}

static void http_drop(void *self, struct bench_job *job)
{
    (void)self;
    free(job->body);
    free(job);
}

/* ---- a request ---- */

static bool on_stream(void *ctx, const char *bytes, size_t n_bytes)
{
    struct bench_sse *sse = ctx;

    bench_sse_push(sse, bytes, n_bytes, clock_ns());
    return !sse->failed;
}

static enum osp_status http_run(void *self, struct bench_job *job, struct timeline *out)
{
    struct bench_http *h = self;
    struct bench_sse sse;
    char *url = client_server_url(&h->server, "/v1/chat/completions");
    struct client_call call = {.url = url,
                               .body = job->body,
                               .api_key = h->server.api_key,
                               .timeout_s = REQUEST_TIMEOUT_S,
                               .on_body = on_stream,
                               .ctx = &sse};
    enum osp_status st;

    bench_sse_init(&sse, out);
    out->start_ns = clock_ns();
    TRY(client_run(&call));
    if (sse.failed)
        st = fail(OSP_EIO, "%s: %s", url, sse.error);
    else if (out->first_chunk_ns == 0)
        st = fail(OSP_EFORMAT, "%s: the response has no chunk of a chat completion", url);
out:
    bench_sse_release(&sse);
    free(url);
    return st;
}

/* ---- tokens per word ---- */

static enum osp_status count_tokens(struct bench_http *h, int n_words, double *n_tokens)
{
    struct timeline t = {0};
    struct bench_job job = {.body = NULL};
    enum osp_status st;

    TRY(make_body(h, &job.body, n_words, 1, 1));
    TRY(http_run(h, &job, &t));
    *n_tokens = t.n_prompt_tokens;
out:
    timeline_release(&t);
    free(job.body);
    return st;
}

static enum osp_status calibrate_tokens(struct bench_http *h)
{
    double few, many;
    enum osp_status st;

    h->tokens_per_word = 1; /* for gpt-oss's vocabulary, if the server does not report usage */
    TRY(count_tokens(h, SHORT_WORDS, &few));
    TRY(count_tokens(h, LONG_WORDS, &many));
    if (few > 0 && many > few) {
        h->tokens_per_word = (many - few) / (LONG_WORDS - SHORT_WORDS);
        h->overhead_tokens = few - h->tokens_per_word * SHORT_WORDS;
    }
out:
    return st;
}

/* ---- counters ---- */

static bool http_engine(void *self, struct bench_engine *out)
{
    const struct bench_http *h = self;
    struct buf answer;
    long status = 0;
    bool is_whole;

    buf_init(&answer, ANSWER_BYTES_MAX);
    is_whole =
        client_server_get(&h->server, "/metrics", CALL_TIMEOUT_S, &answer, &status) == OSP_OK &&
        status == HTTP_OK && bench_engine_parse(out, buf_text(&answer), answer.size_bytes);
    buf_release(&answer);
    return is_whole;
}

/* ---- life ---- */

enum osp_status bench_http_open(struct bench_http **out, const struct bench_http_options *opt)
{
    struct bench_http *h = mem_new(sizeof *h);
    enum osp_status st;

    *h = (struct bench_http){.plain_body = opt->plain_body};
    TRY(client_server_open(&h->server, opt->url, opt->api_key));
    if (opt->model != NULL)
        h->model = mem_strdup(opt->model);
    else
        TRY(client_server_first_model(&h->server, &h->model));
    TRY(measure_latency(h));
    TRY(calibrate_tokens(h));
    *out = h;
out:
    if (st != OSP_OK)
        bench_http_close(h);
    return st;
}

void bench_http_close(struct bench_http *h)
{
    if (h == NULL)
        return;
    client_server_release(&h->server);
    free(h->model);
    free(h);
}

const char *bench_http_model(const struct bench_http *h)
{
    return h->model;
}

struct bench_source bench_http_source(struct bench_http *h)
{
    return (struct bench_source){
        .self = h,
        .latency_mode = "api",
        .latency_seconds = h->latency_seconds,
        .prepare = http_prepare,
        .run = http_run,
        .drop = http_drop,
        .engine = http_engine,
    };
}
