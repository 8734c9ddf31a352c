/* Options that belong to one device, such as the choice of a CUDA kernel. A backend exports them
 * as a table (backend_ops.options); their values cross every layer from the command line to the
 * backend's open() as (name, value) strings. Nothing between the table and the device knows a
 * name, so a new option is a row of the device's table and its use there. */
#ifndef BACKEND_DEVICE_OPTIONS_H
#define BACKEND_DEVICE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"

/* A row of a device's table. The texts live as long as the program. */
struct device_option_row {
    const char *name;    /* without dashes: "moe-tile"; NULL ends the table */
    const char *aliases; /* more spellings on the command line, comma-separated; may be NULL */
    const char *metavar; /* stands for the value in a help text: "TILE" */
    const char *initial; /* the default */
    const char *values;  /* allowed values, comma-separated, the default first */
    /* Values of vLLM that are accepted in upper or lower case, comma-separated; may be NULL. The
     * device reports what it runs instead. */
    const char *vllm_values;
    const char *help; /* one sentence without the values and the default */
    const char *hint; /* appended to the message about an invalid value; may be NULL */
    /* For values that a list cannot express: whether `value` is allowed. NULL: `values` lists
     * all. */
    bool (*is_value)(const char *value);
};

struct device_option {
    const char *name, *value;
};

/* Options as the user gave them. If a name occurs twice, the last value counts. Borrows the list
 * and its strings. */
struct device_options {
    int n;
    const struct device_option *list; /* (n) */
};

/* The value of that option; NULL: it is not set. */
static inline const char *device_option_value(const struct device_options *o, const char *name)
{
    for (int i = o->n - 1; i >= 0; i--)
        if (strcmp(o->list[i].name, name) == 0)
            return o->list[i].value;
    return NULL;
}

/* Whether the device chooses, because the option is not set or its value is "auto". */
static inline bool device_option_is_auto(const char *value)
{
    return value == NULL || value[0] == '\0' || strcasecmp(value, "auto") == 0;
}

/* Whether `value` is one of the row's vllm_values. */
bool device_option_is_vllm(const struct device_option_row *row, const char *value);

/* Row number i of all devices' tables, and the device's name. If several devices have an option
 * of one name, only the last device's row is listed, in the order of the registry. Loads plug-ins;
 * a device whose plug-in is missing or refused has no rows. NULL: there are no more rows. */
const struct device_option_row *device_option_at(int i, const char **device);

/* Checks names and values against the table of that device ("auto" and NULL as for
 * backend_find()). OSP_EINVAL and OSP_EUNSUPPORTED name option, value and allowed values. */
CHECKED enum osp_status device_options_check(const struct device_options *o, const char *device);

#endif
