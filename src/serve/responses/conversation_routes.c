/* /v1/conversations and the routes below it. Requests with a body are jobs that generate nothing:
 * a worker thread reads the body under the same limits as that of a response. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "serve/fields/json_budget.h"
#include "serve/openai/openapi.h"
#include "serve/stored/response_conversations.h"
#include "serve/stored/response_page.h"
#include "serve/responses/response_request.h"
#include "serve/core/routes.h"

enum { ITEM_BYTES_MAX = 64 << 20, OBJECT_BYTES_MAX = METADATA_BYTES_MAX + 1024 };

/* ---- errors ---- */

static void set_error(struct api_error *e, enum conversation_result result, const char *id,
                      const char *item)
{
    switch (result) {
    case CONVERSATION_UNKNOWN_ITEM:
        api_error_set(e, 404, "not_found", "Item with id '%.80s' not found.", item);
        break;
    case CONVERSATION_FULL:
        api_error_set(e, 400, "conversation_full",
                      "items, metadata: the conversation would have more than %d items, or more "
                      "bytes than --stored-responses-bytes; start a new one",
                      CONVERSATION_ITEMS_MAX);
        break;
    case CONVERSATION_NO_MEMORY:
        api_error_set(e, 503, NULL, "out of memory for the items of a conversation; try again");
        break;
    case CONVERSATION_OK:
    case CONVERSATION_UNKNOWN:
        api_error_set(e, 404, "not_found", "Conversation with id '%.80s' not found.", id);
        break;
    }
}

static void refuse(struct http_exchange *x, enum conversation_result result, const char *id,
                   const char *item)
{
    struct api_error e;

    set_error(&e, result, id, item);
    api_error_respond(x, &e);
}

/* ---- requests with a body ---- */

/* The state of a job. */
struct conversation_state {
    char *owner, id[RESPONSE_ID_BYTES]; /* id: "": a new conversation */
    struct response_input input;
    struct buf answer;
};

/* The id in /v1/conversations/ID and /v1/conversations/ID/items, with or without /v1; "" in another
 * path. */
static void read_path(const struct http_request *r, char id[RESPONSE_ID_BYTES])
{
    static const char prefix[] = "/conversations/";
    const char *rest = r->path + (strncmp(r->path, "/v1/", 4) == 0 ? 3 : 0);
    size_t n;

    id[0] = '\0';
    if (strncmp(rest, prefix, sizeof prefix - 1) != 0)
        return;
    rest += sizeof prefix - 1;
    n = strcspn(rest, "/");
    if (n < RESPONSE_ID_BYTES && (rest[n] == '\0' || strcmp(rest + n, "/items") == 0))
        snprintf(id, RESPONSE_ID_BYTES, "%.*s", (int)n, rest);
}

static void conversation_open(struct job *job)
{
    struct conversation_state *s = job->state;

    s->owner = mem_strdup(response_owner(job->server, http_exchange_request(job->x)));
    read_path(http_exchange_request(job->x), s->id);
    buf_init(&s->answer, ITEM_BYTES_MAX);
}

/* Errors about input[i] are about items[i] here. */
static enum osp_status name_items(struct job *job, enum osp_status st)
{
    char text[FAIL_MESSAGE_BYTES_MAX];

    if (st == OSP_OK)
        return st;
    snprintf(text, sizeof text, "%s", fail_message());
    if (strncmp(text, "input", 5) == 0)
        st = fail(st, "items%s", text + 5);
    return job_refuse(job, st);
}

static enum osp_status read_items(struct job *job)
{
    struct conversation_state *s = job->state;
    json_t *items = json_object_get(job->json, "items");

    json_budget_more(json_budget_for(job->n_body_bytes));
    response_input_init(&s->input, &job->params, job->server->responses, s->owner);
    if (!items || json_is_null(items))
        return OSP_OK;
    if (!json_is_array(items) || json_array_size(items) > CONVERSATION_NEW_ITEMS_MAX)
        return job_refuse(job, fail(OSP_EINVAL, "items: must be a list of at most %d items",
                                    CONVERSATION_NEW_ITEMS_MAX));
    return name_items(job, response_input_add(&s->input, items));
}

static enum osp_status result_status(struct job *job, enum conversation_result result)
{
    const struct conversation_state *s = job->state;

    if (result == CONVERSATION_OK)
        return OSP_OK;
    set_error(&job->error, result, s->id, "");
    return OSP_ENOTFOUND;
}

static enum osp_status add_items(struct job *job)
{
    struct conversation_state *s = job->state;

    return result_status(job, conversations_add(job->server->conversations, s->owner, s->id,
                                                s->input.items, s->input.n_items,
                                                buf_text(&s->input.text), clock_ns()));
}

/* The metadata as JSON; to free(). absent: for a field that is not there; may be NULL. */
static char *metadata_of(const struct job *job, const char *absent)
{
    const json_t *v = json_object_get(job->json, "metadata");

    if (!v || json_is_null(v))
        return absent ? mem_strdup(absent) : NULL;
    return json_dumps(v, JSON_COMPACT);
}

static enum osp_status check_metadata(struct job *job, const char *metadata)
{
    if (!metadata)
        return job_refuse(job, fail(OSP_EINVAL, "metadata: is missing"));
    if (strlen(metadata) > METADATA_BYTES_MAX)
        return job_refuse(job, fail(OSP_EINVAL, "metadata: has more than %d KiB, the limit",
                                    METADATA_BYTES_MAX >> 10));
    return OSP_OK;
}

static enum osp_status put_conversation(struct job *job, const char *metadata)
{
    struct conversation_state *s = job->state;

    return result_status(job, conversations_put(job->server->conversations, s->owner, s->id,
                                                metadata, clock_ns(), &s->answer));
}

static enum osp_status create(struct job *job)
{
    struct conversation_state *s = job->state;
    char *metadata = NULL;
    enum osp_status st;

    if (job->server->opt.stored_responses_max == 0)
        return job_refuse(job, fail(OSP_EUNSUPPORTED, "this server stores no conversations "
                                                      "(--max-stored-responses 0)"));
    TRY(read_items(job));
    metadata = metadata_of(job, "{}");
    TRY(check_metadata(job, metadata));
    TRY(result_status(job, conversations_create(job->server->conversations, s->owner, metadata,
                                                s->id, clock_ns())));
    TRY(add_items(job));
    TRY(put_conversation(job, NULL));
out:
    free(metadata);
    return st;
}

static enum osp_status update(struct job *job)
{
    char *metadata = metadata_of(job, NULL);
    enum osp_status st;

    TRY(check_metadata(job, metadata));
    TRY(put_conversation(job, metadata));
out:
    free(metadata);
    return st;
}

static void put_added(struct conversation_state *s)
{
    const struct response_input *in = &s->input;

    buf_puts(&s->answer, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < in->n_items; i++) {
        buf_puts(&s->answer, i > 0 ? "," : "");
        buf_append(&s->answer, buf_text(&in->text) + in->items[i].begin, in->items[i].n_bytes);
    }
    buf_puts(&s->answer, "],\"first_id\":");
    if (in->n_items > 0)
        buf_json_string(&s->answer, in->items[0].id, strlen(in->items[0].id));
    else
        buf_puts(&s->answer, "null");
    buf_puts(&s->answer, ",\"last_id\":");
    if (in->n_items > 0)
        buf_json_string(&s->answer, in->items[in->n_items - 1].id,
                        strlen(in->items[in->n_items - 1].id));
    else
        buf_puts(&s->answer, "null");
    buf_puts(&s->answer, ",\"has_more\":false}\n");
}

static enum osp_status add(struct job *job)
{
    enum osp_status st;

    TRY(read_items(job));
    TRY(add_items(job));
    put_added(job->state);
out:
    return st;
}

static void begin(struct job *job, struct buf *out)
{
    (void)job, (void)out;
}

static bool on_event(struct job *job, int i, const struct osp_event *event, struct buf *out)
{
    (void)job, (void)i, (void)event, (void)out;
    return true;
}

static void end(struct job *job, struct buf *out)
{
    const struct conversation_state *s = job->state;

    buf_append(out, buf_text(&s->answer), s->answer.size_bytes);
}

static void put_error(struct job *job, struct buf *out, const char *error_json)
{
    (void)job, (void)out, (void)error_json;
}

static void release(struct job *job)
{
    struct conversation_state *s = job->state;

    response_input_release(&s->input);
    buf_release(&s->answer);
    free(s->owner);
}

/* ---- the fields ---- */

#define OTHER(name, reader, form, what) FIELD_OTHER_ROW(name, 0, reader, form, what)
#define ITEMS                                                                                      \
    OTHER("items", field_ignored, "{'type':'array','maxItems':20,'items':{'type':'object'}}",      \
          "Items, as in the input of a response.")
#define METADATA                                                                                   \
    OTHER("metadata", field_metadata,                                                              \
          "{'type':'object','additionalProperties':{'type':'string'}}",                            \
          "Up to 16 strings, which the conversation repeats.")

static const struct field CREATE_FIELDS[] = {ITEMS, METADATA};
static const struct field UPDATE_FIELDS[] = {METADATA};
static const struct field ADD_FIELDS[] = {ITEMS};
const struct field_set conversation_fields = {.own = CREATE_FIELDS, .n_own = 2};
const struct field_set conversation_update_fields = {.own = UPDATE_FIELDS, .n_own = 1};
const struct field_set conversation_items_fields = {.own = ADD_FIELDS, .n_own = 1};

/* ---- routes ---- */

#define JOB_KIND(set, reader)                                                                      \
    {                                                                                              \
        .fields = &(set), .state_bytes = sizeof(struct conversation_state),                        \
        .open = conversation_open, .submit = (reader), .begin = begin, .on_event = on_event,       \
        .end = end, .put_error = put_error, .release = release                                     \
    }

void route_conversation_create(struct server *s, struct http_exchange *x, const char *name)
{
    static const struct job_kind kind = JOB_KIND(conversation_fields, create);

    (void)name;
    job_start(s, x, &kind);
}

void route_conversation_update(struct server *s, struct http_exchange *x, const char *name)
{
    static const struct job_kind kind = JOB_KIND(conversation_update_fields, update);

    (void)name;
    job_start(s, x, &kind);
}

void route_conversation_items_add(struct server *s, struct http_exchange *x, const char *name)
{
    static const struct job_kind kind = JOB_KIND(conversation_items_fields, add);

    (void)name;
    job_start(s, x, &kind);
}

void route_conversation_items(struct server *s, struct http_exchange *x, const char *name)
{
    struct conversation_items list;
    enum conversation_result result = conversations_items(
        s->conversations, response_owner(s, http_exchange_request(x)), name, clock_ns(), &list);

    if (result == CONVERSATION_OK)
        response_list_items(x, list.items, list.n, buf_text(&list.text));
    else
        refuse(x, result, name, "");
    if (result == CONVERSATION_OK)
        conversation_items_release(&list);
}

/* Splits ID/items/ITEM; *item: NULL if the path names the conversation itself. */
static void split(const char *name, char id[RESPONSE_ID_BYTES], const char **item)
{
    static const char between[] = "/items/";
    const char *at = strstr(name, between);

    *item = at ? at + sizeof between - 1 : NULL;
    snprintf(id, RESPONSE_ID_BYTES, "%.*s", (int)(at ? at - name : (long)strlen(name)), name);
}

static void respond(struct http_exchange *x, enum conversation_result result, const char *id,
                    const char *item, struct buf *out)
{
    if (result == CONVERSATION_OK)
        http_respond_buf(x, 200, "application/json", out);
    else
        refuse(x, result, id, item);
    buf_release(out);
}

void route_conversation(struct server *s, struct http_exchange *x, const char *name)
{
    const char *owner = response_owner(s, http_exchange_request(x)), *item;
    enum conversation_result result;
    char id[RESPONSE_ID_BYTES];
    struct buf out;

    split(name, id, &item);
    buf_init(&out, item ? ITEM_BYTES_MAX : OBJECT_BYTES_MAX);
    result = item ? conversations_item(s->conversations, owner, id, item, clock_ns(), &out)
                  : conversations_put(s->conversations, owner, id, NULL, clock_ns(), &out);
    respond(x, result, id, item, &out);
}

/* Without an item the answer says that the conversation is deleted; with one it is the
 * conversation. */
void route_conversation_delete(struct server *s, struct http_exchange *x, const char *name)
{
    const char *owner = response_owner(s, http_exchange_request(x)), *item;
    enum conversation_result result;
    char id[RESPONSE_ID_BYTES];
    struct buf out;

    split(name, id, &item);
    buf_init(&out, OBJECT_BYTES_MAX);
    result = item ? conversations_item(s->conversations, owner, id, item, clock_ns(), NULL)
                  : conversations_delete(s->conversations, owner, id, clock_ns());
    if (result == CONVERSATION_OK && item) {
        result = conversations_put(s->conversations, owner, id, NULL, clock_ns(), &out);
    } else if (result == CONVERSATION_OK) {
        buf_printf(&out, "{\"id\":");
        buf_json_string(&out, id, strlen(id));
        buf_puts(&out, ",\"object\":\"conversation.deleted\",\"deleted\":true}\n");
    }
    respond(x, result, id, item, &out);
}
