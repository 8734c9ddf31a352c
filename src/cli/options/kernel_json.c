#include "cli/options/kernel_json.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/memory.h"

#define OPTION "--attention-config"

static enum osp_status read_members(char **out, json_t *root)
{
    json_t *value;
    const char *key;

    json_object_foreach(root, key, value)
    {
        if (strcmp(key, "backend") != 0)
            fprintf(stderr,
                    "osprey: " OPTION ": %.64s is ignored: osprey chooses this automatically\n",
                    key);
        else if (json_is_string(value))
            *out = mem_strdup(json_string_value(value));
        else if (!json_is_null(value))
            return fail(OSP_EINVAL, OPTION ": backend must be a string, such as \"auto\"");
    }
    return OSP_OK;
}

enum osp_status kernel_json_backend(char **out, const char *json)
{
    json_error_t error;
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &error);
    enum osp_status st;

    *out = NULL;
    if (json_is_object(root))
        st = read_members(out, root);
    else
        st = fail(OSP_EINVAL,
                  OPTION " %.80s: must be a JSON object, such as {\"backend\": \"auto\"}", json);
    json_decref(root);
    return st;
}
