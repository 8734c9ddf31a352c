#include "backend/device_options.h"

#include <stdio.h>

#include "backend/checked.h"

enum { VALUES_TEXT_BYTES = 192 };

/* ---- comma-separated lists ---- */

typedef int compare_fn(const char *a, const char *b, size_t n);

static bool is_listed(const char *list, const char *value, compare_fn *compare)
{
    const size_t n_value = strlen(value);

    while (list != NULL && *list != '\0') {
        const size_t n = strcspn(list, ",");

        if (n == n_value && n > 0 && compare(list, value, n) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

bool device_option_is_vllm(const struct device_option_row *row, const char *value)
{
    return is_listed(row->vllm_values, value, strncasecmp);
}

/* Appends "a,b" as ", a, b" and returns the new length. */
static size_t append_list(char out[VALUES_TEXT_BYTES], size_t at, const char *list)
{
    while (list != NULL && *list != '\0') {
        const size_t n = strcspn(list, ",");

        if (n > 0 && at < VALUES_TEXT_BYTES)
            at += (size_t)snprintf(out + at, VALUES_TEXT_BYTES - at, "%s%.*s", at > 0 ? ", " : "",
                                   (int)n, list);
        list += n + (list[n] == ',');
    }
    return at;
}

/* ---- the tables ---- */

static const struct device_option_row *find_row(const struct device_option_row *rows,
                                                const char *name)
{
    for (; rows != NULL && rows->name != NULL; rows++)
        if (strcmp(rows->name, name) == 0)
            return rows;
    return NULL;
}

/* Whether a later device in the registry has the option too. */
static bool is_replaced(enum device device, const char *name)
{
    for (int d = (int)device + 1; d < N_DEVICES; d++)
        if (find_row(device_option_rows((enum device)d), name) != NULL)
            return true;
    return false;
}

const struct device_option_row *device_option_at(int i, const char **device)
{
    for (int d = 0; d < N_DEVICES; d++) {
        const struct device_option_row *row = device_option_rows((enum device)d);

        for (; row != NULL && row->name != NULL; row++)
            if (!is_replaced((enum device)d, row->name) && i-- == 0) {
                *device = checked_ops((enum device)d)->name;
                return row;
            }
    }
    return NULL;
}

/* ---- the check ---- */

static bool is_allowed(const struct device_option_row *row, const char *value)
{
    if (row->is_value != NULL && row->is_value(value))
        return true;
    return strcasecmp(value, row->initial) == 0 || is_listed(row->values, value, strncmp) ||
           device_option_is_vllm(row, value);
}

static enum osp_status refuse(const struct device_option_row *row, const char *value,
                              const char *device)
{
    char values[VALUES_TEXT_BYTES] = "";

    (void)append_list(values, append_list(values, 0, row->values), row->vllm_values);
    return fail(row->hint != NULL ? OSP_EUNSUPPORTED : OSP_EINVAL,
                "--%s %.64s: the device %s accepts %s%s%s", row->name, value, device, values,
                row->hint != NULL ? "; " : "", row->hint != NULL ? row->hint : "");
}

static enum osp_status check_one(const struct device_option *o,
                                 const struct device_option_row *rows, const char *device)
{
    const struct device_option_row *row = find_row(rows, o->name);

    if (row != NULL && !is_allowed(row, o->value))
        return refuse(row, o->value, device);
    if (row == NULL && !device_option_is_auto(o->value))
        return fail(OSP_EUNSUPPORTED,
                    "--%.64s %.64s: the device %s has no such option; remove it or choose another "
                    "--device",
                    o->name, o->value, device);
    return OSP_OK;
}

enum osp_status device_options_check(const struct device_options *o, const char *device)
{
    const struct backend_ops *ops;
    enum osp_status st = OSP_OK;

    if (o->n == 0)
        return OSP_OK;
    ops = backend_find(device);
    if (ops == NULL)
        return OSP_ENOTFOUND;
    for (int i = 0; i < o->n && st == OSP_OK; i++)
        st = check_one(&o->list[i], device_option_rows(device_of(ops)), ops->name);
    return st;
}
