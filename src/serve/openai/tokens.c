/* /tokenize and /detokenize: convert text or a conversation to token ids and back, in the form
 * of vLLM, and with `content` of llama-server. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "serve/job/conversation.h"
#include "serve/http/errors.h"
#include "serve/fields/field_schemas.h"
#include "serve/fields/json_types.h"
#include "serve/openai/openapi.h"
#include "serve/core/routes.h"

enum { DETOKENIZED_IDS_MAX = 1 << 20 /* far above any context */ };

static const struct osp_tokenizer *tokenizer_of(const struct token_job *job)
{
    return osp_model_tokenizer(job->server->loading.result.model);
}

/* Finds the input, which is in exactly one of three fields. */
static enum osp_status find_input(const json_t *body, const char **name, const json_t **value)
{
    static const char *const names[] = {"prompt", "content", "messages"};

    *value = NULL;
    *name = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *v = json_object_get(body, names[i]);

        if (v == NULL || json_is_null(v))
            continue;
        if (*value != NULL)
            return fail(
                OSP_EINVAL,
                "%s: cannot be combined with %s; send only one of prompt, content and messages",
                names[i], *name);
        *name = names[i];
        *value = v;
    }
    return *value != NULL
               ? OSP_OK
               : fail(OSP_EINVAL, "prompt: is missing; send one of prompt, content and messages");
}

static enum osp_status read_flag(bool *out, const json_t *body, const char *name)
{
    const json_t *v = json_object_get(body, name);

    return v == NULL || json_is_null(v) ? OSP_OK : json_bool(out, name, v);
}

/* ---- /tokenize ---- */

static enum osp_status encode_chat(const struct token_job *job, const json_t *body, int32_t **ids,
                                   size_t *n)
{
    struct osp_chat *chat = NULL;
    enum osp_status st;

    TRY(conversation_read(&chat, job->server, body));
    TRY(osp_chat_render(chat, tokenizer_of(job), ids, n));
out:
    osp_chat_free(chat);
    return st;
}

static enum osp_status encode(const struct token_job *job, const json_t *body, int32_t **ids,
                              size_t *n)
{
    bool with_specials = false;
    const json_t *text, *tools = json_object_get(body, "tools");
    const char *name = NULL;
    enum osp_status st;

    TRY(read_flag(&with_specials, body, "parse_special"));
    TRY(find_input(body, &name, &text));
    if (strcmp(name, "messages") == 0)
        return encode_chat(job, body, ids, n);
    if (tools != NULL && !json_is_null(tools))
        return fail(OSP_EINVAL, "tools: requires messages: tools are part of a conversation");
    if (!json_is_string(text))
        return fail(OSP_EINVAL, "%s: must be a string", name);
    TRY(osp_tokenize(tokenizer_of(job), json_string_value(text), json_string_length(text),
                     with_specials, ids, n));
out:
    return st;
}

/* The client has disconnected: the answer is discarded. */
static enum osp_status canceled(void)
{
    return fail(OSP_ECANCELED, "the client has disconnected");
}

static void put_ids(const int32_t *ids, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n && !cancel_is_set(); i++)
        buf_printf(out, "%s%d", i > 0 ? "," : "", (int)ids[i]);
}

/* Of llama-server: a piece that is not valid UTF-8 by itself is a list of bytes. */
static void put_piece(const struct token_job *job, int32_t id, struct buf *out)
{
    char scratch[OSP_TOKEN_SCRATCH_BYTES];
    const char *bytes = "";
    size_t n_bytes = 0;

    if (osp_token_bytes(tokenizer_of(job), id, scratch, &bytes, &n_bytes) != OSP_OK)
        n_bytes = 0; /* an id beyond the vocabulary has no text */
    buf_printf(out, "{\"id\":%d,\"piece\":", (int)id);
    if (utf8_is_valid(bytes, n_bytes)) {
        buf_json_string(out, bytes, n_bytes);
    } else {
        for (size_t i = 0; i < n_bytes; i++)
            buf_printf(out, "%s%d", i > 0 ? "," : "[", (unsigned char)bytes[i]);
        buf_puts(out, "]");
    }
    buf_puts(out, "}");
}

static void put_pieces(const struct token_job *job, const int32_t *ids, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n && !cancel_is_set(); i++) {
        buf_puts(out, i > 0 ? "," : "");
        put_piece(job, ids[i], out);
    }
}

static void put_strings(const struct token_job *job, const int32_t *ids, size_t n, struct buf *out)
{
    buf_puts(out, ",\"token_strs\":[");
    for (size_t i = 0; i < n && !cancel_is_set(); i++) {
        char scratch[OSP_TOKEN_SCRATCH_BYTES];
        const char *bytes = "";
        size_t n_bytes = 0;

        if (osp_token_bytes(tokenizer_of(job), ids[i], scratch, &bytes, &n_bytes) != OSP_OK)
            n_bytes = 0;
        buf_puts(out, i > 0 ? "," : "");
        buf_json_string(out, bytes, n_bytes);
    }
    buf_puts(out, "]");
}

static enum osp_status answer_tokenize(const struct token_job *job, const json_t *body,
                                       struct buf *out)
{
    bool wants_strings = false, wants_pieces = false, adds_special = false;
    int32_t *ids = NULL;
    size_t n = 0;
    enum osp_status st;

    TRY(read_flag(&wants_strings, body, "return_token_strs"));
    TRY(read_flag(&wants_pieces, body, "with_pieces"));
    TRY(read_flag(&adds_special, body, "add_special"));
    TRY(encode(job, body, &ids, &n));
    buf_printf(out, "{\"count\":%zu,\"max_model_len\":%d,\"tokens\":[", n,
               job->server->info.context_tokens_max);
    if (wants_pieces)
        put_pieces(job, ids, n, out);
    else
        put_ids(ids, n, out);
    buf_puts(out, "]");
    if (wants_strings)
        put_strings(job, ids, n, out);
    buf_puts(out, "}\n");
    st = cancel_is_set() ? canceled() : OSP_OK;
out:
    osp_free(ids);
    return st;
}

/* ---- /detokenize ---- */

static enum osp_status read_ids(int32_t **ids, size_t *n, const json_t *list)
{
    enum osp_status st;

    *n = json_array_size(list);
    if (!json_is_array(list) || *n > DETOKENIZED_IDS_MAX)
        return fail(OSP_EINVAL, "tokens: must be a list of at most %d token ids",
                    DETOKENIZED_IDS_MAX);
    TRY(mem_try_array(ids, *n, sizeof **ids, "token ids"));
    for (size_t i = 0; i < *n; i++) {
        json_int_t id = 0;

        TRY(json_int(&id, "tokens", json_array_get(list, i), 0, INT32_MAX));
        (*ids)[i] = (int32_t)id;
    }
out:
    return st;
}

static enum osp_status answer_detokenize(const struct token_job *job, const json_t *body,
                                         struct buf *out)
{
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n = 0, n_bytes = 0;
    enum osp_status st;

    TRY(read_ids(&ids, &n, json_object_get(body, "tokens")));
    st = osp_detokenize(tokenizer_of(job), ids, n, &text, &n_bytes);
    if (st == OSP_ECANCELED)
        goto out;
    if (st != OSP_OK) {
        st = fail(OSP_EINVAL, "tokens: has an id that is not in the vocabulary of the model");
        goto out;
    }
    for (int i = 0; i < 2 && !cancel_is_set(); i++) {
        buf_puts(out, i == 0 ? "{\"prompt\":" : ",\"content\":");
        buf_json_string(out, text, n_bytes);
    }
    buf_puts(out, "}\n");
    st = cancel_is_set() ? canceled() : OSP_OK;
out:
    osp_free(text);
    free(ids);
    return st;
}

/* ---- routes ---- */

#define OTHER(name, form, text) FIELD_OTHER_ROW(name, 0, field_ignored, form, text)
#define BOOL(name, text)        FIELD_READ_ROW(name, 0, FIELD_BOOL, 0, 0, field_ignored, NULL, text)

static const struct field TOKENIZE_FIELDS[] = {
    OTHER("prompt", "{'type':'string'}",
          "The text to tokenize; exactly one of prompt, content and messages is required."),
    OTHER("content", "{'type':'string'}", "Another name for prompt (llama-server)."),
    OTHER(
        "messages", FIELD_SCHEMA_MESSAGES,
        "A conversation, as in a chat completion request; its other fields are accepted as well."),
    OTHER("tools", FIELD_SCHEMA_TOOLS,
          "The tools of the conversation, as in a chat completion request."),
    BOOL("parse_special", "true: names of control tokens in the text become control tokens."),
    BOOL("return_token_strs", "true: also return the text of each token as token_strs."),
    BOOL("with_pieces", "true: each of tokens is an object with id and piece (llama-server)."),
    BOOL("add_special", "Has no effect: gpt-oss models have no token at the beginning of a text."),
    OTHER("model", "{'type':'string'}",
          "The name of the model; default: the model that this server serves."),
};
const struct field_set tokenize_fields = {
    .own = TOKENIZE_FIELDS, .n_own = sizeof TOKENIZE_FIELDS / sizeof TOKENIZE_FIELDS[0]};

static const struct field DETOKENIZE_FIELDS[] = {
    FIELD_REQUIRED_ROW("tokens", 0, DETOKENIZED_IDS_MAX, field_ignored,
                       "{'type':'array','items':" FIELD_SCHEMA_TOKEN ",'maxItems':#}",
                       "The token ids to convert to text."),
    OTHER("model", "{'type':'string'}",
          "The name of the model; default: the model that this server serves."),
};
const struct field_set detokenize_fields = {
    .own = DETOKENIZE_FIELDS, .n_own = sizeof DETOKENIZE_FIELDS / sizeof DETOKENIZE_FIELDS[0]};

/* With messages, the fields of a chat completion request are allowed. */
static const struct field_set *tokenize_fields_of(const json_t *body)
{
    const json_t *messages = json_object_get(body, "messages");
    static const struct field CHAT_FIELDS[] = {
        BOOL("parse_special", NULL), BOOL("return_token_strs", NULL), BOOL("with_pieces", NULL),
        BOOL("add_special", NULL),   OTHER("prompt", NULL, NULL),     OTHER("content", NULL, NULL),
    };
    static const struct field_set of_chat = {.endpoint = FOR_CHAT,
                                             .own = CHAT_FIELDS,
                                             .n_own = sizeof CHAT_FIELDS / sizeof CHAT_FIELDS[0]};

    return messages != NULL && !json_is_null(messages) ? &of_chat : &tokenize_fields;
}

void route_tokenize(struct server *s, struct http_exchange *x, const char *name)
{
    static const struct token_kind kind = {
        .fields = &tokenize_fields, .answer = answer_tokenize, .fields_of = tokenize_fields_of};

    (void)name;
    token_job_start(s, x, &kind);
}

void route_detokenize(struct server *s, struct http_exchange *x, const char *name)
{
    static const struct token_kind kind = {.fields = &detokenize_fields,
                                           .answer = answer_detokenize};

    (void)name;
    token_job_start(s, x, &kind);
}

void route_version(struct server *s, struct http_exchange *x, const char *name)
{
    struct buf out;

    (void)s;
    (void)name;
    buf_init(&out, 256);
    buf_printf(&out, "{\"version\":\"%s\"}\n", osp_version());
    http_respond(x, 200, "application/json", buf_text(&out), out.size_bytes);
    buf_release(&out);
}
