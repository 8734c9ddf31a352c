/* The completion script of bash, from the same tables as the help. */
#include <string.h>

#include "cli/commands.h"

static void put_option_words(const struct option_row *row)
{
    const char *aliases = row->aliases ? row->aliases : "";

    printf("--%s ", row->name);
    for (; *aliases; aliases++)
        putchar(*aliases == ',' ? ' ' : *aliases);
    putchar(' ');
}

static void put_command_case(const struct command *command)
{
    printf("    %s) words=\"", command->name);
    for (const struct option_row *row = command->options; row->name; row++)
        put_option_words(row);
    puts("--help\" ;;");
}

static void put_bash(void)
{
    puts("_osprey() {\n"
         "    local word=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\"\n"
         "    case \"${COMP_CWORD}:${COMP_WORDS[1]}\" in\n"
         "    1:*)");
    fputs("        COMPREPLY=($(compgen -W \"", stdout);
    for (int i = 0; i < COMMAND_COUNT; i++)
        printf("%s ", COMMANDS[i]->name);
    puts("--help --version\" -- \"$word\")); return ;;\n    esac\n"
         "    case \"${COMP_WORDS[1]}\" in");
    for (int i = 0; i < COMMAND_COUNT; i++)
        put_command_case(COMMANDS[i]);
    puts("    esac\n"
         "    case \"$word\" in\n"
         "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
         "    esac\n"
         "}\n"
         "complete -o filenames -F _osprey osprey");
}

static const struct option_row OPTIONS[] = {{0}};

static int cmd_completion(int argc, char **argv)
{
    struct option_rest rest;

    if (options_parse(&command_completion, argc, argv, NULL, &rest) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (rest.n == 0 || strcmp(rest.words[0], "bash") != 0)
        return command_fail(EXIT_USAGE,
                            "completion: name the shell; bash is the one that is known");
    put_bash();
    return 0;
}

static const struct command_example EXAMPLES[] = {
    {"source <(osprey completion bash)", "in this shell"},
    {"osprey completion bash > ~/.local/share/bash-completion/completions/osprey",
     "in every shell"},
    {NULL, NULL},
};

const struct command command_completion = {
    .name = "completion",
    .summary = "write the completion script for bash",
    .usage = "bash",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_words_max = 1,
    .run = cmd_completion,
};
