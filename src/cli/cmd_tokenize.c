/* `osprey tokenize`: prints the token ids of a text from the command line or standard input. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/options/model_args.h"
#include "cli/options/commands.h"
#include "cli/terminal/read_input.h"
#include "cli/terminal/terminal.h"

struct tokenize_args {
    struct model_args model;
    const char *text;
    bool specials, pieces;
};

#define T struct tokenize_args

static const struct option_row OPTIONS[] = {
    MODEL_PATH_ROWS(T, model),
    TEXT_ROW(T, text, "text", "-p,--prompt", "TEXT", "text to tokenize (default: standard input)"),
    FLAG_ROW(T, specials, "special", NULL,
             "encode control tokens such as <|start|> as one token instead of as text"),
    FLAG_ROW(T, pieces, "pieces", NULL,
             "print one line per token: its id and its bytes as a "
             "JSON string"),
    {0},
};

static enum osp_status print_pieces(const struct osp_tokenizer *t, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *text;
        size_t n_bytes;
        struct buf line;
        enum osp_status st = osp_detokenize(t, &ids[i], 1, &text, &n_bytes);

        if (st != OSP_OK)
            return st;
        buf_init(&line, SIZE_MAX / 2);
        buf_json_string(&line, text, n_bytes);
        buf_putc(&line, '\n');
        printf("%d\t", (int)ids[i]);
        terminal_write(stdout, buf_text(&line), line.size_bytes);
        buf_release(&line);
        osp_free(text);
    }
    return OSP_OK;
}

static void print_ids(const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%d", i ? " " : "", (int)ids[i]);
    putchar('\n');
}

static enum osp_status print_tokens(const struct tokenize_args *args, const struct osp_tokenizer *t,
                                    const struct buf *text)
{
    int32_t *ids = NULL;
    size_t n = 0;
    enum osp_status st =
        osp_tokenize(t, buf_text(text), text->size_bytes, args->specials, &ids, &n);

    if (st != OSP_OK)
        return st;
    if (args->pieces)
        st = print_pieces(t, ids, n);
    else
        print_ids(ids, n);
    osp_free(ids);
    return st;
}

/* Reads the tokenizer alone, not the weights. */
static enum osp_status open_tokenizer(struct osp_tokenizer **out, const struct tokenize_args *args,
                                      const struct positional_args *positional)
{
    const char *path = args->model.options.tokenizer;
    enum osp_status st = OSP_OK;

    if (!path)
        TRY(model_args_path(&path, &args->model, positional, false));
    TRY(osp_tokenizer_open(out, path));
out:
    return st;
}

static enum osp_status run(int argc, char **argv, int *exit_code)
{
    struct tokenize_args args = {0};
    struct osp_tokenizer *t = NULL;
    struct positional_args positional;
    struct buf text;
    enum osp_status st;

    buf_init(&text, READ_INPUT_BYTES_MAX);
    *exit_code = EXIT_USAGE;
    TRY(options_parse(&command_tokenize, argc, argv, &args, &positional));
    *exit_code = EXIT_FAILURE;
    TRY(open_tokenizer(&t, &args, &positional));
    TRY(args.text ? read_text(&text, args.text) : read_stream(&text, stdin));
    TRY(print_tokens(&args, t, &text));
    *exit_code = EXIT_SUCCESS;
out:
    osp_tokenizer_close(t);
    buf_release(&text);
    return st;
}

static int cmd_tokenize(int argc, char **argv)
{
    int exit_code;

    return run(argc, argv, &exit_code) == OSP_OK ? 0 : command_fail(exit_code, osp_error());
}

static const struct command_example EXAMPLES[] = {
    {"osprey tokenize -p \"Hello, world\"", "print the ids of a text"},
    {"echo \"Hello\" | osprey tokenize --pieces", "print one line per token"},
    {NULL, NULL},
};

const struct command command_tokenize = {
    .name = "tokenize",
    .summary = "print the token ids of a text",
    .usage = "[MODEL] [-p TEXT] [options]",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = 1,
    .run = cmd_tokenize,
};
