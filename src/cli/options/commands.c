#include "cli/options/commands.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "cli/options/nearest.h"

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

const char *command_nearest(const char *name)
{
    const char *best = COMMANDS[0]->name;
    int distance = INT_MAX;

    for (int i = 0; i < COMMAND_COUNT; i++)
        if (word_distance(name, COMMANDS[i]->name) < distance) {
            distance = word_distance(name, COMMANDS[i]->name);
            best = COMMANDS[i]->name;
        }
    return best;
}

int command_fail(int code, const char *message)
{
    char *shown = printable_new(message); /* it may contain arguments of the command line */

    fprintf(stderr, "osprey: %s\n", shown);
    free(shown);
    return code;
}
