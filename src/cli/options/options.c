#include "cli/options/options.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"
#include "cli/options/commands.h"
#include "cli/options/config_file.h"
#include "cli/options/foreign.h"
#include "base/nearest.h"
#include "cli/options/option_parts.h"

const struct option_row OPTION_CONFIG = {
    .name = "config",
    .kind = OPTION_TEXT,
    .value = "FILE",
    .help =
        "file with one option per line as \"name: value\", as for vLLM; the command line and the "
        "environment override it",
};

/* ---- names ---- */

const struct option_row *options_find(const struct option_row *rows, const char *word)
{
    for (const struct option_row *row = rows; row->name; row++)
        if ((strncmp(word, "--", 2) == 0 && strcmp(word + 2, row->name) == 0) ||
            str_in_list(row->aliases, word))
            return row;
    return NULL;
}

/* Updates the most similar name with those of a comma-separated list. */
static void update_nearest(const char *list, const char *word, int *distance, char best[64])
{
    while (list && *list) {
        size_t n = strcspn(list, ",");
        char one[64];

        snprintf(one, sizeof one, "%.*s", (int)n, list);
        if (word_distance(word, one) < *distance) {
            *distance = word_distance(word, one);
            memcpy(best, one, sizeof one);
        }
        list += n + (list[n] == ',');
    }
}

/* Whether some device besides the CPU exports options to this command. */
static bool has_plugin_rows(const struct option_row *rows)
{
    while (rows->name && (!rows->device || strcmp(rows->device, "cpu") == 0))
        rows++;
    return rows->name != NULL;
}

static enum osp_status unknown_option(const struct command *command, const char *word)
{
    const struct option_row *rows = command_rows(command);
    const bool lacks_plugin = rows != command->options && !has_plugin_rows(rows);
    char nearest[64] = "--help";
    int distance = INT_MAX;

    for (const struct option_row *row = rows; row->name; row++) {
        char name[64];

        snprintf(name, sizeof name, "--%s", row->name);
        update_nearest(name, word, &distance, nearest);
        update_nearest(row->aliases, word, &distance, nearest);
    }
    return fail(OSP_EINVAL, "%s: unknown option%s%s (osprey %s --help lists all%s)", word,
                is_near(word, distance) ? "; the most similar is " : "",
                is_near(word, distance) ? nearest : "", command->name,
                lacks_plugin ? "; options of GPUs need osprey-cuda.so, which is not installed"
                             : "");
}

/* ---- the command line ---- */

/* argv with every option spelled "--name=value" or "--flag"; owns its strings. */
struct expanded {
    char **argv;
    int argc;
    char *config; /* value of --config; owned */
};

static void expanded_release(struct expanded *p)
{
    for (int i = 0; i < p->argc; i++)
        free(p->argv[i]);
    free(p->argv);
    free(p->config);
    *p = (struct expanded){0};
}

static void expanded_add(struct expanded *p, char *word)
{
    p->argv[p->argc++] = word;
}

/* Splits "--name=value" and "-c4096" into name and value; "-ctk" is a name. Returns the row, sets
 * *attached to the value (NULL: not attached), and cuts the value from `word`. */
static const struct option_row *split_word(const struct option_row *rows, char *word,
                                           const char **attached)
{
    const struct option_row *row = options_find(rows, word);
    char *equals = strchr(word, '=');
    char letter[3] = {word[0], word[1], '\0'};

    *attached = NULL;
    if (row)
        return row;
    if (equals) {
        *equals = '\0';
        *attached = equals + 1;
        return options_find(rows, word);
    }
    if (word[1] != '-' && word[2] != '\0' && !foreign_find(word))
        row = options_find(rows, letter);
    if (!row || row->kind == OPTION_FLAG)
        return NULL;
    *attached = word + 2;
    return row;
}

static enum osp_status skip_foreign(const struct command *command, const char *word,
                                    const char *attached, char **next, int *n_used)
{
    const struct foreign_option *foreign = foreign_find(word);
    const char *value = attached;

    if (!foreign)
        return unknown_option(command, word);
    if (!attached && *next &&
        (foreign->value == FOREIGN_ONE ||
         (foreign->value == FOREIGN_MODE && str_in_list(FOREIGN_MODES, *next)))) {
        value = *next;
        ++*n_used;
    }
    return foreign_ignore(foreign, word, value);
}

static enum osp_status add_option(struct expanded *p, const struct option_row *row,
                                  const char *word, const char *attached, char **next, int *n_used)
{
    const char *value = attached;

    if (row->kind == OPTION_FLAG) {
        expanded_add(p, value ? mem_printf("--%s=%s", row->name, value)
                              : mem_printf("--%s", row->name));
        return OSP_OK;
    }
    if (!value) {
        if (!*next)
            return fail(OSP_EINVAL, "%s: needs a value (%s)", word, row->value);
        value = *next;
        ++*n_used;
    }
    expanded_add(p, mem_printf("--%s=%s", row->name, value));
    return OSP_OK;
}

/* --config FILE, --config=FILE; false: another option. */
static bool is_config(const char *word)
{
    return strncmp(word, "--config", 8) == 0 && (word[8] == '\0' || word[8] == '=');
}

static enum osp_status set_config(struct expanded *p, const char *word, char **next, int *n_used)
{
    const char *path = word[8] == '=' ? word + 9 : *next;

    if (!path)
        return fail(OSP_EINVAL, "--config: needs a value (FILE)");
    *n_used += word[8] != '=';
    free(p->config);
    p->config = mem_strdup(path);
    return OSP_OK;
}

/* "--max_model_len=x_y" is "--max-model-len=x_y", as in vLLM and llama-server. */
static void underscores_to_dashes(char *word)
{
    if (strncmp(word, "--", 2) == 0)
        for (char *c = word; *c && *c != '='; c++)
            *c = *c == '_' ? '-' : *c;
}

/* Expands one argument and its value. *n_used: number of arguments that were consumed. */
static enum osp_status expand_word(struct expanded *p, const struct command *command, char **at,
                                   int *n_used)
{
    const struct option_row *row;
    const char *attached;
    enum osp_status st;
    char *word = mem_strdup(at[0]);

    *n_used = 1;
    underscores_to_dashes(word);
    if (word[0] != '-' || word[1] == '\0') {
        expanded_add(p, word);
        return OSP_OK;
    }
    if (is_config(word) && command->options->name) {
        st = set_config(p, word, at + 1, n_used);
        free(word);
        return st;
    }
    row = split_word(command_rows(command), word, &attached);
    st = row ? add_option(p, row, word, attached, at + 1, n_used)
             : skip_foreign(command, word, attached, at + 1, n_used);
    free(word);
    return st;
}

static enum osp_status expand_args(struct expanded *p, const struct command *command, int argc,
                                   char **argv)
{
    bool words_only = false;

    p->argv = mem_new(((size_t)argc + 1) * sizeof *p->argv);
    expanded_add(p, mem_strdup(argv[0]));
    for (int i = 1, n_used = 1; i < argc; i += n_used) {
        enum osp_status st;

        n_used = 1;
        if (words_only || strcmp(argv[i], "--") == 0) {
            words_only = true;
            expanded_add(p, mem_strdup(argv[i]));
            continue;
        }
        st = expand_word(p, command, argv + i, &n_used);
        if (st != OSP_OK)
            return st;
    }
    return OSP_OK;
}

static int count_rows(const struct option_row *rows)
{
    int n = 0;

    while (rows[n].name)
        n++;
    return n;
}

static struct option *long_options(const struct option_row *rows)
{
    int n = count_rows(rows);
    struct option *options = mem_new(((size_t)n + 1) * sizeof *options);

    for (int i = 0; i < n; i++)
        options[i] = (struct option){.name = rows[i].name,
                                     .has_arg = rows[i].kind == OPTION_FLAG ? optional_argument
                                                                            : required_argument};
    return options;
}

static enum osp_status parse_expanded(const struct command *command, struct expanded *p, void *into)
{
    struct option *options = long_options(command_rows(command));
    enum osp_status st = OSP_OK;
    int index = 0, code = 0;

    optind = 0; /* restarts getopt_long */
    opterr = 0;
    while (st == OSP_OK && (code = getopt_long(p->argc, p->argv, "", options, &index)) == 0)
        st = option_set(&command_rows(command)[index], into, optarg);
    free(options);
    if (st == OSP_OK && code != -1)
        return fail(OSP_EINVAL, "%s: not a valid option", p->argv[optind - 1]);
    return st;
}

/* ---- the file ---- */

/* Whether to skip the line: an option of another command, or a foreign option that is off. */
static bool is_other_command(const struct command *command, const char *word, const char *value)
{
    const struct foreign_option *foreign = foreign_find(word);

    if (options_find(command_rows(command), word))
        return false;
    if (foreign)
        return foreign->value == FOREIGN_NONE && str_in_list("0,false,no,off", value);
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (options_find(command_rows(COMMANDS[i]), word))
            return true;
    return false;
}

/* Treats the line as "--name=value" on the command line. */
static enum osp_status apply_line(struct expanded *p, const struct command *command,
                                  const struct config_line *line)
{
    char *words[2] = {mem_printf("--%s=%s", line->name, line->value), NULL};
    char *name = mem_printf("--%s", line->name);
    enum osp_status st = OSP_OK;
    int n_used;

    underscores_to_dashes(name);
    if (is_config(name))
        st = fail(OSP_EINVAL, "config: a --config file cannot name another file");
    else if (!is_other_command(command, name, line->value))
        st = expand_word(p, command, words, &n_used);
    free(words[0]);
    free(name);
    return st;
}

static enum osp_status read_config(struct expanded *p, const struct command *command,
                                   const char *path, void *into)
{
    struct config_file file = {0};
    struct config_line line;
    enum osp_status st;
    bool found;

    TRY(config_file_open(&file, path));
    /* an upper bound for the number of options: a line has at least two bytes */
    p->argv = mem_new((CONFIG_FILE_BYTES_MAX / 2 + 2) * sizeof *p->argv);
    expanded_add(p, mem_strdup(command->name));
    while ((st = config_file_next(&file, &line, &found)) == OSP_OK && found) {
        st = apply_line(p, command, &line);
        if (st != OSP_OK) {
            st = fail_prefix(st, "%s, line %d", path, file.line);
            break;
        }
    }
    if (st == OSP_OK && (st = parse_expanded(command, p, into)) != OSP_OK)
        st = fail_prefix(st, "%s", path);
out:
    config_file_close(&file);
    return st;
}

enum osp_status options_parse(const struct command *command, int argc, char **argv, void *into,
                              struct positional_args *positional)
{
    /* own the strings that the caller's pointers refer to, until the next call */
    static struct expanded expanded, from_file;
    const char *config = getenv("OSPREY_CONFIG");
    enum osp_status st;

    expanded_release(&expanded);
    expanded_release(&from_file);
    TRY(expand_args(&expanded, command, argc, argv));
    config = expanded.config ? expanded.config : config;
    if (config && *config && command->options->name)
        TRY(read_config(&from_file, command, config, into));
    TRY(option_environment(command_rows(command), into));
    TRY(parse_expanded(command, &expanded, into));
    positional->n = expanded.argc - optind;
    positional->words = expanded.argv + optind;
    if (positional->n > command->n_positional_max)
        return fail(OSP_EINVAL, "%s: unexpected argument (osprey %s %s)",
                    positional->words[command->n_positional_max], command->name, command->usage);
out:
    return st;
}
