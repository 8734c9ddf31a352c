/* `osprey serve`: the options, the model, then the server until a signal. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/log_level.h"
#include "cli/model_args.h"
#include "serve/serve.h"

struct serve_args {
    struct model_args model;
    const char *host, *names, *api_key, *allowed_origins, *log_level;
    int port, queue, request_s, idle_s, stall_s, shutdown_s;
    int64_t body_bytes_max;
    struct option_real temperature;
    bool quiet;
};

static const struct serve_args DEFAULTS = {
    .host = "127.0.0.1",
    .port = SERVE_PORT_DEFAULT,
    .queue = SERVE_QUEUE_DEFAULT,
    .request_s = SERVE_REQUEST_MS_DEFAULT / 1000,
    .idle_s = SERVE_IDLE_MS_DEFAULT / 1000,
    .stall_s = SERVE_STALL_MS_DEFAULT / 1000,
    .shutdown_s = SERVE_SHUTDOWN_MS_DEFAULT / 1000,
    .body_bytes_max = SERVE_BODY_BYTES_DEFAULT,
};

#define ARG(member) .offset = offsetof(struct serve_args, member)

static const struct option_row OPTIONS[] = {
    MODEL_PATH_ROWS(struct serve_args, model),
    {.name = "served-model-name",
     .aliases = "-a,--alias",
     .kind = OPTION_TEXT,
     ARG(names),
     .value = "NAME[,NAME]",
     .help = "what clients call the model (default: the folder's name)"},
    {.name = "host",
     .kind = OPTION_TEXT,
     ARG(host),
     .value = "ADDRESS",
     .help = "address to listen on; 0.0.0.0 for every network (default 127.0.0.1)"},
    {.name = "port",
     .kind = OPTION_INT,
     ARG(port),
     .min = 0,
     .max = 65535,
     .value = "PORT",
     .help = "port to listen on; 0 takes a free one, and the first line printed tells which "
             "(default 8000)"},
    {.name = "api-key",
     .kind = OPTION_TEXT,
     ARG(api_key),
     .value = "KEY",
     .help = "clients must send it as a bearer token, for everything but /health; other users of "
             "this machine can read it in the process list, so OSPREY_API_KEY is the better place"},
    {.name = "allowed-origins",
     .aliases = "--cors-origins",
     .kind = OPTION_TEXT,
     ARG(allowed_origins),
     .value = "ORIGIN[,ORIGIN]",
     .help = "web pages of other hosts that may call, such as https://chat.example.org; * = all"},
    MODEL_SIZE_ROWS(struct serve_args, model),
    MODEL_DEVICE_ROWS(struct serve_args, model),
    MODEL_DUMMY_ROWS(struct serve_args, model),
    {.name = "temperature",
     .aliases = "--temp",
     .kind = OPTION_REAL,
     ARG(temperature),
     .min = 0,
     .max = 2,
     .value = "T",
     .help = "for requests that name none (default 1, and 0 for the bundled model)"},
    {.name = "max-queue",
     .aliases = "--max-queued-requests",
     .kind = OPTION_INT,
     ARG(queue),
     .min = 1,
     .max = 65536,
     .value = "N",
     .help = "requests that may wait; more get 429 with Retry-After (default 256)"},
    {.name = "max-body",
     .kind = OPTION_BYTES,
     ARG(body_bytes_max),
     .min = 1024,
     .max = 1 << 30,
     .value = "BYTES",
     .help = "largest request body; larger ones get 413 (default 4M)"},
    {.name = "request-timeout",
     .kind = OPTION_INT,
     ARG(request_s),
     .min = 1,
     .max = 3600,
     .value = "SECONDS",
     .help = "for a request to arrive whole (default 10)"},
    {.name = "idle-timeout",
     .kind = OPTION_INT,
     ARG(idle_s),
     .min = 1,
     .max = 3600,
     .value = "SECONDS",
     .help = "for a connection between requests (default 30)"},
    {.name = "stall-timeout",
     .kind = OPTION_INT,
     ARG(stall_s),
     .min = 1,
     .max = 3600,
     .value = "SECONDS",
     .help = "for a client that takes no bytes of its answer (default 10)"},
    {.name = "shutdown-timeout",
     .kind = OPTION_INT,
     ARG(shutdown_s),
     .min = 0,
     .max = 3600,
     .value = "SECONDS",
     .help = "for running answers after SIGTERM or Ctrl-C; a second one ends them at once "
             "(default 30)"},
    LOG_LEVEL_ROWS(struct serve_args),
    {0},
};

/* The URL is the first line on standard output: programs wait for it. */
static void on_ready(void *ctx, const char *url)
{
    const struct serve_args *args = ctx;

    printf("%s\n", url);
    fflush(stdout);
    if (args->quiet)
        return;
    fprintf(stderr,
            "try: curl %s/v1/chat/completions -H 'Content-Type: application/json' "
            "-d '{\"messages\":[{\"role\":\"user\",\"content\":\"What is the capital of "
            "France?\"}]}'\n",
            url);
}

static struct serve_options options_of(struct serve_args *args)
{
    return (struct serve_options){
        .host = args->host,
        .port = args->port,
        .names = args->names,
        .api_key = args->api_key,
        .allowed_origins = args->allowed_origins,
        .body_bytes_max = (size_t)args->body_bytes_max,
        .request_timeout_ms = args->request_s * 1000,
        .idle_timeout_ms = args->idle_s * 1000,
        .stall_timeout_ms = args->stall_s * 1000,
        .shutdown_timeout_ms = args->shutdown_s * 1000,
        .queue_requests_max = args->queue,
        .has_temperature = args->temperature.given,
        .temperature = (float)args->temperature.value,
        .on_ready = on_ready,
        .ready_ctx = args,
    };
}

static void tell_model(const struct serve_args *args, const struct osp_model *model)
{
    struct osp_model_info info;
    char weights[16], cache[16];

    if (args->quiet)
        return;
    osp_model_get_info(model, &info);
    fprintf(
        stderr,
        "%s on %s: %s of weights, %s of KV cache (%s), %d tokens of context, loaded in %.1f s\n",
        info.name, info.device, format_bytes(weights, (double)info.weight_bytes),
        format_bytes(cache, (double)info.kv_cache_bytes), info.kv_cache_dtype,
        info.context_tokens_max, info.load_seconds);
}

/* The address first, so that a port in use is known before a long loading. */
static enum osp_status serve(struct serve_args *args, const struct option_rest *rest, bool *forced)
{
    struct serve_options opt = options_of(args);
    struct server *server = NULL;
    struct osp_model *model = NULL;
    enum osp_status st;

    TRY(serve_open(&server, &opt));
    TRY(model_args_open(&model, &args->model, rest, args->quiet));
    tell_model(args, model);
    if (model_is_bundled(model))
        serve_default_temperature(server, 0);
    st = serve_run(server, model, forced);
    if (st == OSP_OK && *forced)
        _exit(EXIT_SUCCESS); /* a second signal: the engine may be in a long step */
out:
    serve_close(server);
    if (model)
        osp_model_close(model);
    return st;
}

static int cmd_serve(int argc, char **argv)
{
    struct serve_args args = DEFAULTS;
    struct option_rest rest;
    bool forced = false;

    if (options_parse(&command_serve, argc, argv, &args, &rest) != OSP_OK ||
        log_level_set(args.log_level, args.quiet) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    return serve(&args, &rest, &forced) == OSP_OK ? 0 : command_fail(EXIT_FAILURE, osp_error());
}

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
        "Endpoints: /v1/chat/completions, /v1/models, /health. TLS is the work of a reverse\n"
        "proxy. Ctrl-C and SIGTERM let running answers finish. Options of vLLM and llama-server\n"
        "that mean the same are understood; those that osprey does not need are ignored with\n"
        "one line that says why.",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_words_max = 1,
    .run = cmd_serve,
};
