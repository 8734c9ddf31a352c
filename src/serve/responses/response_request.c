#include "serve/responses/response_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "serve/job/conversation.h"
#include "serve/fields/json_budget.h"
#include "serve/fields/json_response_format.h"
#include "serve/stored/response_conversations.h"
#include "serve/stored/response_events.h"
#include "serve/responses/response_fields.h"
#include "serve/responses/response_truncate.h"

const char *response_owner(const struct server *s, const struct http_request *r)
{
    const char *given = r->key_index >= 0 ? s->keys.items[r->key_index] : http_request_token(r);

    return given ? given : "";
}

/* ---- the previous response ---- */

static enum osp_status refuse_previous(struct job *job, const char *id)
{
    api_error_set(&job->error, 400, "previous_response_not_found",
                  "Previous response with id '%.80s' not found: it was not stored, has not "
                  "finished, has expired, or belongs to another client.",
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

enum osp_status response_conversation_id(const json_t *body, char **id)
{
    const json_t *v = json_object_get(body, "conversation");
    const char *text = json_string_value(json_is_object(v) ? json_object_get(v, "id") : v);

    *id = NULL;
    if (!v || json_is_null(v))
        return OSP_OK;
    if (!text)
        return fail(OSP_EINVAL, "conversation: must be the id of a conversation, or an object with "
                                "its id");
    if (json_is_string(json_object_get(body, "previous_response_id")))
        return fail(OSP_EINVAL, "conversation: cannot be combined with previous_response_id");
    *id = mem_strdup(text);
    return OSP_OK;
}

enum osp_status response_refuse_conversation(struct job *job, const char *id)
{
    api_error_set(&job->error, 404, "not_found",
                  "Conversation with id '%.80s' not found: it was deleted, has expired, or belongs "
                  "to another client.",
                  id);
    snprintf(job->error.param, sizeof job->error.param, "conversation");
    return OSP_ENOTFOUND;
}

static enum osp_status read_history(struct job *job, struct response_input *in)
{
    struct response_state *s = job->state;
    struct conversation_items items;
    enum conversation_result found;
    enum osp_status st;

    s->has_history = s->previous != NULL;
    if (!s->conversation)
        return response_input_previous(in, s->previous);
    found = conversations_items(job->server->conversations, s->owner, s->conversation, clock_ns(),
                                &items);
    if (found == CONVERSATION_UNKNOWN)
        return response_refuse_conversation(job, s->conversation);
    if (found != CONVERSATION_OK)
        return fail(OSP_ENOMEM, "out of memory for the items of a conversation");
    s->has_history = items.n > 0;
    st = response_input_conversation(in, items.items, items.n, buf_text(&items.text));
    conversation_items_release(&items);
    return st;
}

static bool is_stored(const struct job *job)
{
    return !json_is_false(json_object_get(job->json, "store")) &&
           job->server->opt.stored_responses_max > 0;
}

static enum osp_status read_conversation(struct job *job, struct response_input *in)
{
    enum osp_status st;

    TRY(response_input_instructions(in, json_object_get(job->json, "instructions")));
    TRY(read_history(job, in));
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

/* What the conversation is made of. */
struct source {
    const struct job *job;
    struct response_input *in;
    const struct response_tools *tools;
};

/* Gives a chat completion request to json_decref(); NULL: out of memory. */
static json_t *chat_body(const struct source *from, json_t *messages)
{
    json_t *body = json_pack("{s:O}", "messages", messages);
    const json_t *reasoning = json_object_get(from->job->json, "reasoning");
    const json_t *format = json_object_get(json_object_get(from->job->json, "text"), "format");

    if (json_is_object(reasoning))
        json_object_set(body, "reasoning", (json_t *)reasoning);
    if (json_is_object(format))
        json_object_set_new(body, "response_format", response_chat_format(format));
    if (from->tools->n > 0)
        json_object_set(body, "tools", from->tools->chat);
    return body;
}

static enum osp_status make_chat(struct osp_chat **out, const struct source *from, json_t *messages)
{
    json_t *body = chat_body(from, messages);
    enum osp_status st;

    if (!body)
        return fail(OSP_ENOMEM, "out of memory for the conversation of a request");
    st = response_input_explain(from->in, from->tools->source_index, from->tools->n,
                                conversation_read(out, from->job->server, body));
    json_decref(body);
    return st;
}

static enum osp_status count_chat(const struct job *job, const struct osp_chat *chat, size_t *n)
{
    int32_t *ids = NULL;
    enum osp_status st =
        osp_chat_render(chat, osp_model_tokenizer(job->server->loading.result.model), &ids, n);

    osp_free(ids);
    return st;
}

static enum osp_status count_messages(void *ctx, json_t *messages, size_t *n)
{
    struct osp_chat *chat = NULL;
    enum osp_status st;

    TRY(make_chat(&chat, ctx, messages));
    st = count_chat(((const struct source *)ctx)->job, chat, n);
out:
    osp_chat_free(chat);
    return st;
}

/* A token has at least one byte of the request, except for a few in front of each message, which
 * its JSON outweighs. Conversations that fit by this measure need not be counted. */
static bool fits_surely(const struct job *job, const struct response_input *in)
{
    enum { SYSTEM_TOKENS_MAX = 1024 };

    return job->n_body_bytes + in->n_history_bytes + SYSTEM_TOKENS_MAX <
           (size_t)job->server->info.context_tokens_max / 2;
}

/* Applies "truncation": "auto" to in->messages. */
static enum osp_status truncate_messages(struct job *job, struct source *from)
{
    struct response_input *in = from->in;
    const char *how = json_string_value(json_object_get(job->json, "truncation"));
    const struct truncation t = {.messages = in->messages,
                                 .context_tokens_max = job->server->info.context_tokens_max,
                                 .answer_tokens_max = job->params.options.tokens_max,
                                 .count = count_messages,
                                 .ctx = from};
    size_t n_all = json_array_size(in->messages), n_dropped = 0;
    char about[96];
    json_t *kept = NULL;
    enum osp_status st;

    if (!how || strcmp(how, "auto") != 0 || fits_surely(job, in))
        return OSP_OK;
    TRY(response_truncate(&t, &kept, &n_dropped));
    json_decref(in->messages);
    in->messages = kept;
    in->open = NULL;
    if (n_dropped == 0)
        return OSP_OK;
    snprintf(about, sizeof about, "%zu of %zu", n_dropped, n_all);
    fields_warn(&job->params,
                "truncation: messages dropped because the conversation exceeds the context", about);
out:
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

/* *chat: to osp_chat_free(); NULL: the request has no input, and the response no items. */
static enum osp_status read_request(struct job *job, struct osp_chat **chat)
{
    struct response_state *s = job->state;
    struct source from = {job, &s->input, &s->tools};
    enum osp_status st;

    *chat = NULL;
    TRY(job_refuse(job, response_conversation_id(job->json, &s->conversation)));
    TRY(find_previous(job, s));
    TRY(job_refuse(
        job, response_tools_read(&s->tools, &job->params, json_object_get(job->json, "tools"))));
    s->input.is_unstored = !s->is_stored && !s->conversation;
    st = read_conversation(job, &s->input);
    if (st != OSP_OK && job->error.http_status == 0)
        st = job_refuse(job, st);
    TRY(st);
    note_verbosity(job);
    TRY(init_writer(job, s, &s->tools));
    if (s->input.n_items == 0 && !s->has_history)
        goto out;
    TRY(job_refuse(job, truncate_messages(job, &from)));
    TRY(job_refuse(job, make_chat(chat, &from, s->input.messages)));
out:
    free_messages(&s->input);
    return st;
}

static void begin_reading(struct job *job)
{
    struct response_state *s = job->state;

    /* the messages need memory besides the body */
    json_budget_more(json_budget_for(job->n_body_bytes));
    response_input_init(&s->input, &job->params, job->server->responses, s->owner);
    s->is_stored = is_stored(job);
}

/* A background response needs the store: its client finds the result there. */
static enum osp_status begin_background(struct job *job, struct response_state *s)
{
    s->is_background = json_is_true(json_object_get(job->json, "background"));
    if (!s->is_background)
        return OSP_OK;
    if (!s->is_stored)
        return job_refuse(job, fail(OSP_EINVAL, "background: a background response must be stored; "
                                                "remove \"store\": false, or let the operator set "
                                                "--max-stored-responses above 0"));
    s->is_reserved = backgrounds_reserve(job->server->backgrounds);
    if (s->is_reserved)
        return OSP_OK;
    api_error_set(&job->error, 429, "too_many_background_responses",
                  "%d background responses have not finished, the limit; try again later",
                  BACKGROUND_RUNNING_MAX);
    return OSP_EBUSY;
}

enum osp_status response_submit(struct job *job)
{
    struct response_state *s = job->state;
    struct osp_chat *chat;
    enum osp_status st;

    begin_reading(job);
    TRY(begin_background(job, s));
    TRY(read_request(job, &chat));
    if (chat)
        st = response_format_explain(json_form_explain(&job->params, job_add_chat(job, chat)));
    osp_chat_free(chat);
out:
    response_tools_free_json(&s->tools);
    return st;
}

enum osp_status response_count(struct job *job)
{
    struct response_state *s = job->state;
    struct osp_chat *chat;
    enum osp_status st;

    job->params.stream = false; /* of the response whose input is counted */
    begin_reading(job);
    TRY(read_request(job, &chat));
    if (chat)
        st = count_chat(job, chat, &s->n_input_tokens);
    osp_chat_free(chat);
out:
    response_tools_free_json(&s->tools);
    return st;
}
