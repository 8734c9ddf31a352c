#include "serve/fields/json_prediction.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static bool is_text(const json_t *object, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value != NULL && strcmp(value, text) == 0;
}

static enum osp_status check_parts(const char *field, const json_t *parts)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);

        if (!is_text(part, "type", "text") || !json_is_string(json_object_get(part, "text")))
            return fail(OSP_EINVAL,
                        "%s.content[%zu]: must be {\"type\": \"text\", \"text\": \"...\"}", field,
                        i);
    }
    return OSP_OK;
}

static const json_t *part_text(const json_t *parts, size_t i)
{
    return json_object_get(json_array_get(parts, i), "text");
}

static enum osp_status join_parts(char **out, const json_t *parts)
{
    size_t n_bytes = 0, at = 0;
    enum osp_status st;

    for (size_t i = 0; i < json_array_size(parts); i++)
        n_bytes += json_string_length(part_text(parts, i));
    TRY(mem_try_array(out, n_bytes + 1, 1, "a prediction"));
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *text = part_text(parts, i);

        memcpy(*out + at, json_string_value(text), json_string_length(text));
        at += json_string_length(text);
    }
out:
    return st;
}

static enum osp_status copy_text(char **out, const json_t *text)
{
    const size_t n_bytes = json_string_length(text);
    enum osp_status st;

    TRY(mem_try_array(out, n_bytes + 1, 1, "a prediction"));
    memcpy(*out, json_string_value(text), n_bytes);
out:
    return st;
}

enum osp_status json_read_prediction(struct request_params *p, const char *field, const json_t *v)
{
    const json_t *content = json_object_get(v, "content");
    enum osp_status st;

    if (json_is_null(v))
        return OSP_OK;
    if (!is_text(v, "type", "content"))
        return fail(OSP_EINVAL, "%s: must be {\"type\": \"content\", \"content\": \"...\"}", field);
    if (!json_is_string(content) && !json_is_array(content))
        return fail(OSP_EINVAL, "%s.content: must be a string or a list of text parts", field);
    if (json_is_array(content))
        TRY(check_parts(field, content));
    free(p->prediction);
    p->prediction = NULL;
    if (json_is_array(content))
        TRY(join_parts(&p->prediction, content));
    else
        TRY(copy_text(&p->prediction, content));
    p->options.prediction_text = p->prediction;
out:
    return st;
}
