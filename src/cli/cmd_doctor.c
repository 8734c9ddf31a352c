/* `osprey doctor`: checks whether this host can serve well, line by line. */
#include <stdlib.h>

#include "base/memory.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/peer_wire.h"
#include "cli/options/commands.h"
#include "cli/terminal/interrupt.h"
#include "serve/core/serve.h"

enum { PORT_UNSET = -1 };

struct doctor_args {
    const char *host, *peer, *cache;
    int port, listen_port;
    bool listen, json;
};

#define T struct doctor_args

static const struct option_row OPTIONS[] = {
    TEXT_ROW(T, peer, "peer", NULL, "HOST[:PORT]",
             "also measure the network to a host that runs osprey doctor --listen"),
    FLAG_ROW(T, listen, "listen", NULL,
             "check nothing: answer the measurements of --peer of other hosts, until Ctrl-C"),
    INT_ROW(T, listen_port, "listen-port", NULL, 0, 65535, "PORT",
            "port of --listen; 0: any free port, which is printed (default 8474)"),
    TEXT_ROW(T, host, "host", NULL, "ADDRESS",
             "address that osprey serve will listen on (default 127.0.0.1); with --listen: the "
             "address to listen on (default all)"),
    INT_ROW(T, port, "port", NULL, 1, 65535, "PORT",
            "port that osprey serve will listen on (default 8000)"),
    TEXT_ROW(T, cache, "download-dir", "--cache-dir", "FOLDER",
             "the Hugging Face cache (default: $HF_HUB_CACHE, $HF_HOME/hub or "
             "~/.cache/huggingface/hub)"),
    FLAG_ROW(T, json, "json", NULL, "print one JSON object"),
    {0},
};

static int print(const struct findings *f, bool as_json)
{
    struct buf text;

    buf_init(&text, FINDINGS_TEXT_BYTES_MAX);
    (as_json ? findings_put_json : findings_put_text)(&text, f);
    fwrite(buf_text(&text), 1, text.size_bytes, stdout);
    buf_release(&text);
    return findings_count(f, FINDING_broken) > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The GPUs come last of this host's checks, because their links take seconds. */
static int examine(const struct doctor_args *args)
{
    const struct serving_args serving = {.host = args->host ? args->host : "127.0.0.1",
                                         .port = args->port != PORT_UNSET ? args->port
                                                                          : SERVE_PORT_DEFAULT,
                                         .cache = args->cache};
    struct findings f = {.group = ""};
    struct peer_address peer = {.host = ""};
    int code;

    if (args->peer != NULL && peer_address_parse(&peer, args->peer) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    check_system(&f, "");
    check_memory(&f, "");
    check_network(&f, "");
    check_gpus(&f, "");
    check_serving(&f, &serving);
    if (args->peer != NULL)
        check_peer(&f, "", &peer);
    code = print(&f, args->json);
    findings_release(&f);
    return code;
}

static int listen_for_peers(const struct doctor_args *args)
{
    const int port = args->listen_port != PORT_UNSET ? args->listen_port : PEER_PORT_DEFAULT;

    interrupt_catch();
    if (peer_listen(args->host, port, interrupt_descriptor()) != OSP_OK)
        return command_fail(EXIT_FAILURE, fail_message());
    return EXIT_SUCCESS;
}

static int cmd_doctor(int argc, char **argv)
{
    struct doctor_args args = {.port = PORT_UNSET, .listen_port = PORT_UNSET};
    struct positional_args positional;

    if (options_parse(&command_doctor, argc, argv, &args, &positional) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (args.listen &&
        (args.peer != NULL || args.json || args.port != PORT_UNSET || args.cache != NULL))
        return command_fail(EXIT_USAGE, "--listen checks nothing; leave out --peer, --json, --port "
                                        "(--listen-port is the listener's) and --download-dir");
    if (!args.listen && args.listen_port != PORT_UNSET)
        return command_fail(EXIT_USAGE, "--listen-port needs --listen; the port of another host is "
                                        "a part of --peer HOST:PORT");
    return args.listen ? listen_for_peers(&args) : examine(&args);
}

static const struct command_example EXAMPLES[] = {
    {"osprey doctor", "what is good, slow and broken on this host"},
    {"osprey doctor --listen", "on one of two hosts, and on the other:"},
    {"osprey doctor --peer spark-a", "latency and bandwidth to it"},
    {"osprey doctor --json | jq '.findings[] | select(.state == \"broken\")'", "for a script"},
    {NULL, NULL},
};

const struct command command_doctor = {
    .name = "doctor",
    .summary = "check this host for serving: GPUs, links, network, memory, limits, cache",
    .usage = "[options]",
    .about = "Looks at the GPUs and the links between them, network interfaces and RDMA devices, "
             "memory,\n"
             "limits of the system, the port, the model cache and proxy variables. A line is\n"
             "    good      as expected\n"
             "    slow      it works, and another figure is expected, which the line names\n"
             "    broken    serving, or a part of it, will fail\n"
             "    untested  there is nothing to test, or osprey cannot test it\n"
             "and below it stands what to do. Run it as the user, and in the container, that will\n"
             "serve, while nothing else does. Exit status: 1 if a line is broken, else 0.",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .run = cmd_doctor,
};
