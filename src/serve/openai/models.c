/* /v1/models: the served model, under each of its names, in the form of OpenAI, or of Anthropic if
 * the request has the header anthropic-version. */
#include "serve/core/routes.h"

#include <string.h>
#include <time.h>

#include "serve/http/errors.h"

enum { MODELS_BYTES_MAX = 64 << 10 };

static bool is_for_anthropic(const struct http_exchange *x)
{
    return http_exchange_request(x)->fields[HTTP_ANTHROPIC_VERSION] != NULL;
}

static void put_anthropic_model(struct buf *out, const struct server *s, const char *name)
{
    const time_t start = (time_t)s->start_unix_s;
    char created[32] = "1970-01-01T00:00:00Z";
    struct tm utc;

    if (gmtime_r(&start, &utc))
        (void)strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    buf_puts(out, "{\"type\":\"model\",\"id\":");
    buf_json_string(out, name, strlen(name));
    buf_puts(out, ",\"display_name\":");
    buf_json_string(out, name, strlen(name));
    buf_printf(out,
               ",\"created_at\":\"%s\",\"lifecycle\":\"active\",\"max_input_tokens\":%d,"
               "\"max_tokens\":%d}",
               created, s->info.context_tokens_max, s->info.context_tokens_max);
}

static void put_openai_model(struct buf *out, const struct server *s, const char *name)
{
    buf_puts(out, "{\"id\":");
    buf_json_string(out, name, strlen(name));
    buf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"osprey\",\"root\":",
               (long long)s->start_unix_s);
    buf_json_string(out, s->info.name, strlen(s->info.name));
    buf_printf(out, ",\"max_model_len\":%d}", s->info.context_tokens_max);
}

static void put_model(struct buf *out, const struct server *s, const struct http_exchange *x,
                      const char *name)
{
    if (is_for_anthropic(x))
        put_anthropic_model(out, s, name);
    else
        put_openai_model(out, s, name);
}

/* The end of Anthropic's list, which has pages; this one has all names. */
static void put_page(struct buf *out, const struct server *s)
{
    const char *last = s->names[s->n_names - 1];

    buf_puts(out, ",\"has_more\":false,\"first_id\":");
    buf_json_string(out, s->names[0], strlen(s->names[0]));
    buf_puts(out, ",\"last_id\":");
    buf_json_string(out, last, strlen(last));
}

void route_models(struct server *s, struct http_exchange *x, const char *name)
{
    struct buf body;

    (void)name;
    buf_init(&body, MODELS_BYTES_MAX);
    http_add_header(x, "vary", "anthropic-version");
    buf_puts(&body, is_for_anthropic(x) ? "{\"data\":[" : "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < s->n_names; i++) {
        buf_puts(&body, i ? "," : "");
        put_model(&body, s, x, s->names[i]);
    }
    buf_puts(&body, "]");
    if (is_for_anthropic(x))
        put_page(&body, s);
    buf_puts(&body, "}\n");
    http_respond(x, 200, "application/json", buf_text(&body), body.size_bytes);
    buf_release(&body);
}

void route_model(struct server *s, struct http_exchange *x, const char *name)
{
    struct api_error e;
    struct buf body;

    if (!server_has_model_like(s, name, is_for_anthropic(x) ? CLAUDE_PREFIX : NULL)) {
        api_error_set(&e, 404, "model_not_found",
                      "model '%s' does not exist; this server serves '%s'", name, s->names[0]);
        api_error_respond(x, &e);
        return;
    }
    buf_init(&body, MODELS_BYTES_MAX);
    http_add_header(x, "vary", "anthropic-version");
    put_model(&body, s, x, name);
    buf_putc(&body, '\n');
    http_respond(x, 200, "application/json", buf_text(&body), body.size_bytes);
    buf_release(&body);
}
