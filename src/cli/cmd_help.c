#include <string.h>

#include "cli/options/help.h"

struct help_args {
    bool man, foreign;
};

static const struct option_row OPTIONS[] = {
    FLAG_ROW(struct help_args, man, "man", NULL, "print the manual page osprey(1)"),
    FLAG_ROW(struct help_args, foreign, "foreign", NULL,
             "list the options of vLLM and llama-server that are ignored or refused, and why"),
    {0},
};

static int help_on(const char *name)
{
    const struct command *command = command_find(name);

    if (!command)
        return command_unknown(name);
    help_command(stdout, command);
    return 0;
}

static int cmd_help(int argc, char **argv)
{
    struct help_args args = {0};
    struct positional_args positional;

    if (options_parse(&command_help, argc, argv, &args, &positional) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (positional.n > 0)
        return help_on(positional.words[0]);
    if (args.foreign)
        help_foreign(stdout);
    else if (args.man)
        help_man(stdout);
    else
        help_program(stdout);
    return 0;
}

static const struct command_example EXAMPLES[] = {
    {"osprey help serve", "describe osprey serve"},
    {"osprey help --man | man -l -", "show the manual page"},
    {NULL, NULL},
};

const struct command command_help = {
    .name = "help",
    .summary = "describe a command, or print the manual page",
    .usage = "[COMMAND] [--man | --foreign]",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = 1,
    .run = cmd_help,
};
