#include "cli/options/commands.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/nearest.h"
#include "cli/terminal/pull_run.h"

#define COMMAND_ROW(name) &command_##name,
const struct command *const COMMANDS[] = {COMMAND_LIST(COMMAND_ROW)};
#undef COMMAND_ROW

const int COMMAND_COUNT = sizeof COMMANDS / sizeof COMMANDS[0];

const struct command *command_find(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(COMMANDS[i]->name, name) == 0)
            return COMMANDS[i];
    return NULL;
}

int command_fail(int code, const char *message)
{
    char *shown = printable_new(message); /* it may contain arguments of the command line */

    if (log_get_format() == LOG_JSON)
        log_error("%s", shown);
    else
        fprintf(stderr, "osprey: %s\n", shown);
    free(shown);
    return code == EXIT_FAILURE && pull_signal() != 0 ? EXIT_SIGNAL + pull_signal() : code;
}

/* The most similar command; NULL if no command is similar enough. */
static const char *nearest_command(const char *name)
{
    const char *best = NULL;
    int distance = INT_MAX;

    for (int i = 0; i < COMMAND_COUNT; i++)
        if (word_distance(name, COMMANDS[i]->name) < distance) {
            distance = word_distance(name, COMMANDS[i]->name);
            best = COMMANDS[i]->name;
        }
    return is_near(name, distance) ? best : NULL;
}

int command_unknown(const char *name)
{
    const char *nearest = nearest_command(name);
    char *message = mem_printf("unknown command '%s'%s%s%s (osprey --help lists all)", name,
                               nearest ? "; the most similar is '" : "", nearest ? nearest : "",
                               nearest ? "'" : "");
    int code = command_fail(EXIT_USAGE, message);

    free(message);
    return code;
}
