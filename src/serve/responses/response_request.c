#include "serve/responses/response_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "serve/job/conversation.h"
#include "serve/fields/json_budget.h"
#include "serve/fields/json_response_format.h"
#include "serve/responses/response_fields.h"

const char *response_owner(const struct http_request *r)
{
    const char *given = http_request_token(r);

    return given ? given : "";
}

/* ---- the previous response ---- */

static enum osp_status refuse_previous(struct job *job, const char *id)
{
    api_error_set(&job->error, 400, "previous_response_not_found",
                  "Previous response with id '%.80s' not found: it was not stored, has expired, or "
                  "belongs to another client.",
                  id);
    snprintf(job->error.param, sizeof job->error.param, "previous_response_id");
    return OSP_ENOTFOUND;
}

static enum osp_status find_previous(struct job *job, struct response_state *s)
{
    const char *id = json_string_value(json_object_get(job->json, "previous_response_id"));

    if (!id)
        return OSP_OK;
    s->previous = response_store_find(job->server->responses, s->owner, id, clock_ns());
    return s->previous ? OSP_OK : refuse_previous(job, id);
}

/* ---- the conversation ---- */

static bool is_stored(const struct job *job)
{
    return !json_is_false(json_object_get(job->json, "store")) &&
           job->server->opt.stored_responses_max > 0;
}

static enum osp_status read_conversation(struct job *job, struct response_input *in)
{
    const struct response_state *s = job->state;
    enum osp_status st;

    TRY(response_input_instructions(in, json_object_get(job->json, "instructions")));
    TRY(response_input_previous(in, s->previous));
    TRY(response_input_add(in, json_object_get(job->json, "input")));
out:
    return st;
}

/* Frees the JSON of the messages. The text of the items remains, for the store. */
static void free_messages(struct response_input *in)
{
    json_decref(in->messages);
    in->messages = in->open = NULL;
}

/* Gives a chat completion request to json_decref(); NULL: out of memory. */
static json_t *chat_body(const struct job *job, const struct response_input *in,
                         const struct response_tools *tools)
{
    json_t *body = json_pack("{s:O}", "messages", in->messages);
    const json_t *reasoning = json_object_get(job->json, "reasoning");
    const json_t *format = json_object_get(json_object_get(job->json, "text"), "format");

    if (json_is_object(reasoning))
        json_object_set(body, "reasoning", (json_t *)reasoning);
    if (json_is_object(format))
        json_object_set_new(body, "response_format", response_chat_format(format));
    if (tools->n > 0)
        json_object_set(body, "tools", tools->chat);
    return body;
}

static enum osp_status make_chat(struct osp_chat **out, const struct job *job,
                                 struct response_input *in, const struct response_tools *tools)
{
    json_t *body = chat_body(job, in, tools);
    enum osp_status st;

    if (!body)
        return fail(OSP_ENOMEM, "out of memory for the conversation of a request");
    st = response_input_explain(in, tools->source_index, tools->n,
                                conversation_read(out, job->server, body));
    json_decref(body);
    free_messages(in);
    return st;
}

/* ---- the response object ---- */

static void note_verbosity(struct job *job)
{
    const char *word =
        json_string_value(json_object_get(json_object_get(job->json, "text"), "verbosity"));

    if (word && strcmp(word, "medium") != 0)
        fields_warn_ignored(&job->params, "text.verbosity");
}

static bool wants_summary(const json_t *body)
{
    const json_t *reasoning = json_object_get(body, "reasoning");

    return json_is_string(json_object_get(reasoning, "summary")) ||
           json_is_string(json_object_get(reasoning, "generate_summary"));
}

static enum osp_status init_writer(const struct job *job, struct response_state *s,
                                   const struct response_tools *tools)
{
    s->include_encrypted = response_includes(job->json, "reasoning.encrypted_content");
    s->include_summary = wants_summary(job->json);
    s->echo = response_echo(job->json, &job->params, tools->echoed, s->is_stored,
                            job->server->chat_defaults.effort);
    return s->echo ? OSP_OK : fail(OSP_ENOMEM, "out of memory for the response object");
}

/* ---- the whole request ---- */

static enum osp_status read_and_submit(struct job *job)
{
    struct response_state *s = job->state;
    struct osp_chat *chat = NULL;
    enum osp_status st;

    TRY(find_previous(job, s));
    TRY(job_refuse(
        job, response_tools_read(&s->tools, &job->params, json_object_get(job->json, "tools"))));
    TRY(job_refuse(job, read_conversation(job, &s->input)));
    note_verbosity(job);
    TRY(init_writer(job, s, &s->tools));
    if (s->input.n_items == 0 && !s->previous)
        goto out; /* a request without input: the response has no items */
    TRY(job_refuse(job, make_chat(&chat, job, &s->input, &s->tools)));
    TRY(response_format_explain(json_form_explain(&job->params, job_add_chat(job, chat))));
out:
    osp_chat_free(chat);
    return st;
}

enum osp_status response_submit(struct job *job)
{
    struct response_state *s = job->state;
    enum osp_status st;

    /* the messages need memory besides the body */
    json_budget_more(json_budget_for(job->n_body_bytes));
    response_input_init(&s->input, &job->params, job->server->responses, s->owner);
    s->is_stored = is_stored(job);
    s->input.is_unstored = !s->is_stored;
    st = read_and_submit(job);
    free_messages(&s->input);
    response_tools_free_json(&s->tools);
    return st;
}
