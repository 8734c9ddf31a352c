/* `osprey chat`: a conversation at the terminal, or one answer for a pipe with -p. */
#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/printable.h"
#include "cli/options/commands.h"
#include "cli/options/log_level.h"
#include "cli/options/model_args.h"
#include "cli/options/sampling_args.h"
#include "cli/chat/chat_local.h"
#include "cli/chat/chat_remote.h"
#include "cli/chat/chat_session.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/read_input.h"

enum { EXIT_INTERRUPTED = 130, EXPLAIN_AFTER_MS = 2000, OPTION_NAME_BYTES_MAX = 64 };

struct chat_args {
    struct model_args model;
    struct sampling_args sampling;
    const char *prompt, *system, *effort, *url, *api_key, *log_level;
    bool show_reasoning, hide_reasoning, quiet;
};
static_assert(offsetof(struct chat_args, model) == 0, "see warn_local_options()");

#define T struct chat_args

static const struct option_row OPTIONS[] = {
    TEXT_ROW(T, prompt, "prompt", "-p", "TEXT",
             "answer this prompt and exit, with only the answer on standard output; the text of "
             "a pipe or file at standard input follows it; -: only standard input"),
    TEXT_ROW(T, url, "url", NULL, "URL",
             "let the server at this URL answer, over /v1/chat/completions, instead of a model in "
             "this process; MODEL is then the model's name on the server (default: the first one "
             "that it lists)"),
    TEXT_ROW(T, api_key, "api-key", NULL, "KEY", "API key for --url"),
    TEXT_ROW(T, system, "system", "-s,--system-prompt,-sys", "TEXT",
             "system prompt: an instruction for the whole conversation"),
    TEXT_ROW(T, effort, "effort", "--reasoning-effort", "LEVEL",
             "reasoning effort: low, medium or high (default medium)"),
    FLAG_ROW(T, show_reasoning, "show-reasoning", NULL,
             "print the reasoning, with -p to standard error (default at a terminal)"),
    FLAG_ROW(T, hide_reasoning, "hide-reasoning", NULL,
             "print one line with the reasoning time instead of the reasoning"),
    SAMPLING_ROWS(T, sampling, NULL, ""),
    MODEL_PATH_ROWS(T, model),
    MODEL_SIZE_ROWS(T, model),
    MODEL_DEVICE_ROWS(T, model),
    LOG_LEVEL_ROWS(T),
    {0},
};

static enum reasoning_view view_of(const struct chat_args *args, bool one_shot)
{
    if (args->hide_reasoning)
        return one_shot ? REASONING_HIDDEN : REASONING_FOLDED;
    if (args->show_reasoning)
        return REASONING_SHOWN;
    return !one_shot && isatty(STDOUT_FILENO) ? REASONING_SHOWN : REASONING_HIDDEN;
}

/* ---- one answer ---- */

static void drop_last_newline(struct buf *text)
{
    if (text->size_bytes > 0 && text->data[text->size_bytes - 1] == '\n')
        buf_truncate(text, text->size_bytes - 1);
}

/* A script can leave a pipe open at standard input that nobody writes to. */
static void explain_waiting(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    if (poll(&input, 1, EXPLAIN_AFTER_MS) == 0)
        fputs("osprey: waiting for the text at standard input, which follows the prompt; without "
              "one use < /dev/null\n",
              stderr);
}

/* Appends the text at standard input to the prompt, after an empty line. */
static enum osp_status add_input(struct buf *prompt)
{
    static const char separator[] = "\n\n";
    const size_t n_before = prompt->size_bytes;
    size_t n_begin;
    enum osp_status st;

    explain_waiting();
    TRY(read_text(prompt, n_before > 0 ? separator : ""));
    n_begin = prompt->size_bytes;
    TRY(read_stream(prompt, stdin));
    drop_last_newline(prompt);
    if (prompt->size_bytes <= n_begin) /* nothing is there */
        buf_truncate(prompt, n_before);
out:
    return st;
}

static enum osp_status read_prompt(struct buf *out, const struct chat_args *args)
{
    enum osp_status st;

    if (args->prompt && strcmp(args->prompt, "-") != 0) {
        TRY(read_text(out, args->prompt));
        if (!isatty(STDIN_FILENO))
            TRY(add_input(out));
    } else {
        TRY(read_stream(out, stdin));
        drop_last_newline(out);
    }
    if (out->size_bytes == 0)
        st = fail(OSP_EINVAL, "the prompt is empty");
    else if (strlen(out->data) != out->size_bytes)
        st = fail(OSP_EINVAL, "the prompt has a NUL byte");
out:
    return st;
}

static enum osp_status answer_once(const struct chat_args *args, const struct chat_setup *setup,
                                   int *exit_code)
{
    struct conversation c = {0};
    struct answer answer;
    struct buf prompt;
    enum osp_status st;

    buf_init(&prompt, READ_INPUT_BYTES_MAX);
    answer_init(&answer);
    TRY(read_prompt(&prompt, args));
    TRY(chat_start(&c, setup));
    conversation_add(&c, "user", prompt.data, NULL);
    interrupt_catch();
    TRY(setup->source.answer(setup->source.self, &answer, &c, &setup->request, &setup->style));
    if (!setup->quiet)
        answer_print_rate(stderr, &answer);
    *exit_code = answer.finish == OSP_FINISH_CANCELED ? EXIT_INTERRUPTED : EXIT_SUCCESS;
out:
    conversation_release(&c);
    answer_release(&answer);
    buf_release(&prompt);
    return st;
}

/* ---- the command ---- */

/* One prompt and its answer; otherwise a conversation at the terminal. */
static bool is_one_shot(const struct chat_args *args)
{
    return args->prompt || !isatty(STDIN_FILENO);
}

static enum osp_status converse(const struct chat_args *args, struct chat_setup *setup,
                                int *exit_code)
{
    const bool one_shot = is_one_shot(args);

    setup->style = (struct answer_style){.out = stdout,
                                         .reasoning_out = one_shot ? stderr : stdout,
                                         .reasoning = view_of(args, one_shot)};
    setup->system = args->system;
    setup->effort = args->effort;
    setup->quiet = args->quiet;
    if (one_shot)
        return answer_once(args, setup, exit_code);
    *exit_code = EXIT_SUCCESS;
    return chat_session_run(setup);
}

static void greet(const char *model, const char *how)
{
    char *shown = printable_new(model);

    printf("%s, %s. /help lists the commands, Ctrl-D exits.\n", shown, how);
    free(shown);
}

static enum osp_status chat_here(const struct chat_args *args,
                                 const struct positional_args *positional, int *exit_code)
{
    struct chat_setup setup = {.request = sampling_args_request(&args->sampling)};
    struct chat_local local = {0};
    struct osp_model_info info;
    char how[48];
    enum osp_status st;

    TRY(model_args_open(&local.model, &args->model, positional, args->quiet));
    TRY(osp_engine_open(&local.engine, local.model, NULL));
    if (model_is_bundled(local.model)) /* greedy, see --help */
        setup.request.sampling.has_temperature = true;
    setup.source = chat_local_source(&local);
    osp_model_get_info(local.model, &info);
    snprintf(how, sizeof how, "loaded in %.1f s", info.load_seconds);
    if (!is_one_shot(args))
        greet(info.name, how);
    st = converse(args, &setup, exit_code);
out:
    if (local.engine)
        osp_engine_close(local.engine);
    if (local.model)
        osp_model_close(local.model);
    return st;
}

static enum osp_status chat_there(const struct chat_args *args,
                                  const struct positional_args *positional, int *exit_code)
{
    const char *model = positional->n > 0 ? positional->words[0] : args->model.options.path;
    struct chat_setup setup = {.request = sampling_args_request(&args->sampling)};
    struct chat_remote remote;
    enum osp_status st;

    TRY(chat_remote_open(&remote, args->url, args->api_key, model));
    setup.source = chat_remote_source(&remote);
    if (!is_one_shot(args))
        greet(remote.model, remote.server.root);
    st = converse(args, &setup, exit_code);
out:
    chat_remote_release(&remote);
    return st;
}

/* ---- the command line ---- */

/* The option that a word of the command line names: "--device=cpu", "--max_model_len", "-c4096";
 * NULL: none. */
static const struct option_row *row_of_word(const char *word)
{
    char name[OPTION_NAME_BYTES_MAX], letter[3] = {word[0], word[0] ? word[1] : '\0', '\0'};
    const struct option_row *row;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (char *c = name; strncmp(name, "--", 2) == 0 && *c; c++)
        *c = *c == '_' ? '-' : *c;
    row = options_find(command_rows(&command_chat), name);
    return row || letter[0] != '-' || letter[1] == '-'
               ? row
               : options_find(command_rows(&command_chat), letter);
}

/* Names the options of the engine in this process, which a server does not see. Those of the
 * environment and of a --config file are for other commands, too, and not named. */
static void warn_local_options(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const struct option_row *row = row_of_word(argv[i]);

        if (row && row->offset < sizeof(struct model_args) && /* the first member */
            row->offset != offsetof(T, model.options.path))
            fprintf(stderr, "osprey: --%s is ignored: with --url the server determines it\n",
                    row->name);
        row = options_find(command_rows(&command_chat), argv[i]);
        i += row && row->kind != OPTION_FLAG; /* the next word is its value */
    }
}

/* The last argument is the prompt if it contains white space: names of models do not. */
static enum osp_status take_prompt(struct chat_args *args, struct positional_args *positional)
{
    const int last = positional->n - 1;

    if (last < 0 || strpbrk(positional->words[last], " \t\n") == NULL ||
        path_is_folder(positional->words[last]) || path_is_file(positional->words[last]))
        return last < 1
                   ? OSP_OK
                   : fail(OSP_EINVAL, "unexpected argument '%s'; a prompt of one word needs -p",
                          positional->words[last]);
    if (args->prompt != NULL)
        return fail(OSP_EINVAL, "there are two prompts: --prompt, and the argument '%s'",
                    positional->words[last]);
    args->prompt = positional->words[last];
    positional->n--;
    return OSP_OK;
}

static int cmd_chat(int argc, char **argv)
{
    struct chat_args args = {.model.options.n_seqs_max = 1};
    struct positional_args positional;
    int exit_code = EXIT_FAILURE;

    log_set_level(LOG_WARN);
    if (options_parse(&command_chat, argc, argv, &args, &positional) != OSP_OK ||
        log_level_set(args.log_level, args.quiet) != OSP_OK ||
        take_prompt(&args, &positional) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (args.url)
        warn_local_options(argc, argv);
    if ((args.url ? chat_there : chat_here)(&args, &positional, &exit_code) != OSP_OK)
        return command_fail(EXIT_FAILURE, osp_error());
    return exit_code;
}

static const struct command_example EXAMPLES[] = {
    {"osprey chat", "chat with the bundled model"},
    {"osprey chat \"What is the capital of France?\"", "one answer on standard output"},
    {"osprey chat -q -p \"Copy this: naïve café\" > copy.txt", "only the answer, for a script"},
    {"echo \"What is 17 + 25?\" | osprey chat --effort high --show-reasoning",
     "read the prompt from a pipe, print the reasoning to standard error"},
    {"osprey chat gpt-oss-20b -s \"Answer in one word.\" --temperature 0.7",
     "another model, a system prompt, a lower temperature"},
    {"cat notes.txt | osprey chat \"Summarize this text.\"", "a question about a text"},
    {"osprey chat --url http://127.0.0.1:8000", "chat with a running server"},
    {"OSPREY_API_KEY=KEY osprey chat --url https://llm.example.com gpt-oss-120b -q -p Hello",
     "one answer of a model on a server that wants a key"},
    {NULL, NULL},
};

const struct command command_chat = {
    .name = "chat",
    .summary = "chat with a model in the terminal, or get one answer with -p",
    .usage = "[MODEL] [PROMPT] [options]",
    .about =
        "At a terminal: line editing, a history that is kept between sessions, /help for\n"
        "commands. A paste of several lines is one message. Ctrl-C stops an answer, Ctrl-D exits.\n"
        "With a PROMPT (an argument with a space) or -p, or if standard input is not a terminal,\n"
        "osprey answers one prompt and exits. The text of a pipe or file at standard input, at\n"
        "most 64 MiB, follows the prompt after an empty line, or is the prompt if there is none.\n"
        "With --url a running server answers: osprey, or another one with the OpenAI API.",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = 2,
    .run = cmd_chat,
};
