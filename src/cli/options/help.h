/* Help texts and the manual page, from the tables of commands and options. */
#ifndef CLI_OPTIONS_HELP_H
#define CLI_OPTIONS_HELP_H

#include "cli/options/commands.h"

/* Ends the options of a command where no device but the CPU exports any. */
#define HELP_NO_PLUGIN                                                                             \
    "The CUDA plug-in (osprey-cuda.so) is not installed. It adds options for GPUs."

void help_program(FILE *out);
void help_command(FILE *out, const struct command *command);
void help_man(FILE *out);     /* osprey(1) in the language of man(7) */
void help_foreign(FILE *out); /* the options of other servers (foreign.h) */

/* "--max-model-len TOKENS, -c, --ctx-size": the option's name, then its aliases. */
void help_option_names(const struct option_row *row, char out[160]);

#endif
