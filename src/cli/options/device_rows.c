/* Rows for the options that devices export. A command's table has one row of kind OPTION_DEVICE in
 * their place; here the devices' rows take that place. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/options/commands.h"
#include "osprey_tools.h"

/* Tables made so far, one for each command that opens a model; kept until the program ends. */
static struct made_rows {
    const struct command *command;
    struct option_row *rows;
    struct made_rows *next;
} * made;

/* "a,b" as "a, b". */
static char *spaced_list(const char *list)
{
    char *out = mem_new(2 * strlen(list) + 1), *to = out;

    for (const char *c = list; *c; c++) {
        *to++ = *c;
        if (*c == ',')
            *to++ = ' ';
    }
    return out;
}

static struct option_row device_row(const struct osp_device_option_info *o, size_t offset)
{
    char *values = spaced_list(o->values);
    struct option_row row = {
        .name = o->name,
        .aliases = o->aliases,
        .kind = OPTION_DEVICE,
        .offset = offset,
        .value = o->metavar,
        .help = mem_printf("%s: %s (default %s)", o->help, values, o->initial),
        .device = o->device,
    };

    free(values);
    return row;
}

static struct option_row *make_rows(const struct option_row *table)
{
    struct osp_device_option_info o;
    struct option_row *rows;
    int n = 0, n_table = 0, n_device = 0;

    while (table[n_table].name)
        n_table++;
    while (osp_device_option_get(n_device, &o))
        n_device++;
    rows = mem_new((size_t)(n_table + n_device + 1) * sizeof *rows);
    for (const struct option_row *row = table; row->name; row++) {
        if (row->kind != OPTION_DEVICE) {
            rows[n++] = *row;
            continue;
        }
        for (int i = 0; i < n_device && osp_device_option_get(i, &o); i++)
            rows[n++] = device_row(&o, row->offset);
    }
    return rows;
}

static bool has_device_row(const struct option_row *table)
{
    while (table->name && table->kind != OPTION_DEVICE)
        table++;
    return table->name != NULL;
}

const struct option_row *command_rows(const struct command *command)
{
    struct made_rows *m = made;

    if (!has_device_row(command->options))
        return command->options;
    while (m && m->command != command)
        m = m->next;
    if (m)
        return m->rows;
    m = mem_new(sizeof *m);
    *m = (struct made_rows){.command = command, .rows = make_rows(command->options), .next = made};
    made = m;
    return m->rows;
}
