/* The fields for constrained decoding: OpenAI's response_format, vLLM's structured_outputs,
 * SGLang's regex, and choice. The grammar itself is checked when the request is submitted. */
#include "serve/fields/json_response_format.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/fields/json_types.h"

static enum osp_status set_grammar(struct request_params *p, const char *field, enum osp_form form,
                                   char *text)
{
    if (p->options.form != OSP_FORM_NONE) {
        free(text);
        return fail(OSP_EINVAL,
                    "%s: another field constrains the answer already; use only one of "
                    "response_format, structured_outputs, regex and choice",
                    field);
    }
    p->options.form = form;
    p->options.form_text = p->form_text = text;
    return OSP_OK;
}

static enum osp_status set_json(struct request_params *p, const char *field, enum osp_form form,
                                const json_t *v)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);

    if (text == NULL)
        return fail(OSP_ENOMEM, "%s: out of memory for its JSON", field);
    return set_grammar(p, field, form, text);
}

static enum osp_status read_schema(struct request_params *p, const char *field, const json_t *v)
{
    const json_t *schema = json_object_get(v, "schema"), *strict = json_object_get(v, "strict");

    if (!json_is_object(schema))
        return fail(OSP_EINVAL, "%s.json_schema.schema: must be an object, a JSON schema", field);
    if (strict != NULL && !json_is_boolean(strict) && !json_is_null(strict))
        return fail(OSP_EINVAL, "%s.json_schema.strict: must be true or false", field);
    return set_json(p, field, json_is_true(strict) ? OSP_FORM_STRICT_SCHEMA : OSP_FORM_SCHEMA,
                    schema);
}

enum osp_status json_read_response_format(struct request_params *p, const char *field,
                                          const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));

    if (type == NULL)
        return fail(OSP_EINVAL, "%s: must be an object with a member \"type\"", field);
    if (strcmp(type, "text") == 0)
        return OSP_OK;
    if (strcmp(type, "json_object") == 0)
        return set_grammar(p, field, OSP_FORM_OBJECT, NULL);
    if (strcmp(type, "json_schema") == 0)
        return read_schema(p, field, json_object_get(v, "json_schema"));
    return fail(OSP_EINVAL, "%s: type is \"%.40s\", must be text, json_object or json_schema",
                field, type);
}

enum osp_status json_read_regex(struct request_params *p, const char *field, const json_t *v)
{
    if (!json_is_string(v))
        return json_mismatch(field, v, "a string");
    return set_grammar(p, field, OSP_FORM_REGEX, mem_strdup(json_string_value(v)));
}

enum osp_status json_read_choice(struct request_params *p, const char *field, const json_t *v)
{
    if (!json_is_array(v))
        return json_mismatch(field, v, "a list of strings");
    return set_json(p, field, OSP_FORM_CHOICE, v);
}

enum osp_status json_read_structured_outputs(struct request_params *p, const char *field,
                                             const json_t *v)
{
    const char *name;
    json_t *value;
    enum osp_status st = OSP_OK;

    if (!json_is_object(v))
        return json_mismatch(field, v, "an object");
    json_object_foreach((json_t *)v, name, value)
    {
        if (json_is_null(value))
            continue;
        if (strcmp(name, "json") == 0 && json_is_object(value))
            TRY(set_json(p, field, OSP_FORM_SCHEMA, value));
        else if (strcmp(name, "json_object") == 0 && json_is_true(value))
            TRY(set_grammar(p, field, OSP_FORM_OBJECT, NULL));
        else if (strcmp(name, "regex") == 0)
            TRY(json_read_regex(p, field, value));
        else if (strcmp(name, "choice") == 0)
            TRY(json_read_choice(p, field, value));
        else if (!json_is_false(value))
            return fail(
                OSP_EINVAL,
                "%s.%.40s: not supported; use json (a schema), json_object, regex or choice", field,
                name);
    }
out:
    return st;
}
