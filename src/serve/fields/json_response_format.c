/* The fields for constrained decoding: OpenAI's response_format, vLLM's structured_outputs and
 * guided_..., SGLang's regex, llama-server's json_schema, and choice. The grammar itself is checked
 * when the request is submitted. */
#include "serve/fields/json_response_format.h"

#include <stdio.h>
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
                    "response_format, structured_outputs, json_schema, regex, choice, guided_json, "
                    "guided_regex and guided_choice",
                    field);
    }
    p->form_field = field;
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

enum osp_status json_read_json_schema(struct request_params *p, const char *field, const json_t *v)
{
    if (json_is_object(v))
        return set_json(p, field, OSP_FORM_SCHEMA, v);
    if (json_is_string(v))
        return set_grammar(p, field, OSP_FORM_SCHEMA, mem_strdup(json_string_value(v)));
    return json_mismatch(field, v, "a JSON schema, as an object or as the text of one");
}

enum osp_status json_refuse_grammar(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    if (json_is_string(v) && json_string_length(v) == 0)
        return OSP_OK;
    return fail(OSP_EUNSUPPORTED,
                "%s: grammars in GBNF and EBNF are not supported; use response_format (a JSON "
                "schema), regex or choice",
                field);
}

/* The engine's messages begin with the field of the OpenAI API, or with regex or choice. */
enum osp_status json_form_explain(const struct request_params *p, enum osp_status st)
{
    static const char *const NAMES[] = {"response_format", "regex", "choice"};
    const char *text = fail_message();

    if (st == OSP_OK || p->form_field == NULL || strchr(p->form_field, '.') != NULL)
        return st;
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        const size_t n = strlen(NAMES[i]);

        if (strncmp(text, NAMES[i], n) == 0 && text[n] == ':') {
            char rest[FAIL_MESSAGE_BYTES_MAX];

            snprintf(rest, sizeof rest, "%s", text + n);
            return fail(st, "%s%s", p->form_field, rest);
        }
    }
    return st;
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
