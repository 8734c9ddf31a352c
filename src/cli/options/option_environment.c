/* Options from environment variables: OSPREY_<NAME>, and variables of other servers with the same
 * meaning. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options/option_parts.h"

enum { VARIABLE_BYTES_MAX = 64 };

/* "OSPREY_MAX_MODEL_LEN" */
static void variable_of(const struct option_row *row, const char *prefix,
                        char out[VARIABLE_BYTES_MAX])
{
    snprintf(out, VARIABLE_BYTES_MAX, "%s%s", prefix, row->name);
    for (char *c = out; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

/* Which variables of other servers are read: those that choose kernels, and the API key, because a
 * server that ignored it would be open. */
static bool has_variable_of(const struct option_row *row, const char *prefix)
{
    if (strcmp(row->name, "api-key") == 0)
        return true;
    return strcmp(prefix, "VLLM_") == 0 &&
           (strncmp(row->name, "mxfp4-", 6) == 0 || strncmp(row->name, "attention-", 10) == 0);
}

static enum osp_status read_variable(const struct option_row *row, const char *prefix, void *into)
{
    char name[VARIABLE_BYTES_MAX];
    const char *text;
    enum osp_status st;

    variable_of(row, prefix, name);
    text = getenv(name);
    st = text && *text ? option_set(row, into, text) : OSP_OK;
    return st == OSP_OK ? st : fail_prefix(st, "environment variable %s", name);
}

static enum osp_status read_variables(const struct option_row *rows, void *into)
{
    static const char *const others[] = {"LLAMA_", "VLLM_"};
    enum osp_status st = OSP_OK;

    for (const struct option_row *row = rows; row->name && st == OSP_OK; row++) {
        for (size_t i = 0; i < sizeof others / sizeof others[0] && st == OSP_OK; i++)
            if (has_variable_of(row, others[i]))
                st = read_variable(row, others[i], into);
        if (st == OSP_OK)
            st = read_variable(row, "OSPREY_", into);
    }
    return st;
}

/* "VLLM_MXFP4_X=1", where osprey has no --mxfp4-x. */
static void warn_unknown_variable(const struct option_row *rows, const char *entry)
{
    const char *const name_end = strchr(entry, '=');

    for (const struct option_row *row = rows; row->name; row++) {
        char name[VARIABLE_BYTES_MAX];

        variable_of(row, "VLLM_", name);
        if (name_end && strlen(name) == (size_t)(name_end - entry) &&
            strncmp(entry, name, strlen(name)) == 0)
            return;
    }
    if (name_end)
        fprintf(stderr, "osprey: environment variable %.*s is ignored: osprey has no such option\n",
                (int)(name_end - entry), entry);
}

/* In commands that have options for kernels. */
static void warn_unknown_variables(const struct option_row *rows)
{
    static const char *const prefixes[] = {"VLLM_MXFP4_", "VLLM_ATTENTION_"};

    if (!options_find(rows, "--mxfp4-backend"))
        return;
    for (char **entry = environ; *entry; entry++)
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            if (strncmp(*entry, prefixes[i], strlen(prefixes[i])) == 0)
                warn_unknown_variable(rows, *entry);
}

enum osp_status option_environment(const struct option_row *rows, void *into)
{
    warn_unknown_variables(rows);
    return read_variables(rows, into);
}
