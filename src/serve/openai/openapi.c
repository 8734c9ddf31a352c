#include "serve/openai/openapi.h"

#include <string.h>

#include "serve/http/errors.h"
#include "serve/openai/openapi_schemas.h"
#include "serve/reply/reply_parts.h"
#include "serve/core/routes.h"

enum { DOCUMENT_BYTES_MAX = 1 << 20 };

#define ITEMS_QUERY                                                                                \
    "{'name':'limit','in':'query','schema':{'type':'integer','minimum':1,'maximum':100}},"         \
    "{'name':'order','in':'query','schema':{'enum':['asc','desc']}},"                              \
    "{'name':'after','in':'query','schema':{'type':'string'}}"

static const struct route_doc DOCS[] = {
    {.path = "/", .type = "text/plain; charset=utf-8"},
    {.path = "/health", .schema = "Health"},
    {.path = "/metrics", .type = "text/plain; version=0.0.4; charset=utf-8"},
    {.path = "/openapi.json", .schema = "Document"},
    {.path = "/v1/models", .schema = "Models"},
    {.path = "/v1/models/*", .schema = "Model"},
    {.path = "/version", .schema = "Version"},
    {.path = "/tokenize",
     .body = &tokenize_fields,
     .rule = "'anyOf':[{'required':['prompt']},{'required':['content']},{'required':['messages']}]",
     .schema = "Tokens",
     .statuses = "429"},
    {.path = "/detokenize", .body = &detokenize_fields, .schema = "Text", .statuses = "429"},
    {.path = "/v1/chat/completions",
     .body = &chat_fields,
     .schema = "ChatCompletion",
     .chunk = "ChatCompletionChunk",
     .statuses = "429 504"},
    {.path = "/v1/completions",
     .body = &completions_fields,
     .schema = "Completion",
     .chunk = "CompletionChunk",
     .statuses = "429 504"},
    {.path = "/v1/messages",
     .body = &messages_fields,
     .schema = "Message",
     .chunk = "MessageEvent",
     .statuses = "429 504 529",
     .error = "MessageError"},
    {.path = "/v1/messages/count_tokens",
     .body = &count_tokens_fields,
     .schema = "MessageTokens",
     .statuses = "429 529",
     .error = "MessageError"},
    {.path = "/v1/responses",
     .body = &responses_fields,
     .schema = "Response",
     .chunk = "ResponseEvent",
     .statuses = "429 504"},
    {.path = "/v1/responses/input_tokens",
     .body = &responses_fields,
     .schema = "ResponseInputTokens",
     .statuses = "429 504"},
    {.path = "/v1/responses/compact", .schema = "Error"},
    {.path = "/v1/responses/*/cancel", .schema = "Response"},
    {.path = "/v1/responses/*/input_items", .schema = "ResponseItems", .query = ITEMS_QUERY},
    {.path = "/v1/responses/*", .method = "GET", .schema = "Response"},
    {.path = "/v1/responses/*", .method = "DELETE", .schema = "ResponseDeleted"},
    {.path = "/v1/conversations",
     .body = &conversation_fields,
     .schema = "Conversation",
     .statuses = "429 504"},
    {.path = "/v1/conversations/*/items",
     .method = "POST",
     .body = &conversation_items_fields,
     .schema = "ResponseItems",
     .statuses = "429 504"},
    {.path = "/v1/conversations/*/items",
     .method = "GET",
     .schema = "ResponseItems",
     .query = ITEMS_QUERY},
    {.path = "/v1/conversations/*",
     .method = "POST",
     .body = &conversation_update_fields,
     .schema = "Conversation",
     .statuses = "429 504"},
    {.path = "/v1/conversations/*", .method = "GET", .schema = "Conversation"},
    {.path = "/v1/conversations/*", .method = "DELETE", .schema = "Conversation"},
    {.path = "/completion",
     .body = &llama_fields,
     .schema = "LlamaCompletions",
     .chunk = "LlamaCompletion",
     .statuses = "429 504"},
    {.path = "/completions",
     .body = &llama_fields,
     .schema = "LlamaCompletions",
     .chunk = "LlamaCompletion",
     .statuses = "429 504"},
    {.path = "/apply-template",
     .body = &template_fields,
     .schema = "LlamaPrompt",
     .statuses = "429"},
    {.path = "/props", .schema = "LlamaProps"},
    {.path = "/slots", .schema = "LlamaSlots"},
    {.path = "/v1/health", .schema = "Health"},
    {.path = "/ping", .schema = "Health"},
    {.path = "/api/chat",
     .body = &ollama_chat_fields,
     .schema = "OllamaChat",
     .chunk = "OllamaChat",
     .has_lines = true,
     .statuses = "429 504"},
    {.path = "/api/generate",
     .body = &ollama_generate_fields,
     .schema = "OllamaGenerate",
     .chunk = "OllamaGenerate",
     .has_lines = true,
     .statuses = "429 504"},
    {.path = "/api/tags", .schema = "OllamaModels"},
    {.path = "/api/ps", .schema = "OllamaModels"},
    {.path = "/api/show", .body = &ollama_show_fields, .schema = "OllamaShow", .statuses = "429"},
    {.path = "/api/version", .schema = "Version"},
};

/* A route without an entry in DOCS answers with JSON. */
static const struct route_doc *doc_of(const char *method, const char *path)
{
    static const struct route_doc unknown = {.schema = "Document"};

    for (size_t i = 0; i < sizeof DOCS / sizeof DOCS[0]; i++)
        if (strcmp(DOCS[i].path, path) == 0 &&
            (DOCS[i].method == NULL || strcmp(DOCS[i].method, method) == 0))
            return &DOCS[i];
    return &unknown;
}

/* Writes JSON from text with ' for ", # for `number` and % for the last token id. */
static void put_json(struct buf *out, const char *text, double number, int last_token)
{
    for (; *text; text++) {
        if (*text == '#' && text[1] != '/') /* not the # of "#/components/..." */
            buf_printf(out, "%.17g", number);
        else if (*text == '%')
            buf_printf(out, "%d", last_token);
        else
            buf_putc(out, *text == '\'' ? '"' : *text);
    }
}

/* ---- fields ---- */

static void put_range(struct buf *out, const struct field *f, const char *type)
{
    buf_printf(out, "{\"type\":[\"%s\",\"null\"],\"minimum\":%.17g,\"maximum\":%.17g}", type,
               f->min, f->max);
}

/* null is allowed for every field that is not required: it is treated as absent. */
static void put_type(struct buf *out, const struct field *f, int last_token)
{
    switch (f->type) {
    case FIELD_BOOL:
        buf_puts(out, "{\"type\":[\"boolean\",\"null\"]}");
        break;
    case FIELD_INT:
        put_range(out, f, "integer");
        break;
    case FIELD_FLOAT:
        put_range(out, f, "number");
        break;
    case FIELD_OTHER:
        buf_puts(out, f->is_required ? "" : "{\"anyOf\":[");
        put_json(out, f->schema, f->max, last_token);
        buf_puts(out, f->is_required ? "" : ",{\"type\":\"null\"}]}");
        break;
    }
}

static void put_field(struct buf *out, const struct field *f, int last_token)
{
    reply_put_string(out, f->name);
    buf_puts(out, ":");
    put_type(out, f, last_token);
    out->size_bytes--; /* continue the same object with the description */
    buf_puts(out, ",\"description\":");
    reply_put_string(out, f->text);
    buf_puts(out, "}");
}

static void put_body(struct buf *out, const struct route_doc *doc, int last_token)
{
    const struct field_set *set = doc->body;
    const struct field *f;
    const char *comma = "";

    buf_puts(out,
             "\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":"
             "{\"type\":\"object\",\"properties\":{");
    for (size_t i = 0; (f = fields_at(set, i)) != NULL; i++) {
        buf_puts(out, i > 0 ? "," : "");
        put_field(out, f, last_token);
    }
    buf_puts(out, "},\"required\":[");
    for (size_t i = 0; (f = fields_at(set, i)) != NULL; i++) {
        if (!f->is_required)
            continue;
        buf_puts(out, comma);
        reply_put_string(out, f->name);
        comma = ",";
    }
    buf_puts(out, "]");
    if (doc->rule) {
        buf_puts(out, ",");
        put_json(out, doc->rule, 0, last_token);
    }
    buf_puts(out, "}}}},");
}

/* ---- answers ---- */

static void put_content(struct buf *out, const char *type, const char *schema)
{
    reply_put_string(out, type);
    if (schema)
        buf_printf(out, ":{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}", schema);
    else
        buf_puts(out, ":{\"schema\":{\"type\":\"string\"}}");
}

static void put_success(struct buf *out, const struct route_doc *doc, const char *text)
{
    buf_puts(out, "\"200\":{\"description\":");
    reply_put_string(out, text);
    buf_puts(out, ",\"content\":{");
    put_content(out, doc->type ? doc->type : "application/json", doc->schema);
    if (strcmp(doc->path ? doc->path : "", "/") == 0) {
        buf_puts(out, ",");
        put_content(out, "text/html; charset=utf-8", NULL);
    }
    if (doc->has_lines) {
        buf_puts(out, ",");
        put_content(out, "application/x-ndjson", doc->chunk);
    } else if (doc->chunk) {
        buf_printf(out,
                   ",\"text/event-stream\":{\"schema\":{\"type\":\"object\",\"description\":"
                   "\"An event of the stream. That of chat and completions ends in "
                   "[DONE].\",\"required\":[\"data\"],"
                   "\"properties\":{\"event\":{\"type\":\"string\"},\"data\":{\"type\":\"string\","
                   "\"anyOf\":["
                   "{\"contentMediaType\":\"application/json\","
                   "\"contentSchema\":{\"$ref\":\"#/components/schemas/%s\"}},"
                   "{\"const\":\"[DONE]\"}]}}}}",
                   doc->chunk);
    }
    buf_puts(out, "}}");
}

/* Routes that can return an error: all, those with a body, those whose `statuses` lists it. */
enum { TO_ALL, TO_BODIES, TO_NAMED };
static const struct {
    const char *status, *text;
    int to;
} ERRORS[] = {
    {"400", "The request is invalid; param names the field.", TO_ALL},
    {"401", "The API key is missing or wrong.", TO_ALL},
    {"403", "The Host or Origin of the request is not allowed.", TO_ALL},
    {"404", "The route, the object or the model does not exist.", TO_ALL},
    {"405", "The route does not support this method.", TO_ALL},
    {"408", "The request did not arrive within --request-timeout.", TO_BODIES},
    {"413", "The body is larger than --max-body.", TO_BODIES},
    {"415", "The Content-Type of the body is not application/json.", TO_BODIES},
    {"429", "Too many requests are waiting; Retry-After has the seconds to wait before a retry.",
     TO_NAMED},
    {"500", "An internal error of the server.", TO_BODIES},
    {"501", "The request uses a part of HTTP that the server does not implement.", TO_BODIES},
    {"503",
     "The model is being loaded, the server is shutting down, its memory for bodies or answers is "
     "exhausted, or the engine has failed.",
     TO_ALL},
    {"504", "The answer took longer than --request-time-limit.", TO_NAMED},
    {"529", "As 503, for clients of Anthropic's API.", TO_NAMED},
};

static bool applies(const struct route_doc *doc, int to, const char *status)
{
    if (to == TO_NAMED)
        return doc->statuses && strstr(doc->statuses, status) != NULL;
    return to == TO_ALL || doc->body != NULL;
}

static void put_answers(struct buf *out, const struct route_doc *doc, const char *text)
{
    const bool is_ollama = doc->path && api_error_format_of(doc->path) == API_ERROR_OLLAMA;
    const char *error = doc->error ? doc->error : is_ollama ? "OllamaError" : "Error";
    /* /health returns its usual object with status 503 as well */
    const char *schema = doc->schema && strcmp(doc->schema, "Health") == 0 ? "Health" : error;

    buf_puts(out, "\"responses\":{");
    put_success(out, doc, text);
    for (size_t i = 0; i < sizeof ERRORS / sizeof ERRORS[0]; i++) {
        if (!applies(doc, ERRORS[i].to, ERRORS[i].status))
            continue;
        buf_printf(out, ",\"%s\":{\"description\":", ERRORS[i].status);
        reply_put_string(out, ERRORS[i].text);
        buf_puts(out, ",\"content\":{");
        put_content(out, "application/json", strcmp(ERRORS[i].status, "503") == 0 ? schema : error);
        buf_puts(out, "}}");
    }
    buf_puts(out, "}");
}

/* ---- routes ---- */

static void put_path(struct buf *out, const char *path)
{
    buf_puts(out, "\"");
    for (; *path; path++)
        if (*path == '*')
            buf_puts(out, "{name}");
        else
            buf_putc(out, *path);
    buf_puts(out, "\":");
}

static void put_operation_id(struct buf *out, const char *method, const char *path)
{
    buf_printf(out, "\"operationId\":\"%s", method);
    for (; *path; path++)
        buf_putc(out, strchr("/.*", *path) ? '_' : *path);
    buf_puts(out, "\",");
}

static const struct documented {
    const char *method, *path, *text;
} ROUTES[] = {
#define ROUTE_ROW(method, path, handler, text) {method, path, text},
    ROUTE_LIST(ROUTE_ROW)
#undef ROUTE_ROW
};
enum { N_ROUTES = sizeof ROUTES / sizeof ROUTES[0] };

static void put_operation(struct buf *out, const struct documented *route, int last_token)
{
    const struct route_doc *doc = doc_of(route->method, route->path);

    buf_puts(out, "\"");
    for (const char *c = route->method; *c; c++)
        buf_putc(out, (char)(*c | 0x20));
    buf_puts(out, "\":{");
    put_operation_id(out, route->method, route->path);
    buf_puts(out, "\"summary\":");
    reply_put_string(out, route->text);
    buf_puts(out, ",");
    if (doc->schema && strcmp(doc->schema, "Health") == 0)
        buf_puts(out, "\"security\":[],");
    if (strchr(route->path, '*'))
        buf_puts(out, "\"parameters\":[{\"name\":\"name\",\"in\":\"path\",\"required\":true,"
                      "\"schema\":{\"type\":\"string\",\"minLength\":1}}");
    if (doc->query) {
        buf_puts(out, ",");
        put_json(out, doc->query, 0, 0);
    }
    if (strchr(route->path, '*'))
        buf_puts(out, "],");
    if (doc->body && strcmp(route->method, "POST") == 0)
        put_body(out, doc, last_token);
    put_answers(out, doc, route->text);
    buf_puts(out, "}");
}

static bool is_first_of_path(int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(ROUTES[k].path, ROUTES[i].path) == 0)
            return false;
    return true;
}

static void put_paths(struct buf *out, int last_token)
{
    for (int i = 0; i < N_ROUTES; i++) {
        if (!is_first_of_path(i))
            continue;
        buf_puts(out, i > 0 ? "," : "");
        put_path(out, ROUTES[i].path);
        for (int k = i; k < N_ROUTES; k++) {
            if (strcmp(ROUTES[k].path, ROUTES[i].path) != 0)
                continue;
            buf_puts(out, k > i ? "," : "{");
            put_operation(out, &ROUTES[k], last_token);
        }
        buf_puts(out, "}");
    }
}

static void put_schemas(struct buf *out)
{
    const char *comma = "";

#define PUT_SCHEMA(name, schema)                                                                   \
    buf_printf(out, "%s\"%s\":", comma, name);                                                     \
    put_json(out, schema, 0, 0);                                                                   \
    comma = ",";
    OPENAPI_SCHEMAS(PUT_SCHEMA)
#undef PUT_SCHEMA
}

void openapi_put(struct buf *out, int last_token)
{
    buf_printf(out,
               "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"osprey\",\"version\":\"%s\","
               "\"description\":\"gpt-oss models over the OpenAI API. Members of a body that are "
               "not described are accepted and named in the header x-osprey-warning. Paths below "
               "/v1 are served without that prefix as well.\"},"
               "\"security\":[{},{\"key\":[]}],\"paths\":{",
               osp_version());
    put_paths(out, last_token);
    buf_puts(out, "},\"components\":{\"securitySchemes\":{\"key\":{\"type\":\"http\",\"scheme\":"
                  "\"bearer\"}},\"schemas\":{");
    put_schemas(out);
    buf_puts(out, "}}}\n");
}

void route_openapi(struct server *s, struct http_exchange *x, const char *name)
{
    struct buf out;

    (void)name;
    buf_init(&out, DOCUMENT_BYTES_MAX);
    openapi_put(&out, s->info.vocab_size - 1);
    http_respond(x, 200, "application/json", buf_text(&out), out.size_bytes);
    buf_release(&out);
}
