/* `osprey serve`: the options, the model, then the server until a signal. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "cli/options/commands.h"
#include "cli/options/kv_events_json.h"
#include "cli/options/log_level.h"
#include "cli/options/model_args.h"
#include "cli/options/sampling_args.h"
#include "serve/core/serve.h"

struct serve_args {
    struct model_args model;
    const char *host, *names, *api_key, *api_key_file, *allowed_origins;
    const char *ssl_certfile, *ssl_keyfile, *log_level, *log_format;
    int port, queue, request_s, limit_s, idle_s, stall_s, shutdown_s;
    int stored, stored_age_s;
    int64_t body_bytes_max, bodies_bytes_max, answers_bytes_max, stored_bytes_max;
    struct sampling_args sampling;
    const char *effort, *date, *template_kwargs, *kv_events;
    int target_itl_ms;
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
             "model name in the API (default: the name of the checkpoint's folder)"),
    TEXT_ROW(T, host, "host", NULL, "ADDRESS",
             "address to listen on; 0.0.0.0 for all network interfaces (default 127.0.0.1)"),
    INT_ROW(T, port, "port", NULL, 0, 65535, "PORT",
            "port to listen on; 0: any free port, printed in the first line of standard output "
            "(default 8000)"),
    TEXT_ROW(
        T, ssl_certfile, "ssl-certfile", "--ssl-cert-file", "FILE",
        "PEM file with the certificate for https, followed by those of its issuers (TLS 1.2 and "
        "1.3); read again when it changes (default: plain http)"),
    TEXT_ROW(T, ssl_keyfile, "ssl-keyfile", "--ssl-key-file", "FILE",
             "PEM file with the private key of --ssl-certfile, without a password (default: in the "
             "file of the certificate)"),
    TEXT_ROW(T, api_key, "api-key", NULL, "KEY[,KEY]",
             "API keys: every request but /health and the chat page's files needs one of them as "
             "bearer token; other users of the machine can read the command line, so prefer "
             "OSPREY_API_KEY or --api-key-file"),
    TEXT_ROW(T, api_key_file, "api-key-file", NULL, "FILE",
             "file with one API key per line; lines that begin with # are comments"),
    TEXT_ROW(T, allowed_origins, "allowed-origins", "--cors-origins", "ORIGIN[,ORIGIN]",
             "web origins that may call the API, such as https://chat.example.org, and Host "
             "headers with their names, as a reverse proxy sends them; *: all"),
    MODEL_SIZE_ROWS(T, model),
    MODEL_DEVICE_ROWS(T, model),
    MODEL_DUMMY_ROWS(T, model),
    MODEL_WORKER_ROWS(T, model),
    MODEL_RANK_ROWS(T, model),
    MODEL_DRAFT_ROWS(T, model),
    SAMPLING_ROWS(T, sampling, "-s", "; applies to requests that do not set it"),
    TEXT_ROW(T, effort, "reasoning-effort",
             "--effort,--chat-template-kwargs.reasoning-effort,"
             "--default-chat-template-kwargs.reasoning-effort",
             "LEVEL",
             "reasoning effort of requests that do not set it: low, medium or high (default "
             "medium)"),
    TEXT_ROW(T, date, "current-date", NULL, "DATE",
             "current date in the system prompt: a date such as 2026-01-31, today (in UTC) or "
             "none; a fixed date keeps the prefix cache valid past midnight (default today)"),
    TEXT_ROW(T, template_kwargs, "chat-template-kwargs", "--default-chat-template-kwargs", "JSON",
             "--reasoning-effort and --current-date as JSON: {\"reasoning_effort\": \"high\", "
             "\"current_date\": \"none\"}"),
    INT_ROW(T, queue, "max-queue", "--max-queued-requests", 1, 65536, "N",
            "maximum number of queued requests; further ones get 429 with Retry-After (default "
            "256)"),
    BYTES_ROW(T, body_bytes_max, "max-body", NULL, 1024, 1 << 30,
              "maximum size of a request body; a larger one gets 413 (default 4M)"),
    BYTES_ROW(T, bodies_bytes_max, "max-body-total", NULL, 1024, (int64_t)1 << 40,
              "memory for all request bodies that are being received or parsed, not counting the "
              "first 64K of each; a request beyond it gets 503 with Retry-After (default 64 "
              "times --max-body, at least 256M)"),
    BYTES_ROW(T, answers_bytes_max, "max-answer-total", NULL, SERVE_ANSWERS_BYTES_MIN,
              (int64_t)1 << 40,
              "memory for all response bytes that clients have not read yet; beyond it the "
              "connections of the slowest readers are closed (default 512M)"),
    INT_ROW(T, stored, "max-stored-responses", NULL, 0, 65536, "N",
            "number of responses of /v1/responses that are stored for previous_response_id; the "
            "least recently used are evicted first; 0: store none (default 1024)"),
    BYTES_ROW(T, stored_bytes_max, "stored-responses-bytes", NULL, 1024, (int64_t)1 << 40,
              "memory for stored responses (default 64M)"),
    SECONDS_ROW(stored_age_s, "stored-responses-age", 1,
                "time after which an unused stored response is deleted (default 86400)"),
    FLAG_ROW(T, no_prefix_cache, "no-prefix-cache",
             "--no-enable-prefix-caching,--no-cache-prompt,--disable-radix-cache",
             "do not use the prefix cache, except for requests with \"cache_prompt\": true"),
    FLAG_ROW(T, share_prefix_cache, "share-prefix-cache", NULL,
             "share the prefix cache between API keys; cached_tokens then reveals to one key "
             "which prompts others have sent"),
    FLAG_ROW(T, no_async_scheduling, "no-async-scheduling", NULL,
             "schedule a step only after the step before it has ended; the output tokens are the "
             "same"),
    INT_ROW(
        T, target_itl_ms, "target-itl", NULL, 1, OSP_TARGET_ITL_MS_MAX, "MS",
        "longest time between two tokens of an answer, in ms, that is planned while other "
        "prompts are computed; more gives more throughput (default: 100, or four times a decode "
        "step if that is longer; on a GPU up to 250 while many prompts wait)"),
    TEXT_ROW(T, kv_events, "kv-events-config", NULL, "JSON",
             "publish over ZeroMQ which blocks of the prefix cache come and go, for routers: "
             "{\"enable_kv_cache_events\": true, \"endpoint\": \"tcp://*:5557\", "
             "\"replay_endpoint\": \"tcp://*:5558\", \"topic\": \"\", \"buffer_steps\": 10000}; "
             "subscribers see the tokens of all prompts (default: publish nothing)"),
    SECONDS_ROW(request_s, "request-timeout", 1,
                "time limit for receiving a complete request "
                "(default 10)"),
    SECONDS_ROW(limit_s, "request-time-limit", 0,
                "time limit of a request from its arrival to the end of its response, time in "
                "the queue included; beyond it the request fails; 0: no limit (default 0)"),
    SECONDS_ROW(idle_s, "idle-timeout", 1,
                "time after which an idle connection is closed "
                "(default 30)"),
    SECONDS_ROW(stall_s, "stall-timeout", 1,
                "time after which a client that reads no bytes of its response is disconnected "
                "(default 10)"),
    SECONDS_ROW(
        shutdown_s, "shutdown-timeout", 0,
        "time for running requests to finish after SIGTERM, SIGHUP or Ctrl-C; the process ends "
        "at most a second later, or immediately at a second signal (default 30)"),
    FLAG_ROW(T, core_dumps, "core-dumps", NULL,
             "allow core dumps, which contain prompts, outputs and API keys; by default a server "
             "that crashes writes none"),
    LOG_LEVEL_ROWS(T),
    LOG_FORMAT_ROW(T),
    {0},
};

/* The state of the command while the server runs. */
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

/* Programs wait for the URL as the first line on standard output. */
static void on_ready(void *ctx, const char *url)
{
    const struct serving *s = ctx;

    printf("%s\n", url);
    fflush(stdout);
    if (s->args->quiet || log_get_format() != LOG_PLAIN)
        return;
    fprintf(stderr,
            "try: curl %s/v1/chat/completions -H 'Content-Type: application/json' "
            "-d '{\"messages\":[{\"role\":\"user\",\"content\":\"What is the capital of "
            "France?\"}]}'\n",
            url);
}

static void log_model(const struct osp_model_info *info)
{
    struct log_fields f = {0};

    log_put_text(&f, "model", info->name);
    log_put_text(&f, "device", info->device);
    log_put_int(&f, "weight_bytes", (int64_t)info->weight_bytes);
    log_put_int(&f, "kv_cache_bytes", (int64_t)info->kv_cache_bytes);
    log_put_text(&f, "kv_cache_dtype", info->kv_cache_dtype);
    log_put_int(&f, "replicas", info->n_replicas);
    log_put_int(&f, "context_tokens", info->context_tokens_max);
    log_put_decimal(&f, "load_seconds", info->load_seconds);
    log_event(LOG_INFO, "model loaded", &f);
}

static void print_model(const struct serve_args *args, const struct osp_model *model)
{
    struct osp_model_info info;
    char weights[16], cache[16], replicas[48] = "";

    if (args->quiet)
        return;
    osp_model_get_info(model, &info);
    if (log_get_format() == LOG_JSON) {
        log_model(&info);
        return;
    }
    if (info.n_replicas > 1)
        snprintf(replicas, sizeof replicas, ", %d replicas, each with", info.n_replicas);
    fprintf(
        stderr,
        "%s on %s%s: %s of weights, up to %s of KV cache (%s), context length %d tokens, loaded in "
        "%.1f s\n",
        info.name, info.device, replicas, format_bytes(weights, (double)info.weight_bytes),
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
        .ssl_certfile = args->ssl_certfile,
        .ssl_keyfile = args->ssl_keyfile,
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
        .engine = {.no_async_scheduling = args->no_async_scheduling,
                   .target_itl_ms = args->target_itl_ms},
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
    struct draft_options drafts = {.model = NULL};
    struct kv_events_options kv_events = {.is_on = false};
    struct server *server = NULL;
    const char *path;
    enum osp_status st;

    TRY(draft_args_read(&drafts, &args->model.drafts));
    opt.engine.speculative = drafts.speculative;
    TRY(kv_events_read(&kv_events, args->kv_events));
    kv_events_set(&opt.engine, &kv_events);
    if (kv_events.is_on && args->no_prefix_cache)
        log_warn("--kv-events-config: with --no-prefix-cache, only requests that ask for the "
                 "prefix cache (\"cache_prompt\": true) publish events");
    TRY(model_args_path(&path, &args->model, positional, args->quiet)); /* before clients connect */
    TRY(serve_open(&server, &opt));
    st = serve_run(server, forced);
    if (st == OSP_OK && *forced)
        _exit(EXIT_SUCCESS); /* closing would wait for a step, a worker thread or the loading */
out:
    draft_options_release(&drafts);
    serve_close(server);
    osp_model_close(s.model);
    kv_events_options_release(&kv_events);
    return st;
}

/* With several ranks that mpirun, srun, torchrun or a LeaderWorkerSet has started, the first one
 * serves, and the others wait for it. *is_rank: this was one of them, and has ended. *address: the
 * address of rank 0, to which args point; the caller frees it after their last use. */
static enum osp_status run_as_rank(struct serve_args *args, bool *is_rank, char **address)
{
    struct osp_model_options *opt = &args->model.options;
    struct osp_rank rank;
    enum osp_status st;

    *is_rank = false;
    if (opt->tensor_parallel_size <= 1)
        return OSP_OK;
    TRY(osp_rank_get(&rank));
    if (rank.n_ranks == 1)
        return OSP_OK;
    if (rank.n_ranks != opt->tensor_parallel_size)
        return fail(OSP_EINVAL, "--tensor-parallel-size is %d, but %s has started %d processes",
                    opt->tensor_parallel_size, rank.started_by, rank.n_ranks);
    if (opt->rank_hosts != NULL)
        return fail(OSP_EINVAL, "--hosts: %s has started the ranks already", rank.started_by);
    if (rank.address[0] == '\0')
        return fail(OSP_EINVAL,
                    "the variables of %s do not have the address of rank 0: set MASTER_ADDR to its "
                    "host name",
                    rank.started_by);
    *address = mem_strdup(rank.address);
    opt->rank_address = *address;
    opt->local_ranks = rank.n_local;
    *is_rank = rank.rank > 0;
    if (*is_rank)
        st = osp_rank_run();
out:
    return st;
}

static int cmd_serve(int argc, char **argv)
{
    struct serve_args args = DEFAULTS;
    struct positional_args positional;
    bool forced = false, is_rank;
    char *rank_address = NULL;
    enum osp_status st;

    if (options_parse(&command_serve, argc, argv, &args, &positional) != OSP_OK ||
        log_level_set(args.log_level, args.quiet) != OSP_OK ||
        log_format_set(args.log_format) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (!args.core_dumps)
        process_forbid_core_dumps(); /* the worker process inherits the limit */
    st = run_as_rank(&args, &is_rank, &rank_address);
    if (st == OSP_OK && !is_rank)
        st = serve(&args, &positional, &forced);
    free(rank_address);
    return st == OSP_OK ? EXIT_SUCCESS : command_fail(EXIT_FAILURE, osp_error());
}

#define ROUTE_LINE(method, path, handler, text) "\n  " method " " path ": " text

static const struct command_example EXAMPLES[] = {
    {"osprey serve", "serve the bundled model on http://127.0.0.1:8000"},
    {"osprey serve openai/gpt-oss-20b --pull", "download a model if it is not there, and serve it"},
    {"osprey serve gpt-oss-20b --port 8080 -c 32768 -np 4", "serve a checkpoint, with limits"},
    {"osprey serve gpt-oss-120b --tensor-parallel-size 2 --device cuda",
     "divide a model among two GPUs of this host"},
    {"osprey serve gpt-oss-120b --tensor-parallel-size 2 --hosts a,b --device cpu",
     "divide a model among the CPUs of two hosts"},
    {"osprey serve gpt-oss-20b --data-parallel-size 2", "two replicas on two GPUs"},
    {"OSPREY_API_KEY=secret osprey serve --host 0.0.0.0", "serve the network, with an API key"},
    {NULL, NULL},
};

const struct command command_serve = {
    .name = "serve",
    .summary = "serve a model over the OpenAI HTTP API",
    .usage = "[MODEL] [options]",
    .about =
        "The first line on standard output is the URL. It is printed when the server is ready;\n"
        "until then /health reports that the model is loading. After Ctrl-C, SIGTERM or SIGHUP\n"
        "running requests finish. Options of vLLM and llama-server with the same meaning are\n"
        "accepted; options that osprey does not need are ignored with a message that gives the\n"
        "reason (osprey help --foreign).\n"
        "\nEndpoints:" ROUTE_LIST(ROUTE_LINE),
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = 1,
    .run = cmd_serve,
};
