/* `osprey chat`: a conversation at the terminal, or with -p one answer for a pipe. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/chat_session.h"
#include "cli/commands.h"
#include "cli/log_level.h"
#include "cli/model_args.h"
#include "cli/read_input.h"

enum { EXIT_INTERRUPTED = 130 };

struct chat_args {
    struct model_args model;
    const char *prompt, *system, *effort, *log_level;
    struct option_real temperature, top_p, min_p, seed;
    int top_k, tokens_max;
    bool show_reasoning, hide_reasoning, quiet;
};

#define ARG(member) .offset = offsetof(struct chat_args, member)

static const struct option_row OPTIONS[] = {
    {.name = "prompt",
     .aliases = "-p",
     .kind = OPTION_TEXT,
     ARG(prompt),
     .value = "TEXT",
     .help =
         "answer this and end, with the answer alone on standard output; - reads standard input"},
    {.name = "system",
     .aliases = "-s,--system-prompt,-sys",
     .kind = OPTION_TEXT,
     ARG(system),
     .value = "TEXT",
     .help = "an instruction for the whole conversation"},
    {.name = "effort",
     .aliases = "--reasoning-effort",
     .kind = OPTION_TEXT,
     ARG(effort),
     .value = "LEVEL",
     .help = "low, medium or high: how long to think before answering (default medium)"},
    {.name = "show-reasoning",
     .kind = OPTION_FLAG,
     ARG(show_reasoning),
     .help = "print the reasoning, with -p on standard error (the default at a terminal)"},
    {.name = "hide-reasoning",
     .kind = OPTION_FLAG,
     ARG(hide_reasoning),
     .help = "fold the reasoning into one line that says how long it took"},
    {.name = "temperature",
     .aliases = "--temp",
     .kind = OPTION_REAL,
     ARG(temperature),
     .min = 0,
     .max = 2,
     .value = "T",
     .help = "0 takes the likeliest token (default 1, and 0 for the bundled model)"},
    {.name = "top-p",
     .kind = OPTION_REAL,
     ARG(top_p),
     .min = 0,
     .max = 1,
     .value = "P",
     .help = "only the likeliest tokens that make up this probability (default off)"},
    {.name = "top-k",
     .kind = OPTION_INT,
     ARG(top_k),
     .min = 0,
     .max = 1 << 20,
     .value = "K",
     .help = "only the K likeliest tokens (default off)"},
    {.name = "min-p",
     .kind = OPTION_REAL,
     ARG(min_p),
     .min = 0,
     .max = 1,
     .value = "P",
     .help = "only tokens at least P times as likely as the likeliest (default off)"},
    {.name = "seed",
     .kind = OPTION_REAL,
     ARG(seed),
     .min = 0,
     .max = 9007199254740992.0,
     .value = "N",
     .help = "the same seed gives the same answer"},
    {.name = "max-tokens",
     .aliases = "-n,--predict,--n-predict",
     .kind = OPTION_INT,
     ARG(tokens_max),
     .min = 0,
     .max = 1 << 24,
     .value = "N",
     .help = "of an answer, reasoning included (default: to the context's end)"},
    MODEL_PATH_ROWS(struct chat_args, model),
    MODEL_SIZE_ROWS(struct chat_args, model),
    MODEL_DEVICE_ROWS(struct chat_args, model),
    LOG_LEVEL_ROWS(struct chat_args),
    {0},
};

static struct osp_request_options request_of(const struct chat_args *args,
                                             const struct osp_model *model)
{
    return (struct osp_request_options){
        .tokens_max = args->tokens_max,
        .sampling = {.has_temperature = args->temperature.given || model_is_bundled(model),
                     .temperature = (float)args->temperature.value,
                     .top_p = (float)args->top_p.value,
                     .top_k = args->top_k,
                     .min_p = (float)args->min_p.value,
                     .has_seed = args->seed.given,
                     .seed = (uint64_t)args->seed.value},
    };
}

static enum reasoning_view view_of(const struct chat_args *args, bool one_shot)
{
    if (args->hide_reasoning)
        return one_shot ? REASONING_HIDDEN : REASONING_FOLDED;
    if (args->show_reasoning)
        return REASONING_SHOWN;
    return !one_shot && isatty(STDOUT_FILENO) ? REASONING_SHOWN : REASONING_HIDDEN;
}

/* ---- one shot ---- */

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

/* ---- both ---- */

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
    printf("%s, loaded in %.1f s. /help lists the commands, Ctrl-D leaves.\n", info.name,
           info.load_seconds);
    st = chat_session_run(&setup);
    *exit_code = EXIT_SUCCESS;
    return st;
}

static enum osp_status chat(const struct chat_args *args, const struct option_rest *rest,
                            int *exit_code)
{
    struct osp_model *model = NULL;
    struct osp_engine *engine = NULL;
    enum osp_status st;

    TRY(model_args_open(&model, &args->model, rest, args->quiet));
    TRY(osp_engine_open(&engine, model, NULL));
    st = converse(args, model, engine, exit_code);
out:
    if (engine)
        osp_engine_close(engine);
    if (model)
        osp_model_close(model);
    return st;
}

static int cmd_chat(int argc, char **argv)
{
    struct chat_args args = {.model.n_seqs_max = 1};
    struct option_rest rest;
    int exit_code = EXIT_FAILURE;

    log_set_level(LOG_WARN);
    if (options_parse(&command_chat, argc, argv, &args, &rest) != OSP_OK ||
        log_level_set(args.log_level, args.quiet) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (chat(&args, &rest, &exit_code) != OSP_OK)
        return command_fail(EXIT_FAILURE, osp_error());
    return exit_code;
}

static const struct command_example EXAMPLES[] = {
    {"osprey chat", "talk to the bundled model"},
    {"osprey chat -p \"What is the capital of France?\"", "one answer on standard output"},
    {"osprey chat -q -p \"Copy this: naïve café\" > copy.txt",
     "nothing but the answer, for a script"},
    {"echo \"What is 17 + 25?\" | osprey chat --effort high --show-reasoning",
     "the question from a pipe, the reasoning on standard error"},
    {"osprey chat gpt-oss-20b -s \"Answer in one word.\" --temperature 0.7",
     "another model, an instruction, less chance"},
    {NULL, NULL},
};

const struct command command_chat = {
    .name = "chat",
    .summary = "talk to a model in the terminal, or ask it once with -p",
    .usage = "[MODEL] [options]",
    .about =
        "At a terminal: line editing, a history kept between sessions, \"\"\" around messages of\n"
        "several lines, /help for commands. Ctrl-C stops an answer, Ctrl-D leaves. With -p, or\n"
        "when standard input is no terminal, one question is answered.",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_words_max = 1,
    .run = cmd_chat,
};
