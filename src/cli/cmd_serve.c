/* `osprey serve`: the options, the model, then the server until a signal. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/options/commands.h"
#include "cli/options/log_level.h"
#include "cli/options/model_args.h"
#include "cli/options/sampling_args.h"
#include "serve/core/serve.h"

struct serve_args {
    struct model_args model;
    const char *host, *names, *api_key, *api_key_file, *allowed_origins, *log_level;
    int port, queue, request_s, limit_s, idle_s, stall_s, shutdown_s;
    int stored, stored_age_s;
    int64_t body_bytes_max, bodies_bytes_max, answers_bytes_max, stored_bytes_max;
    struct sampling_args sampling;
    const char *effort, *date, *template_kwargs;
    bool no_prefix_cache, share_prefix_cache, no_async_scheduling, core_dumps, quiet;
};

static const struct serve_args DEFAULTS = {
    .model = {.options = {.worker = "auto"}},
    .host = "127.0.0.1",
    .port = SERVE_PORT_DEFAULT,
    .queue = SERVE_QUEUE_DEFAULT,
    .request_s = SERVE_REQUEST_MS_DEFAULT / 1000,
    .idle_s = SERVE_IDLE_MS_DEFAULT / 1000,
    .stall_s = SERVE_STALL_MS_DEFAULT / 1000,
    .shutdown_s = SERVE_SHUTDOWN_MS_DEFAULT / 1000,
    .body_bytes_max = SERVE_BODY_BYTES_DEFAULT,
    .answers_bytes_max = SERVE_ANSWERS_BYTES_DEFAULT,
    .stored = SERVE_STORED_RESPONSES_DEFAULT,
    .stored_bytes_max = SERVE_STORED_BYTES_DEFAULT,
    .stored_age_s = SERVE_STORED_AGE_S_DEFAULT,
};

#define T struct serve_args
#define SECONDS_ROW(member, flag, least, text)                                                     \
    INT_ROW(T, member, flag, NULL, least, 86400, "SECONDS", text)

static const struct option_row OPTIONS[] = {
    MODEL_PATH_ROWS(T, model),
    TEXT_ROW(T, names, "served-model-name", "-a,--alias", "NAME[,NAME]",
             "what clients call the model (default: the folder's name)"),
    TEXT_ROW(T, host, "host", NULL, "ADDRESS",
             "address to listen on; 0.0.0.0 for every network (default 127.0.0.1)"),
    INT_ROW(T, port, "port", NULL, 0, 65535, "PORT",
            "port to listen on; 0 takes a free one, and the first line printed tells which "
            "(default 8000)"),
    TEXT_ROW(T, api_key, "api-key", NULL, "KEY[,KEY]",
             "clients must send one of them as a bearer token, for everything but /health; other "
             "users of this machine can read them in the process list, so OSPREY_API_KEY or a file "
             "is the better place"),
    TEXT_ROW(T, api_key_file, "api-key-file", NULL, "FILE",
             "file with one API key on each line; lines that begin with # are comments"),
    TEXT_ROW(T, allowed_origins, "allowed-origins", "--cors-origins", "ORIGIN[,ORIGIN]",
             "origins of web pages that may call, such as https://chat.example.org; requests with "
             "their names as Host may, too; * = all"),
    MODEL_SIZE_ROWS(T, model),
    MODEL_DEVICE_ROWS(T, model),
    MODEL_DUMMY_ROWS(T, model),
    MODEL_WORKER_ROWS(T, model),
    SAMPLING_ROWS(T, sampling, "-s", "; default for requests that do not set it"),
    TEXT_ROW(T, effort, "reasoning-effort",
             "--effort,--chat-template-kwargs.reasoning-effort,"
             "--default-chat-template-kwargs.reasoning-effort",
             "LEVEL",
             "low, medium or high: reasoning effort of requests that do not set it (default "
             "medium)"),
    TEXT_ROW(T, date, "current-date", NULL, "DATE",
             "what prompts say: a date such as 2026-01-31, today, or none; one that stays keeps "
             "cached prompts of use past midnight (default today, of UTC)"),
    TEXT_ROW(T, template_kwargs, "chat-template-kwargs", "--default-chat-template-kwargs", "JSON",
             "the same in JSON: {\"reasoning_effort\": \"high\", \"current_date\": \"none\"}"),
    INT_ROW(T, queue, "max-queue", "--max-queued-requests", 1, 65536, "N",
            "requests that may wait; more get 429 with Retry-After (default 256)"),
    BYTES_ROW(T, body_bytes_max, "max-body", NULL, 1024, 1 << 30,
              "largest request body; larger ones get 413 (default 4M)"),
    BYTES_ROW(T, bodies_bytes_max, "max-body-total", NULL, 1024, (int64_t)1 << 40,
              "memory of all request bodies that are being received or read, beyond 64K each; a "
              "request above it gets 503 with Retry-After (default 64 times --max-body, at least "
              "256M)"),
    BYTES_ROW(T, answers_bytes_max, "max-answer-total", NULL, SERVE_ANSWERS_BYTES_MIN,
              (int64_t)1 << 40,
              "memory of all answers that clients have not read yet; above it the slowest readers "
              "are dropped (default 512M)"),
    INT_ROW(T, stored, "max-stored-responses", NULL, 0, 65536, "N",
            "answers of /v1/responses that are kept for previous_response_id; those that were not "
            "used for longest go first (default 1024; 0: none)"),
    BYTES_ROW(T, stored_bytes_max, "stored-responses-bytes", NULL, 1024, (int64_t)1 << 40,
              "memory that they may take (default 64M)"),
    SECONDS_ROW(stored_age_s, "stored-responses-age", 1,
                "after which one that was not used is forgotten (default 86400)"),
    FLAG_ROW(T, no_prefix_cache, "no-prefix-cache", "--no-enable-prefix-caching,--no-cache-prompt",
             "compute every prompt anew, unless a request asks for \"cache_prompt\": true"),
    FLAG_ROW(T, share_prefix_cache, "share-prefix-cache", NULL,
             "with several API keys: a prompt also takes what other keys' requests left in the "
             "prefix cache, and cached_tokens then tells a key what others have asked"),
    FLAG_ROW(T, no_async_scheduling, "no-async-scheduling", NULL,
             "plan a step, and tell clients of it, when no other one runs; answers are the same"),
    SECONDS_ROW(request_s, "request-timeout", 1, "for a request to arrive whole (default 10)"),
    SECONDS_ROW(limit_s, "request-time-limit", 0,
                "for a request from its arrival to its answer's end, the wait in the queue "
                "included; then it ends with an error (default 0: none)"),
    SECONDS_ROW(idle_s, "idle-timeout", 1, "for a connection between requests (default 30)"),
    SECONDS_ROW(stall_s, "stall-timeout", 1,
                "for a client that takes no bytes of its answer (default 10)"),
    SECONDS_ROW(shutdown_s, "shutdown-timeout", 0,
                "for running answers after SIGTERM or Ctrl-C; the process ends a second later at "
                "most, and at once at a second signal (default 30)"),
    FLAG_ROW(T, core_dumps, "core-dumps", NULL,
             "leave the system's limit on core dumps as it is; they have prompts, answers and API "
             "keys in them, so a server that crashes writes none by default"),
    LOG_LEVEL_ROWS(T),
    {0},
};

/* Between the options and the server's end. */
struct serving {
    const struct serve_args *args;
    const struct positional_args *positional;
    struct osp_model *model;
};

static void on_listening(void *ctx, const char *url)
{
    (void)ctx;
    log_info("listening on %s, loading the model", url);
}

/* The URL is the first line on standard output: programs wait for it. */
static void on_ready(void *ctx, const char *url)
{
    const struct serving *s = ctx;

    printf("%s\n", url);
    fflush(stdout);
    if (s->args->quiet)
        return;
    fprintf(stderr,
            "try: curl %s/v1/chat/completions -H 'Content-Type: application/json' "
            "-d '{\"messages\":[{\"role\":\"user\",\"content\":\"What is the capital of "
            "France?\"}]}'\n",
            url);
}

static void print_model(const struct serve_args *args, const struct osp_model *model)
{
    struct osp_model_info info;
    char weights[16], cache[16];

    if (args->quiet)
        return;
    osp_model_get_info(model, &info);
    fprintf(stderr,
            "%s on %s: %s of weights, up to %s of KV cache (%s) as it fills, %d tokens of context, "
            "loaded in %.1f s\n",
            info.name, info.device, format_bytes(weights, (double)info.weight_bytes),
            format_bytes(cache, (double)info.kv_cache_bytes), info.kv_cache_dtype,
            info.context_tokens_max, info.load_seconds);
}

static enum osp_status load(void *ctx, struct serve_model *out)
{
    struct serving *s = ctx;
    enum osp_status st;

    TRY(model_args_open(&s->model, &s->args->model, s->positional, s->args->quiet));
    print_model(s->args, s->model);
    *out = (struct serve_model){.model = s->model, .is_greedy = model_is_bundled(s->model)};
out:
    return st;
}

static struct serve_options options_of(struct serving *s)
{
    const struct serve_args *args = s->args;
    struct osp_request_options defaults = sampling_args_request(&args->sampling);

    defaults.no_prefix_cache = args->no_prefix_cache;
    return (struct serve_options){
        .host = args->host,
        .port = args->port,
        .names = args->names ? args->names : model_args_cache_name(&args->model, s->positional),
        .api_key = args->api_key,
        .api_key_file = args->api_key_file,
        .share_prefix_cache = args->share_prefix_cache,
        .allowed_origins = args->allowed_origins,
        .body_bytes_max = (size_t)args->body_bytes_max,
        .bodies_bytes_max = (size_t)args->bodies_bytes_max,
        .answers_bytes_max = (size_t)args->answers_bytes_max,
        .request_timeout_ms = args->request_s * 1000,
        .request_limit_ms = args->limit_s * 1000,
        .idle_timeout_ms = args->idle_s * 1000,
        .stall_timeout_ms = args->stall_s * 1000,
        .shutdown_timeout_ms = args->shutdown_s * 1000,
        .queue_requests_max = args->queue,
        .no_async_scheduling = args->no_async_scheduling,
        .stored_responses_max = args->stored,
        .stored_bytes_max = (size_t)args->stored_bytes_max,
        .stored_age_s_max = args->stored_age_s,
        .effort = args->effort,
        .date = args->date,
        .template_kwargs = args->template_kwargs,
        .defaults = defaults,
        .load = load,
        .on_listening = on_listening,
        .on_ready = on_ready,
        .ctx = s,
    };
}

static enum osp_status serve(const struct serve_args *args,
                             const struct positional_args *positional, bool *forced)
{
    struct serving s = {.args = args, .positional = positional};
    struct serve_options opt = options_of(&s);
    struct server *server = NULL;
    enum osp_status st;

    TRY(serve_open(&server, &opt));
    st = serve_run(server, forced);
    if (st == OSP_OK && *forced)
        _exit(EXIT_SUCCESS); /* a step or a worker thread may take long, or the model half loaded */
out:
    serve_close(server);
    osp_model_close(s.model);
    return st;
}

static int cmd_serve(int argc, char **argv)
{
    struct serve_args args = DEFAULTS;
    struct positional_args positional;
    bool forced = false;

    if (options_parse(&command_serve, argc, argv, &args, &positional) != OSP_OK ||
        log_level_set(args.log_level, args.quiet) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (!args.core_dumps)
        process_forbid_core_dumps(); /* nor does the worker process, which inherits it */
    return serve(&args, &positional, &forced) == OSP_OK ? 0
                                                        : command_fail(EXIT_FAILURE, osp_error());
}

#define ROUTE_LINE(method, path, handler, text) "\n  " method " " path ": " text

static const struct command_example EXAMPLES[] = {
    {"osprey serve", "the bundled model on http://127.0.0.1:8000"},
    {"osprey serve gpt-oss-20b --port 8080 -c 32768 -np 4", "a checkpoint, with limits"},
    {"OSPREY_API_KEY=secret osprey serve --host 0.0.0.0", "for the network, with a key"},
    {NULL, NULL},
};

const struct command command_serve = {
    .name = "serve",
    .summary = "answer over the OpenAI HTTP API",
    .usage = "[MODEL] [options]",
    .about =
        "The first line on standard output is the URL; it is printed when requests are answered.\n"
        "Until then /health says that the model is being loaded.\n"
        "TLS is the work of a reverse proxy. Ctrl-C and SIGTERM let running answers finish. "
        "Options\n"
        "of vLLM and llama-server that mean the same are understood; those that osprey does not\n"
        "need are ignored with one line that says why.\n"
        "\nWhat is answered:" ROUTE_LIST(ROUTE_LINE),
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = 1,
    .run = cmd_serve,
};
