#include "cli/options/help.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/options/foreign.h"
#include "osprey.h"

enum { WIDTH = 96, INDENT = 8 };

static const struct command_example EXAMPLES[] = {
    {"osprey chat", "chat with the bundled model in the terminal"},
    {"osprey chat -p \"What is the capital of France?\"", "one answer on standard output"},
    {"osprey serve", "serve the OpenAI API on http://127.0.0.1:8000"},
    {"osprey serve openai/gpt-oss-20b --pull", "download a model and serve it"},
    {"osprey serve gpt-oss-20b", "serve the checkpoint in the folder gpt-oss-20b"},
    {NULL, NULL},
};

/* Prints a paragraph, indented and with lines of at most WIDTH columns. */
static void put_wrapped(FILE *out, int indent, const char *text)
{
    int column = 0;

    while (*text) {
        int n = (int)strcspn(text, " ");
        bool fits = column > 0 && column + 1 + n <= WIDTH;

        fprintf(out, "%s%*s%.*s", fits || column == 0 ? "" : "\n", fits ? 1 : indent, "", n, text);
        column = fits ? column + 1 + n : indent + n;
        text += n + (text[n] == ' ');
    }
    fputc('\n', out);
}

static void put_examples(FILE *out, const struct command_example *examples)
{
    if (!examples || !examples->line)
        return;
    fputs("\nExamples:\n", out);
    for (; examples->line; examples++)
        fprintf(out, "    # %s\n    %s\n", examples->text, examples->line);
}

void help_program(FILE *out)
{
    fprintf(out,
            "osprey %s: inference engine and OpenAI-compatible server for OpenAI's gpt-oss "
            "models\n\n"
            "Usage: osprey COMMAND [MODEL] [options]\n\nCommands:\n",
            OSP_VERSION);
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "    %-12s%s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    put_examples(out, EXAMPLES);
    fputs("\nMODEL is a folder with a checkpoint, a GGUF file, or the name of a model on Hugging "
          "Face\n(osprey help pull). The default is osprey-nano, a small model that comes with "
          "osprey.\n"
          "\"osprey COMMAND --help\" describes a command.\n",
          out);
}

void help_option_names(const struct option_row *row, char out[160])
{
    const char *aliases = row->aliases ? row->aliases : "";
    int n = snprintf(out, 160, "--%s%s%s", row->name, row->value ? " " : "",
                     row->value ? row->value : "");

    while (*aliases && n < 160) {
        size_t n_alias = strcspn(aliases, ",");

        if (memchr(aliases, '.', n_alias) ==
            NULL) /* --NAME.KEY exists for pasted command lines only */
            n += snprintf(out + n, (size_t)(160 - n), ", %.*s", (int)n_alias, aliases);
        aliases += n_alias + (aliases[n_alias] == ',');
    }
}

static void put_option(FILE *out, const struct option_row *row)
{
    char names[160];

    help_option_names(row, names);
    fprintf(out, "    %s\n", names);
    put_wrapped(out, INDENT, row->help);
}

/* Rows of one device, with its name above; NULL: of no device. Returns their number. */
static int put_options(FILE *out, const struct command *command, const char *device)
{
    int n = 0;

    for (const struct option_row *row = command_rows(command); row->name; row++) {
        if (device ? !row->device || strcmp(row->device, device) != 0 : row->device != NULL)
            continue;
        if (n++ == 0 && device)
            fprintf(out, "\nOptions of the device %s:\n", device);
        put_option(out, row);
    }
    return n;
}

/* In commands that open a model. */
static void put_device_options(FILE *out, const struct command *command)
{
    const int n_cpu = put_options(out, command, "cpu"), n_cuda = put_options(out, command, "cuda");

    if (n_cpu > 0 && n_cuda == 0)
        fprintf(out, "\n%s\n", HELP_NO_PLUGIN);
}

void help_command(FILE *out, const struct command *command)
{
    fprintf(out, "osprey %s: %s\n\nUsage: osprey %s %s\n", command->name, command->summary,
            command->name, command->usage);
    if (command->about)
        fprintf(out, "\n%s\n", command->about);
    put_examples(out, command->examples);
    if (!command->options->name)
        return;
    fputs("\nOptions:\n", out);
    (void)put_options(out, command, NULL);
    put_option(out, &OPTION_CONFIG);
    put_device_options(out, command);
    fputs("\nEvery option can also be set by an environment variable: --max-model-len by "
          "OSPREY_MAX_MODEL_LEN.\n",
          out);
}

/* "--flash-attn,-fa" as "--flash-attn, -fa". */
static void put_words(FILE *out, const char *words)
{
    char *spaced = mem_new(2 * strlen(words) + 1), *to = spaced;

    for (const char *c = words; *c; c++) {
        *to++ = *c;
        if (*c == ',')
            *to++ = ' ';
    }
    *to = '\0';
    put_wrapped(out, INDENT, spaced);
    free(spaced);
}

static void put_foreign(FILE *out, const struct foreign_option *option)
{
    char *text;

    if (!option->only)
        text = mem_printf("Ignored: %s.", option->why);
    else if (!option->only[0])
        text = mem_printf("Refused: %s.", option->why);
    else
        text = mem_printf("Ignored with the value %s, otherwise refused: %s.", option->only,
                          option->why);
    put_wrapped(out, INDENT / 2, text);
    free(text);
    put_words(out, option->words);
}

void help_foreign(FILE *out)
{
    fputs("Options of vLLM and llama-server that osprey does not have. An ignored option prints a\n"
          "message with the reason; a refused option is an error. --no-NAME and --NAME.KEY are\n"
          "treated like --NAME.\n\n",
          out);
    for (const struct foreign_option *option = foreign_list(); option->words; option++)
        put_foreign(out, option);
}
