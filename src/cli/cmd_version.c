#include <stdio.h>

#include "cli/options/commands.h"
#include "osprey.h"

static const struct option_row OPTIONS[] = {{0}};

static int cmd_version(int argc, char **argv)
{
    struct positional_args positional;

    if (options_parse(&command_version, argc, argv, NULL, &positional) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    printf("osprey %s\n", osp_version());
    return 0;
}

const struct command command_version = {
    .name = "version",
    .summary = "print the version",
    .usage = "",
    .options = OPTIONS,
    .run = cmd_version,
};
