/* The completion scripts of bash, zsh and fish, from the same tables as the help. */
#include <string.h>

#include "base/str.h"
#include "cli/options/commands.h"

/* ---- for all shells ---- */

static const struct option_row HELP_ROW = {
    .name = "help", .aliases = "-h", .kind = OPTION_FLAG, .help = "print this help"};

typedef void row_fn(const struct command *command, const struct option_row *row);

static void each_row(const struct command *command, row_fn *put)
{
    for (const struct option_row *row = command_rows(command); row->name; row++)
        put(command, row);
    if (command->options->name)
        put(command, &OPTION_CONFIG);
    put(command, &HELP_ROW);
}

static bool is_path(const struct option_row *row)
{
    return row->value && str_in_list("FILE,FOLDER", row->value);
}

/* The help text up to the first character that a shell could interpret. */
static void put_summary(const char *text)
{
    size_t n = strcspn(text, ";:('\"$[]\\`");

    while (n > 0 && text[n - 1] == ' ')
        n--;
    printf("%.*s", (int)n, text);
}

/* Calls put() with each name as it is written: --port, -p, -np. */
static void each_name(const struct option_row *row,
                      void (*put)(const struct option_row *row, const char *name))
{
    char name[64];

    snprintf(name, sizeof name, "--%s", row->name);
    put(row, name);
    for (const char *at = row->aliases; at && *at; at += *at == ',') {
        size_t n = strcspn(at, ",");

        snprintf(name, sizeof name, "%.*s", (int)n, at);
        put(row, name);
        at += n;
    }
}

/* ---- bash ---- */

static void put_word(const struct option_row *row, const char *name)
{
    (void)row;
    printf("%s ", name);
}

static void put_bash_row(const struct command *command, const struct option_row *row)
{
    (void)command;
    each_name(row, put_word);
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
    for (int i = 0; i < COMMAND_COUNT; i++) {
        printf("    %s) words=\"", COMMANDS[i]->name);
        each_row(COMMANDS[i], put_bash_row);
        puts("\" ;;");
    }
    puts("    esac\n"
         "    case \"$word\" in\n"
         "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
         "    esac\n"
         "}\n"
         "complete -o filenames -F _osprey osprey");
}

/* ---- zsh ---- */

/* '--port=[port to listen on]:PORT:'; "=" allows --port=80 besides --port 80. */
static void put_zsh_name(const struct option_row *row, const char *name)
{
    const bool is_long = strncmp(name, "--", 2) == 0;

    printf("        '%s%s[", name, row->value && is_long ? "=" : "");
    put_summary(row->help);
    putchar(']');
    if (row->value)
        printf(":%s:%s", row->value, is_path(row) ? "_files" : "");
    puts("' \\");
}

static void put_zsh_row(const struct command *command, const struct option_row *row)
{
    (void)command;
    each_name(row, put_zsh_name);
}

static void put_zsh(void)
{
    puts("#compdef osprey\n"
         "_osprey() {\n"
         "    local -a commands=(");
    for (int i = 0; i < COMMAND_COUNT; i++)
        printf("        '%s:%s'\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    puts("    )\n"
         "    if (( CURRENT == 2 )); then\n"
         "        _describe command commands\n"
         "        return\n"
         "    fi\n"
         "    local command=$words[2]\n"
         "    shift words\n"
         "    (( CURRENT-- ))\n"
         "    case $command in");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        printf("    %s) _arguments -S \\\n", COMMANDS[i]->name);
        each_row(COMMANDS[i], put_zsh_row);
        puts("        '*:file:_files' ;;");
    }
    puts("    esac\n"
         "}\n"
         "if [[ $funcstack[1] == _osprey ]]; then\n"
         "    _osprey \"$@\"\n"
         "else\n"
         "    compdef _osprey osprey\n"
         "fi");
}

/* ---- fish ---- */

/* -p is a short option, -np an old-style option. */
static void put_fish_name(const struct option_row *row, const char *name)
{
    (void)row;
    if (strncmp(name, "--", 2) == 0)
        printf(" -l %s", name + 2);
    else
        printf(" -%c %s", name[2] == '\0' ? 's' : 'o', name + 1);
}

static void put_fish_row(const struct command *command, const struct option_row *row)
{
    printf("complete -c osprey -n '__fish_seen_subcommand_from %s'", command->name);
    each_name(row, put_fish_name);
    if (row->value)
        fputs(is_path(row) ? " -r -F" : " -x", stdout);
    fputs(" -d '", stdout);
    put_summary(row->help);
    puts("'");
}

static void put_fish(void)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        printf("complete -c osprey -n __fish_use_subcommand -f -a %s -d '%s'\n", COMMANDS[i]->name,
               COMMANDS[i]->summary);
    for (int i = 0; i < COMMAND_COUNT; i++)
        each_row(COMMANDS[i], put_fish_row);
}

/* ---- the command ---- */

static const struct shell {
    const char *name;
    void (*put)(void);
} SHELLS[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};

static const struct option_row OPTIONS[] = {{0}};

static int cmd_completion(int argc, char **argv)
{
    struct positional_args positional;

    if (options_parse(&command_completion, argc, argv, NULL, &positional) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    for (size_t i = 0; positional.n > 0 && i < sizeof SHELLS / sizeof SHELLS[0]; i++)
        if (strcmp(positional.words[0], SHELLS[i].name) == 0) {
            SHELLS[i].put();
            return 0;
        }
    return command_fail(EXIT_USAGE, "completion needs a shell: bash, zsh or fish");
}

static const struct command_example EXAMPLES[] = {
    {"source <(osprey completion bash)", "in the current shell; the same for zsh"},
    {"osprey completion bash > ~/.local/share/bash-completion/completions/osprey",
     "in every shell"},
    {"osprey completion zsh > \"${fpath[1]}/_osprey\"", "in every zsh"},
    {"osprey completion fish > ~/.config/fish/completions/osprey.fish", "in every fish"},
    {NULL, NULL},
};

const struct command command_completion = {
    .name = "completion",
    .summary = "print the completion script for bash, zsh or fish",
    .usage = "bash|zsh|fish",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = 1,
    .run = cmd_completion,
};
