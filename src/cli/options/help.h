/* What the tables say: help on a terminal and the manual page. */
#ifndef CLI_OPTIONS_HELP_H
#define CLI_OPTIONS_HELP_H

#include "cli/options/commands.h"

/* Ends the options of a command where no device but the CPU exports any. */
#define HELP_NO_PLUGIN                                                                             \
    "The CUDA plug-in (osprey-cuda.so) is not installed. It adds options for GPUs."

void help_program(FILE *out);
void help_command(FILE *out, const struct command *command);
void help_man(FILE *out);     /* osprey(1) in man's language */
void help_foreign(FILE *out); /* how options of other servers are taken (foreign.h) */

/* "-c, --ctx-size" in the order of writing them: the own name first. */
void help_option_names(const struct option_row *row, char out[160]);

#endif
