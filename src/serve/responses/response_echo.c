/* The request fields that a response object repeats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/responses/response_fields.h"

/* Fields repeated as they were received; null if absent. */
static const char *const VERBATIM[] = {
    "instructions",     "max_output_tokens", "max_tool_calls", "previous_response_id",
    "prompt_cache_key", "safety_identifier", "user",
};

static json_t *field_or(const json_t *body, const char *name, json_t *otherwise)
{
    json_t *v = json_object_get(body, name);

    if (!v || json_is_null(v))
        return otherwise;
    json_decref(otherwise);
    return json_incref(v);
}

static void echo_field(json_t *echo, const json_t *body, const char *name, json_t *otherwise)
{
    json_object_set_new(echo, name, field_or(body, name, otherwise));
}

/* The shortest decimal that converts to the same float: 0.7 and not 0.699999988. */
static json_t *json_float(float number)
{
    char text[32];

    snprintf(text, sizeof text, "%g", (double)number);
    return json_real(strtod(text, NULL));
}

static void echo_sampling(json_t *echo, const json_t *body, const struct osp_sampling *s)
{
    echo_field(echo, body, "temperature", json_float(s->has_temperature ? s->temperature : 1));
    echo_field(echo, body, "top_p", json_float(s->top_p > 0 ? s->top_p : 1));
}

static void echo_reasoning(json_t *echo, const json_t *asked, const char *effort)
{
    json_t *summary = field_or(asked, "summary", field_or(asked, "generate_summary", json_null()));

    json_object_set_new(echo, "reasoning",
                        json_pack("{s:o,s:o}", "effort",
                                  field_or(asked, "effort", json_string(effort)), "summary",
                                  summary));
}

static void echo_text(json_t *echo, const json_t *asked)
{
    json_t *format = field_or(asked, "format", json_pack("{s:s}", "type", "text"));

    json_object_set_new(echo, "text",
                        json_pack("{s:o,s:s}", "format", format, "verbosity", "medium"));
}

static void echo_conversation(json_t *echo, const json_t *asked)
{
    json_object_set_new(echo, "conversation",
                        json_is_string(asked) ? json_pack("{s:O}", "id", asked)
                        : json_is_object(asked)
                            ? json_pack("{s:O}", "id", json_object_get(asked, "id"))
                            : json_null());
}

static void echo_all(json_t *echo, const json_t *body, const struct request_params *p,
                     const json_t *tools, bool is_stored)
{
    for (size_t i = 0; i < sizeof VERBATIM / sizeof VERBATIM[0]; i++)
        echo_field(echo, body, VERBATIM[i], json_null());
    echo_conversation(echo, json_object_get(body, "conversation"));
    echo_field(echo, body, "metadata", json_object());
    echo_field(echo, body, "tool_choice", json_string("auto"));
    echo_field(echo, body, "parallel_tool_calls", json_true());
    json_object_set_new(echo, "top_logprobs", json_integer(p->options.top_logprobs));
    json_object_set_new(echo, "service_tier", json_string("default"));
    echo_field(echo, body, "truncation", json_string("disabled"));
    json_object_set_new(echo, "store", json_boolean(is_stored));
    json_object_set(echo, "tools", (json_t *)tools);
    echo_sampling(echo, body, &p->options.sampling);
    echo_text(echo, json_object_get(body, "text"));
}

char *response_echo(const json_t *body, const struct request_params *p, const json_t *tools,
                    bool is_stored, const char *effort)
{
    json_t *echo = json_object();
    char *text;

    echo_all(echo, body, p, tools, is_stored);
    echo_reasoning(echo, json_object_get(body, "reasoning"), effort);
    text = json_dumps(echo, JSON_COMPACT);
    json_decref(echo);
    if (text) { /* {...} -> ,... */
        text[0] = ',';
        text[strlen(text) - 1] = '\0';
    }
    return text;
}
