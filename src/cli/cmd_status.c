/* `osprey status`: what a running server does, once or again each second. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options/commands.h"
#include "cli/status/status_print.h"
#include "cli/terminal/interrupt.h"

enum { OUTPUT_BYTES_MAX = 64 << 10 };

#define URL_DEFAULT        "http://127.0.0.1:8000"
#define INTERVAL_DEFAULT_S 1.0

struct status_args {
    const char *url, *api_key;
    struct option_float interval_s;
    bool once, json, health;
};

#define T struct status_args

static const struct option_row OPTIONS[] = {
    TEXT_ROW(T, url, "url", NULL, "URL",
             "the server, same as the argument URL (default " URL_DEFAULT ")"),
    TEXT_ROW(T, api_key, "api-key", NULL, "KEY",
             "API key of the server; OSPREY_API_KEY keeps it off the command line"),
    FLAG_ROW(T, once, "once", NULL,
             "print the table once and exit (default if standard output is not a terminal)"),
    FLAG_ROW(T, json, "json", NULL, "print one JSON object and exit"),
    FLAG_ROW(T, health, "health", NULL,
             "read only /health, print the state and exit; needs no API key and no second reading, "
             "for health checks of containers"),
    FLOAT_ROW(T, interval_s, "interval", NULL, 0.1, 3600, "SECONDS",
              "time between two readings, over which tokens per second are measured (default 1)"),
    {0},
};

static int interval_ms(const struct status_args *args)
{
    return (int)(1000 * (args->interval_s.is_set ? args->interval_s.value : INTERVAL_DEFAULT_S));
}

/* Waits between two readings; false: Ctrl-C came. */
static bool wait_interval(const struct status_args *args)
{
    struct pollfd interrupt = {.fd = interrupt_descriptor(), .events = POLLIN};

    (void)poll(&interrupt, 1, interval_ms(args));
    return !interrupt_consume();
}

static void print(const struct buf *text)
{
    fwrite(buf_text(text), 1, text->size_bytes, stdout);
    fflush(stdout);
}

/* A terminal that can move its cursor. */
static bool is_screen(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
}

/* ---- once ---- */

/* The second reading gives the rates. A server that is not healthy is reported at once. */
static int print_once(const struct client_server *server, const struct status_args *args)
{
    struct server_status readings[2];
    struct status_pair pair = {.server = server, .now = &readings[0]};
    struct buf text;

    server_status_read(&readings[0], server);
    if (readings[0].is_healthy && wait_interval(args)) {
        server_status_read(&readings[1], server);
        pair = (struct status_pair){.server = server, .now = &readings[1], .before = &readings[0]};
    }
    buf_init(&text, OUTPUT_BYTES_MAX);
    (args->json ? status_put_json : status_put_table)(&text, &pair);
    if (args->json || pair.now->is_reachable)
        print(&text);
    buf_release(&text);
    return pair.now->is_healthy ? EXIT_SUCCESS : command_fail(EXIT_FAILURE, pair.now->error);
}

static int print_health(const struct client_server *server)
{
    struct server_status now;

    server_status_read_health(&now, server);
    if (!now.is_healthy)
        return command_fail(EXIT_FAILURE, now.error);
    puts(now.state);
    return EXIT_SUCCESS;
}

/* ---- live ---- */

static int count_lines(const struct buf *text)
{
    int n = 0;

    for (size_t i = 0; i < text->size_bytes; i++)
        n += text->data[i] == '\n';
    return n;
}

/* Writes the table over the last one, which had n_lines. Long lines are cut at the edge of the
 * terminal (?7l), because a wrapped line would move the next table. */
static int draw(const struct status_pair *pair, int n_lines)
{
    struct buf table, text;

    buf_init(&table, OUTPUT_BYTES_MAX);
    buf_init(&text, 2 * OUTPUT_BYTES_MAX);
    status_put_table(&table, pair);
    if (n_lines > 0)
        buf_printf(&text, "\033[%dA\r", n_lines);
    buf_puts(&text, "\033[?7l");
    for (size_t i = 0; i < table.size_bytes; i++) {
        if (table.data[i] == '\n')
            buf_puts(&text, "\033[K");
        buf_putc(&text, table.data[i]);
    }
    buf_puts(&text, "\033[J\033[?7h");
    print(&text);
    n_lines = count_lines(&table);
    buf_release(&table);
    buf_release(&text);
    return n_lines;
}

/* Until Ctrl-C. A server that cannot be reached at the first reading is an error; later it may come
 * back. */
static int print_live(const struct client_server *server, const struct status_args *args)
{
    struct server_status readings[2] = {0};
    bool is_healthy = false, has_before = false;
    int n_lines = 0, at = 0;

    for (;;) {
        struct server_status *now = &readings[at], *before = &readings[1 - at];

        server_status_read(now, server);
        if (interrupt_consume())
            break; /* it may have canceled the reading */
        is_healthy = now->is_healthy;
        if (n_lines == 0 && !now->is_reachable)
            return command_fail(EXIT_FAILURE, now->error);
        n_lines = draw(&(struct status_pair){.server = server,
                                             .now = now,
                                             .before = has_before ? before : NULL,
                                             .with_error = true},
                       n_lines);
        if (ferror(stdout) || !wait_interval(args))
            break;
        has_before = true;
        at = 1 - at;
    }
    fputs("\r\033[K", stdout); /* the terminal's ^C */
    return is_healthy ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- the command ---- */

static enum osp_status check_args(const struct status_args *args,
                                  const struct positional_args *positional)
{
    if (args->health && args->json)
        return fail(OSP_EINVAL, "--health and --json are two outputs; give one of them");
    if (positional->n > 0 && args->url != NULL && strcmp(args->url, positional->words[0]) != 0 &&
        getenv("OSPREY_URL") == NULL)
        return fail(OSP_EINVAL, "there are two URLs: --url %s, and the argument %s", args->url,
                    positional->words[0]);
    return OSP_OK;
}

static int cmd_status(int argc, char **argv)
{
    struct status_args args = {0};
    struct client_server server = {0};
    struct positional_args positional;
    const char *url;
    int exit_code;

    if (options_parse(&command_status, argc, argv, &args, &positional) != OSP_OK ||
        check_args(&args, &positional) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    url = positional.n > 0 ? positional.words[0] : args.url ? args.url : URL_DEFAULT;
    if (client_server_open(&server, url, args.api_key) != OSP_OK) {
        client_server_release(&server);
        return command_fail(EXIT_FAILURE, fail_message());
    }
    interrupt_catch();
    server.is_cancelable = interrupt_descriptor() >= 0;
    server.cancel_descriptor = interrupt_descriptor();
    if (args.health)
        exit_code = print_health(&server);
    else if (args.once || args.json || !is_screen())
        exit_code = print_once(&server, &args);
    else
        exit_code = print_live(&server, &args);
    client_server_release(&server);
    return exit_code;
}

static const struct command_example EXAMPLES[] = {
    {"osprey status", "the server of osprey serve on this machine, until Ctrl-C"},
    {"osprey status https://llm.example.com --once", "another server, once"},
    {"OSPREY_API_KEY=KEY osprey status --json | jq .generation_tokens_per_second",
     "one value for a script, of a server that wants a key"},
    {"osprey status --health || systemctl restart osprey", "the exit status is the health"},
    {NULL, NULL},
};

const struct command command_status = {
    .name = "status",
    .summary = "show what a running server does: requests, tokens/s, KV cache, memory",
    .usage = "[URL] [options]",
    .about =
        "Reads /health, /version, /v1/models and /metrics of a server, and prints a table: on a\n"
        "terminal anew each second until Ctrl-C, otherwise once. It works with osprey and with\n"
        "servers that have vLLM's metrics; what a server does not report is left out.\n"
        "    requests      running requests of --max-num-seqs, waiting ones, and those since the "
        "start\n"
        "    prompt        prompt tokens that were computed, per second and since the start\n"
        "    generation    tokens that were generated, per second and since the start\n"
        "    KV cache      pages of running requests; those only in the prefix cache can be "
        "reused\n"
        "    prefix cache  share of all prompt tokens that needed no computation\n"
        "    memory        weights and KV cache on the device; resident: of the server's process\n"
        "Exit status: 0 if the server is healthy, 1 if it cannot be reached, is not healthy (it "
        "is\n"
        "loading, draining, or its device failed) or refuses the API key.",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = 1,
    .run = cmd_status,
};
