#include "serve/response_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/memory.h"
#include "serve/json_budget.h"
#include "serve/response_fields.h"

enum { IGNORED_NAME_BYTES = 48 }; /* longer ones are cut */

/* What becomes of the request's tools. */
struct offered {
    json_t *told; /* as they came, but only those that the model sees */
    json_t *chat; /* as a chat completion has them */
    int *places;  /* (n) tools[i] of the request */
    size_t n, n_max;
};

const char *response_owner(const struct http_request *r)
{
    const char *given = r->fields[HTTP_AUTHORIZATION];

    return given && strncasecmp(given, "Bearer ", 7) == 0 ? given + 7 : "";
}

/* ---- the response before ---- */

static enum osp_status refuse_before(struct job *job, const char *id)
{
    api_error_set(&job->error, 400, "previous_response_not_found",
                  "Previous response with id '%.80s' not found: it was not stored, has been "
                  "forgotten, or is not yours.",
                  id);
    snprintf(job->error.param, sizeof job->error.param, "previous_response_id");
    return OSP_ENOTFOUND;
}

static size_t bytes_of(const struct stored_response *r)
{
    size_t n_bytes = 0;

    for (; r; r = stored_before(r)) {
        int n;
        const struct response_item *items = stored_items(r, &n);

        for (int i = 0; i < n; i++)
            n_bytes += items[i].n_bytes;
    }
    return n_bytes;
}

static enum osp_status find_before(struct job *job, struct response_state *s)
{
    const char *id = json_string_value(json_object_get(job->json, "previous_response_id"));

    if (!id)
        return OSP_OK;
    s->before = response_store_find(job->server->responses, s->owner, id, clock_ns());
    if (!s->before)
        return refuse_before(job, id);
    json_budget_more(json_budget_for(bytes_of(s->before)));
    return OSP_OK;
}

/* ---- tools ---- */

/* The flat form of a function, as the chat has it. */
static json_t *chat_tool(const json_t *tool)
{
    json_t *function = json_object();

    for (const char *const *name =
             (const char *const[]){"name", "description", "parameters", "strict", NULL};
         *name; name++)
        if (json_object_get(tool, *name))
            json_object_set(function, *name, json_object_get(tool, *name));
    return json_pack("{s:s,s:o}", "type", "function", "function", function);
}

static enum osp_status offer(struct offered *o, struct request_params *p, int i, const json_t *tool)
{
    const char *type = json_string_value(json_object_get(tool, "type"));
    char name[IGNORED_NAME_BYTES];

    if (!json_is_object(tool))
        return fail(OSP_EINVAL, "tools[%d]: must be an object", i);
    if (!type)
        return fail(OSP_EINVAL, "tools[%d].type: must be a string", i);
    if (strcmp(type, "function") != 0) {
        snprintf(name, sizeof name, "tools.%s", type);
        fields_note_ignored(p, name);
        return OSP_OK;
    }
    mem_grow(&o->places, o->n, &o->n_max, sizeof *o->places);
    o->places[o->n++] = i;
    json_array_append(o->told, (json_t *)tool);
    json_array_append_new(o->chat, chat_tool(tool));
    return OSP_OK;
}

static enum osp_status offer_all(struct offered *o, struct request_params *p, const json_t *tools)
{
    enum osp_status st = OSP_OK;

    o->told = json_array();
    o->chat = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++)
        TRY(offer(o, p, (int)i, json_array_get(tools, i)));
out:
    return st;
}

static void offered_release(struct offered *o)
{
    json_decref(o->told);
    json_decref(o->chat);
    free(o->places);
}

/* ---- the conversation ---- */

static enum osp_status read_conversation(struct job *job, struct response_input *in)
{
    const struct response_state *s = job->state;
    enum osp_status st;

    TRY(response_input_instructions(in, json_object_get(job->json, "instructions")));
    TRY(response_input_before(in, s->before));
    TRY(response_input_add(in, json_object_get(job->json, "input")));
out:
    return st;
}

/* What stays is what the store gets. */
static void forget_messages(struct response_input *in)
{
    json_decref(in->messages);
    in->messages = in->open = NULL;
}

static char *chat_body(const struct job *job, const struct response_input *in,
                       const struct offered *o)
{
    json_t *body = json_pack("{s:O}", "messages", in->messages);
    const json_t *reasoning = json_object_get(job->json, "reasoning");
    char *text;

    if (json_is_object(reasoning))
        json_object_set(body, "reasoning", (json_t *)reasoning);
    if (o->n > 0)
        json_object_set(body, "tools", o->chat);
    text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    return text;
}

/* The messages go before they are read as a chat, so that they are not there twice. */
static enum osp_status make_chat(struct osp_chat **out, const struct job *job,
                                 struct response_input *in, const struct offered *o)
{
    char *body = chat_body(job, in, o);
    enum osp_status st;

    forget_messages(in);
    if (!body)
        return fail(OSP_ENOMEM, "no memory for the conversation of a request");
    st = response_input_explain(in, o->places, o->n, osp_chat_from_json(out, body, strlen(body)));
    free(body);
    return st;
}

/* ---- what is told ---- */

static void note_verbosity(struct job *job)
{
    const char *word =
        json_string_value(json_object_get(json_object_get(job->json, "text"), "verbosity"));

    if (word && strcmp(word, "medium") != 0)
        fields_note_ignored(&job->params, "text.verbosity");
}

static bool asks_for_summary(const json_t *body)
{
    const json_t *reasoning = json_object_get(body, "reasoning");

    return json_is_string(json_object_get(reasoning, "summary")) ||
           json_is_string(json_object_get(reasoning, "generate_summary"));
}

static enum osp_status tell(const struct job *job, struct response_state *s,
                            const struct offered *o)
{
    const json_t *stored = json_object_get(job->json, "store");

    s->is_stored = !json_is_false(stored) && job->server->opt.stored_responses_max > 0;
    s->tells_seal = response_includes(job->json, "reasoning.encrypted_content");
    s->tells_summary = asks_for_summary(job->json);
    s->echo = response_echo(job->json, &job->params, o->told, s->is_stored);
    return s->echo ? OSP_OK : fail(OSP_ENOMEM, "no memory for a response");
}

/* ---- all of it ---- */

static enum osp_status read_and_submit(struct job *job, struct offered *o)
{
    struct response_state *s = job->state;
    struct osp_chat *chat = NULL;
    enum osp_status st;

    TRY(find_before(job, s));
    TRY(job_refuse(job, offer_all(o, &job->params, json_object_get(job->json, "tools"))));
    TRY(job_refuse(job, read_conversation(job, &s->input)));
    note_verbosity(job);
    TRY(tell(job, s, o));
    if (s->input.n_items == 0 && !s->before)
        goto out; /* a probe: there is nothing to answer */
    TRY(job_refuse(job, make_chat(&chat, job, &s->input, o)));
    TRY(job_add_chat(job, chat));
out:
    osp_chat_free(chat);
    return st;
}

enum osp_status response_submit(struct job *job)
{
    struct response_state *s = job->state;
    struct offered offered = {0};
    enum osp_status st;

    json_budget_more(json_budget_for(job->n_body_bytes)); /* of the messages, beside the body */
    response_input_init(&s->input, &job->params, job->server->responses, s->owner);
    st = read_and_submit(job, &offered);
    forget_messages(&s->input);
    offered_release(&offered);
    return st;
}
