/* GET /props and /slots, POST /apply-template: the server in the form of llama-server. */
#include <string.h>

#include "serve/core/routes.h"
#include "serve/fields/field_schemas.h"
#include "serve/job/conversation.h"
#include "serve/job/job.h"
#include "serve/llama/llama_reply.h"
#include "serve/openai/openapi.h"
#include "serve/reply/reply_parts.h"

enum { PROPS_BYTES_MAX = 64 << 10, SLOTS_BYTES_MAX = 4 << 20 };

static void respond(struct http_exchange *x, int http_status, struct buf *body)
{
    buf_puts(body, "\n");
    http_respond(x, http_status, "application/json", buf_text(body), body->size_bytes);
    buf_release(body);
}

static int count_slots(const struct server *s)
{
    struct osp_engine_stats stats;

    osp_engine_get_stats(s->engine, &stats);
    return stats.n_seqs_max;
}

/* ---- GET /props ---- */

static void put_default_settings(struct buf *out, const struct server *s)
{
    buf_printf(out,
               "\"default_generation_settings\":{\"id\":0,\"id_task\":-1,\"n_ctx\":%d,"
               "\"speculative\":false,\"is_processing\":false,\"params\":{",
               s->info.context_tokens_max);
    llama_put_settings(out, &s->opt.defaults, false);
    buf_puts(out, "},\"prompt\":\"\",\"next_token\":{\"has_next_token\":false,\"has_new_line\":"
                  "false,\"n_remain\":-1,\"n_decoded\":0,\"stopping_word\":\"\"}}");
}

/* The name of the model in place of its path: clients show the path's last part, and a path of the
 * server is none of their business. There is no chat template: the Harmony format is part of the
 * program. */
void route_llama_props(struct server *s, struct http_exchange *x, const char *name)
{
    struct buf body;

    (void)name;
    buf_init(&body, PROPS_BYTES_MAX);
    buf_puts(&body, "{");
    put_default_settings(&body, s);
    buf_printf(&body, ",\"total_slots\":%d,\"model_alias\":", count_slots(s));
    reply_put_string(&body, s->names[0]);
    buf_puts(&body, ",\"model_path\":");
    reply_put_string(&body, s->info.name);
    buf_puts(&body, ",\"role\":\"model\",\"modalities\":{\"vision\":false,\"audio\":false,"
                    "\"video\":false},\"chat_template\":\"\",\"chat_template_caps\":{},"
                    "\"bos_token\":\"<|startoftext|>\",\"eos_token\":\"<|return|>\",");
    buf_printf(&body, "\"build_info\":\"osprey %s\",\"is_sleeping\":false}", osp_version());
    respond(x, 200, &body);
}

/* ---- GET /slots ---- */

static void put_slot(struct buf *out, const struct server *s, int i, const struct osp_usage *usage,
                     int tokens_max)
{
    const int n = usage != NULL ? usage->n_generated_tokens : 0;

    buf_printf(out,
               "%s{\"id\":%d,\"n_ctx\":%d,\"speculative\":false,\"is_processing\":%s,"
               "\"n_prompt_tokens\":%d,\"next_token\":{\"has_next_token\":%s,\"n_remain\":%d,"
               "\"n_decoded\":%d}}",
               i > 0 ? "," : "", i, s->info.context_tokens_max, usage != NULL ? "true" : "false",
               usage != NULL ? usage->n_prompt_tokens : 0, usage != NULL ? "true" : "false",
               tokens_max > 0 ? tokens_max - n : -1, n);
}

/* One slot for each request that runs, then the free ones. The engine has no fixed slots: a
 * request's place in the list may change. */
static int put_running(struct buf *out, const struct server *s, int n_slots)
{
    int n = 0;

    for (const struct job *job = s->jobs; job != NULL; job = job->next)
        for (int i = 0; i < job->n_choices && n < n_slots; i++) {
            const struct job_choice *c = &job->choices[i];
            struct osp_usage usage;

            if (!c->has_begun || c->is_finished)
                continue;
            osp_request_usage(c->request, &usage);
            put_slot(out, s, n++, &usage, job->params.options.tokens_max);
        }
    return n;
}

static bool wants_free_slot(const struct http_exchange *x)
{
    const char *query = strchr(http_exchange_request(x)->target, '?');

    return query != NULL && strstr(query, "fail_on_no_slot=1") != NULL;
}

void route_llama_slots(struct server *s, struct http_exchange *x, const char *name)
{
    const int n_slots = count_slots(s);
    struct api_error e;
    struct buf body;
    int n;

    (void)name;
    buf_init(&body, SLOTS_BYTES_MAX);
    buf_puts(&body, "[");
    n = put_running(&body, s, n_slots);
    if (n == n_slots && wants_free_slot(x)) {
        api_error_set(&e, 503, "no_free_slot", "all %d slots are in use", n_slots);
        api_error_respond(x, &e);
        buf_release(&body);
        return;
    }
    for (; n < n_slots; n++)
        put_slot(&body, s, n, NULL, 0);
    buf_puts(&body, "]");
    respond(x, 200, &body);
}

/* ---- POST /apply-template ---- */

static enum osp_status answer_template(const struct token_job *job, const json_t *body,
                                       struct buf *out)
{
    const struct osp_tokenizer *t = osp_model_tokenizer(job->server->loading.result.model);
    struct osp_chat *chat = NULL;
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n = 0, n_bytes = 0;
    enum osp_status st;

    TRY(conversation_read(&chat, job->server, body));
    TRY(osp_chat_render(chat, t, &ids, &n));
    TRY(osp_detokenize(t, ids, n, &text, &n_bytes));
    buf_puts(out, "{\"prompt\":");
    buf_json_string(out, text, n_bytes);
    buf_puts(out, "}\n");
out:
    osp_chat_free(chat);
    osp_free(ids);
    osp_free(text);
    return st;
}

/* What is documented; the other fields of a chat completion request may be there. */
static const struct field TEMPLATE_FIELDS[] = {
    FIELD_REQUIRED_ROW(
        "messages", 0, 0, field_ignored, FIELD_SCHEMA_MESSAGES,
        "The messages of a conversation, as in a chat completion request; its other fields are "
        "accepted as well."),
    FIELD_OTHER_ROW("tools", 0, field_ignored, FIELD_SCHEMA_TOOLS,
                    "The tools of the conversation."),
};
const struct field_set template_fields = {
    .own = TEMPLATE_FIELDS, .n_own = sizeof TEMPLATE_FIELDS / sizeof TEMPLATE_FIELDS[0]};

static const struct field_set *fields_of(const json_t *body)
{
    (void)body;
    return &chat_fields;
}

void route_llama_template(struct server *s, struct http_exchange *x, const char *name)
{
    static const struct token_kind kind = {.fields = &template_fields,
                                           .answer = answer_template,
                                           .fields_of = fields_of,
                                           .takes_any_type = true};

    (void)name;
    token_job_start(s, x, &kind);
}
