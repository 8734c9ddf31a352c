/* The commands, listed once: dispatch, help, completion and manual page come from here. A
 * command is one file cmd_<name>.c that defines command_<name>. */
#ifndef CLI_OPTIONS_COMMANDS_H
#define CLI_OPTIONS_COMMANDS_H

#include "cli/options/options.h"

#define COMMAND_LIST(X)                                                                            \
    X(serve)                                                                                       \
    X(chat)                                                                                        \
    X(validate)                                                                                    \
    X(quantize)                                                                                    \
    X(bench)                                                                                       \
    X(eval)                                                                                        \
    X(tokenize)                                                                                    \
    X(completion)                                                                                  \
    X(help)                                                                                        \
    X(version)

struct command_example {
    const char *line, *text;
};

struct command {
    const char *name, *summary;
    const char *usage;                      /* after "osprey NAME" */
    const char *about;                      /* paragraphs */
    const struct command_example *examples; /* ends with a NULL line */
    const struct option_row *options;       /* ends with a row without a name; read through
                                               command_rows() */
    int n_positional_max;                   /* words that are no options */
    int (*run)(int argc, char **argv);      /* argv[0] is the command's name; gives the exit code */
};

#define COMMAND_DECLARE(name) extern const struct command command_##name;
COMMAND_LIST(COMMAND_DECLARE)
#undef COMMAND_DECLARE

extern const struct command *const COMMANDS[];
extern const int COMMAND_COUNT;

/* The command's options, with the rows of all devices in the place of DEVICE_ROWS. For the main
 * thread only; the rows live until the program ends. */
const struct option_row *command_rows(const struct command *command);

const struct command *command_find(const char *name); /* NULL = none */
const char *command_nearest(const char *name);        /* of all commands */

enum { EXIT_USAGE = 2 }; /* a wrong command line; 1 is a failure while doing what it said */

/* "osprey: MESSAGE" on standard error; gives `code`. */
int command_fail(int code, const char *message);

#endif
