/* The list of commands, for dispatch, help, completion and manual page. A command is one file
 * cmd_<name>.c that defines command_<name>. */
#ifndef CLI_OPTIONS_COMMANDS_H
#define CLI_OPTIONS_COMMANDS_H

#include "cli/options/options.h"

#define COMMAND_LIST(X)                                                                            \
    X(serve)                                                                                       \
    X(chat)                                                                                        \
    X(status)                                                                                      \
    X(doctor)                                                                                      \
    X(pull)                                                                                        \
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
    int n_positional_max;                   /* arguments that are not options */
    int (*run)(int argc, char **argv);      /* argv[0]: the command's name; returns the exit code */
};

#define COMMAND_DECLARE(name) extern const struct command command_##name;
COMMAND_LIST(COMMAND_DECLARE)
#undef COMMAND_DECLARE

extern const struct command *const COMMANDS[];
extern const int COMMAND_COUNT;

/* The command's options, with the rows of all devices in the place of DEVICE_ROWS. For the main
 * thread only; the rows live until the program ends. */
const struct option_row *command_rows(const struct command *command);

const struct command *command_find(const char *name); /* NULL: unknown */

enum {
    EXIT_USAGE = 2,   /* wrong command line; other failures have 1 */
    EXIT_SIGNAL = 128 /* plus the number of the signal that ended the command, as in shells */
};

/* Prints "osprey: MESSAGE" to standard error. Returns `code`, or EXIT_SIGNAL plus the number of the
 * signal that stopped a download if that is why the command fails (EXIT_FAILURE). */
int command_fail(int code, const char *message);
/* The same with a message that there is no such command; returns EXIT_USAGE. */
int command_unknown(const char *name);

#endif
