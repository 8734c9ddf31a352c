/* The manual page, generated from the tables in the language of man(7). */
#include <string.h>

#include "cli/options/help.h"
#include "osprey.h"

/* Prints text with the characters escaped that are markup in man(7). */
static void put_text(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '-' || *text == '\\')
            fprintf(out, "\\%c", *text == '\\' ? 'e' : '-');
        else
            fputc(*text, out);
}

static void put_option(FILE *out, const struct option_row *row)
{
    char names[160];

    help_option_names(row, names);
    fputs(".TP\n.B ", out);
    put_text(out, names);
    fputs("\n", out);
    put_text(out, row->help);
    fputs("\n", out);
}

static void put_examples(FILE *out, const struct command_example *examples)
{
    for (; examples && examples->line; examples++) {
        fputs(".PP\n", out);
        put_text(out, examples->text);
        fputs(":\n.PP\n.RS\n.EX\n", out);
        put_text(out, examples->line);
        fputs("\n.EE\n.RE\n", out);
    }
}

static void put_command(FILE *out, const struct command *command)
{
    fprintf(out, ".SS osprey %s ", command->name);
    put_text(out, command->usage);
    fputs("\n", out);
    put_text(out, command->about ? command->about : command->summary);
    fputs("\n", out);
    put_examples(out, command->examples);
    for (const struct option_row *row = command_rows(command); row->name; row++)
        put_option(out, row);
    if (command->options->name)
        put_option(out, &OPTION_CONFIG);
}

void help_man(FILE *out)
{
    fprintf(out, ".TH OSPREY 1 \"\" \"osprey %s\" \"User Commands\"\n", OSP_VERSION);
    fputs(".SH NAME\nosprey \\- inference engine and OpenAI\\-compatible server for gpt\\-oss\n"
          ".SH SYNOPSIS\n.B osprey\n.I COMMAND\n[\\fIMODEL\\fR] [\\fIoptions\\fR]\n"
          ".SH DESCRIPTION\nosprey runs a gpt\\-oss checkpoint: as a chat in the terminal (osprey "
          "chat) or as a server\nwith the OpenAI HTTP API (osprey serve). Without a checkpoint it "
          "runs osprey\\-nano,\na small model that comes with it.\n"
          ".SH COMMANDS\n",
          out);
    for (int i = 0; i < COMMAND_COUNT; i++)
        put_command(out, COMMANDS[i]);
    fputs(".SH ENVIRONMENT\nEvery option can also be set by an environment variable, in upper case "
          "with\nunderscores: \\-\\-max\\-model\\-len by\n.BR OSPREY_MAX_MODEL_LEN .\nThe command "
          "line overrides the environment,\nand the environment overrides a\n.B \\-\\-config\n"
          "file.\n.SH EXIT STATUS\n0 success, 1 failure, 2 wrong command line.\n",
          out);
}
