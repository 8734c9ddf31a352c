/* `osprey chat`: a conversation at the terminal, or one answer for a pipe with -p. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/terminal/chat_session.h"
#include "cli/options/commands.h"
#include "cli/options/log_level.h"
#include "cli/options/model_args.h"
#include "cli/terminal/read_input.h"
#include "cli/options/sampling_args.h"

enum { EXIT_INTERRUPTED = 130 };

struct chat_args {
    struct model_args model;
    struct sampling_args sampling;
    const char *prompt, *system, *effort, *log_level;
    bool show_reasoning, hide_reasoning, quiet;
};

#define T struct chat_args

static const struct option_row OPTIONS[] = {
    TEXT_ROW(T, prompt, "prompt", "-p", "TEXT",
             "answer this prompt and exit, with only the answer on standard output; -: read the "
             "prompt from standard input"),
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

static struct osp_request_options request_of(const struct chat_args *args,
                                             const struct osp_model *model)
{
    struct osp_request_options opt = sampling_args_request(&args->sampling);

    opt.sampling.has_temperature = opt.sampling.has_temperature || model_is_bundled(model);
    return opt;
}

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
        text->data[--text->size_bytes] = '\0';
}

static enum osp_status read_prompt(struct buf *out, const struct chat_args *args)
{
    enum osp_status st = OSP_OK;

    if (args->prompt && strcmp(args->prompt, "-") != 0) {
        TRY(read_text(out, args->prompt));
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
    struct osp_chat *chat = NULL;
    struct answer answer;
    struct buf prompt;
    enum osp_status st;

    buf_init(&prompt, READ_INPUT_BYTES_MAX);
    answer_init(&answer);
    TRY(read_prompt(&prompt, args));
    TRY(chat_start(&chat, setup->system, setup->effort));
    TRY(osp_chat_add(chat, "user", prompt.data));
    interrupt_catch();
    TRY(answer_run(&answer, setup->engine, chat, &setup->request, &setup->style));
    if (!args->quiet)
        answer_print_rate(stderr, &answer);
    *exit_code = answer.finish == OSP_FINISH_CANCELED ? EXIT_INTERRUPTED : EXIT_SUCCESS;
out:
    osp_chat_free(chat);
    answer_release(&answer);
    buf_release(&prompt);
    return st;
}

/* ---- the command ---- */

static enum osp_status converse(const struct chat_args *args, struct osp_model *model,
                                struct osp_engine *engine, int *exit_code)
{
    bool one_shot = args->prompt || !isatty(STDIN_FILENO);
    struct chat_setup setup = {.model = model,
                               .engine = engine,
                               .request = request_of(args, model),
                               .style = {.out = stdout,
                                         .reasoning_out = one_shot ? stderr : stdout,
                                         .reasoning = view_of(args, one_shot)},
                               .system = args->system,
                               .effort = args->effort,
                               .quiet = args->quiet};
    struct osp_model_info info;
    enum osp_status st;

    if (one_shot)
        return answer_once(args, &setup, exit_code);
    osp_model_get_info(model, &info);
    printf("%s, loaded in %.1f s. /help lists the commands, Ctrl-D exits.\n", info.name,
           info.load_seconds);
    st = chat_session_run(&setup);
    *exit_code = EXIT_SUCCESS;
    return st;
}

static enum osp_status chat(const struct chat_args *args, const struct positional_args *positional,
                            int *exit_code)
{
    struct osp_model *model = NULL;
    struct osp_engine *engine = NULL;
    enum osp_status st;

    TRY(model_args_open(&model, &args->model, positional, args->quiet));
    TRY(osp_engine_open(&engine, model, NULL));
    st = converse(args, model, engine, exit_code);
out:
    if (engine)
        osp_engine_close(engine);
    if (model)
        osp_model_close(model);
    return st;
}

/* The last argument is the prompt if it contains white space: names of models do not. */
static enum osp_status take_prompt(struct chat_args *args, struct positional_args *positional)
{
    const int last = positional->n - 1;

    if (last < 0 || strpbrk(positional->words[last], " \t\n") == NULL ||
        path_is_folder(positional->words[last]))
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
    if (chat(&args, &positional, &exit_code) != OSP_OK)
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
    {NULL, NULL},
};

const struct command command_chat = {
    .name = "chat",
    .summary = "chat with a model in the terminal, or get one answer with -p",
    .usage = "[MODEL] [PROMPT] [options]",
    .about =
        "At a terminal: line editing, a history that is kept between sessions, \"\"\" before and\n"
        "after a message of several lines, /help for commands. Ctrl-C stops an answer, Ctrl-D "
        "exits.\n"
        "With a PROMPT (an argument with a space) or -p, or if standard input is not a terminal,\n"
        "osprey answers one prompt and exits.",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = 2,
    .run = cmd_chat,
};
