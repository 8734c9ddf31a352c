/* The program: runs the command that the first argument names. */
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/process.h"
#include "cli/options/commands.h"
#include "cli/options/help.h"
#include "osprey.h"

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int run(const struct command *command, int argc, char **argv)
{
    if (asks_for_help(argc, argv)) {
        help_command(stdout, command);
        return 0;
    }
    return command->run(argc, argv);
}

/* A command whose output was lost has failed. */
static int finish(int code)
{
    const char *why = fflush(stdout) != 0 ? strerror(errno) : "an earlier write failed";
    char *message;

    if (!ferror(stdout))
        return code;
    message = mem_printf("standard output could not be written: %s", why);
    code = command_fail(EXIT_FAILURE, message);
    free(message);
    return code;
}

static int run_words(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "--help";
    const struct command *command = command_find(word);

    if (command)
        return run(command, argc - 1, argv + 1);
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        help_program(argc > 1 ? stdout : stderr);
        return argc > 1 ? 0 : EXIT_USAGE;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        return command_version.run(1, argv + 1);
    return command_unknown(word);
}

int main(int argc, char **argv)
{
    int worker_status;

    process_open_standard_streams();
    worker_status = osp_worker_main(argc, argv);
    if (worker_status >= 0)
        return worker_status;
    setlocale(LC_CTYPE, ""); /* not LC_NUMERIC: numbers keep the decimal point */
    return finish(run_words(argc, argv));
}
