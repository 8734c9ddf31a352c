/* One table of options per command, over getopt_long. It defines the parsing, the environment
 * variables (OSPREY_MAX_MODEL_LEN for --max-model-len), the names in a --config file, --help,
 * the shell completion and the manual page. An option has one name, and as aliases the names that
 * other servers use. A new option is one row, the member that the row fills, and its use. */
#ifndef CLI_OPTIONS_OPTIONS_H
#define CLI_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "osprey.h"

enum option_kind {
    OPTION_FLAG,  /* bool */
    OPTION_INT,   /* int: 4096, 4K (1024), 4k (1000), and so M and G */
    OPTION_LIMIT, /* as OPTION_INT, but -1, which other servers use for "default", becomes 0 */
    OPTION_BYTES, /* int64_t: 4096, 64K, 4M, 2G (powers of 1024) */
    OPTION_FLOAT, /* struct option_float */
    OPTION_TEXT,  /* const char *, borrowed from argv or the environment */
    OPTION_DEVICE /* struct option_pairs: an option that a device exports, by name */
};

/* Device options by name, as osp_model_options takes them. */
struct option_pairs {
    int n;
    struct osp_device_option list[OSP_DEVICE_OPTIONS_MAX]; /* (n) */
};

/* Sets the value of that name; false: the list is full. */
bool option_pairs_set(struct option_pairs *pairs, const char *name, const char *value);

/* A number that can be not set. */
struct option_float {
    bool is_set;
    double value;
};

struct option_row {
    const char *name;    /* without dashes; NULL ends the table */
    const char *aliases; /* as written, with commas: "-c,--ctx-size,-np"; or NULL */
    enum option_kind kind;
    size_t offset;     /* of the field in the command's struct */
    double min, max;   /* INT, LIMIT, BYTES, FLOAT */
    const char *value; /* stands for the value in --help; NULL for a flag */
    const char *help;
    const char *device; /* of OPTION_DEVICE: the device's name; otherwise NULL */
};

/* Rows for the members of a struct T: the option's name, its aliases or NULL, what stands for the
 * value, and the help text. */
#define ROW(T, member, flag, also) .name = (flag), .aliases = (also), .offset = offsetof(T, member)
#define FLAG_ROW(T, member, flag, also, text)                                                      \
    {                                                                                              \
        ROW(T, member, flag, also), .kind = OPTION_FLAG, .help = (text)                            \
    }
#define TEXT_ROW(T, member, flag, also, what, text)                                                \
    {                                                                                              \
        ROW(T, member, flag, also), .kind = OPTION_TEXT, .value = (what), .help = (text)           \
    }
#define NUMBER_ROW(T, member, flag, also, form, least, most, what, text)                           \
    {                                                                                              \
        ROW(T, member, flag, also), .kind = (form), .min = (least), .max = (most),                 \
                                    .value = (what), .help = (text)                                \
    }
#define INT_ROW(T, member, flag, also, least, most, what, text)                                    \
    NUMBER_ROW(T, member, flag, also, OPTION_INT, least, most, what, text)
/* Stands for the rows of all devices' options. */
#define DEVICE_ROWS(T, member)                                                                     \
    {                                                                                              \
        .name = "device-options", .kind = OPTION_DEVICE, .offset = offsetof(T, member)             \
    }
#define LIMIT_ROW(T, member, flag, also, most, what, text)                                         \
    NUMBER_ROW(T, member, flag, also, OPTION_LIMIT, -1, most, what, text)
#define BYTES_ROW(T, member, flag, also, least, most, text)                                        \
    NUMBER_ROW(T, member, flag, also, OPTION_BYTES, least, most, "BYTES", text)
#define FLOAT_ROW(T, member, flag, also, least, most, what, text)                                  \
    NUMBER_ROW(T, member, flag, also, OPTION_FLOAT, least, most, what, text)

struct command;

/* The arguments that are not options. */
struct positional_args {
    int n;
    char **words;
};

/* --config, which every command with options has, for help texts. It fills no field. */
extern const struct option_row OPTION_CONFIG;

/* Fills `into` from the file of --config, then the environment, then argv[1..]; each overrides the
 * one before. A file may hold options of several commands; options of other commands are skipped.
 * Strings and *positional are valid until the next call. Ignored options of other servers (see
 * foreign.h) are named on standard error. OSP_EINVAL names the option and the value. For the main
 * thread only. */
CHECKED enum osp_status options_parse(const struct command *command, int argc, char **argv,
                                      void *into, struct positional_args *positional);

/* Finds a row by a spelling ("--max-model-len", "-c", "-np"); NULL: not found. */
const struct option_row *options_find(const struct option_row *rows, const char *word);

#endif
