/* /v1/models: the served model, under each of its names. */
#include "serve/core/routes.h"

#include <string.h>

#include "serve/http/errors.h"

enum { MODELS_BYTES_MAX = 64 << 10 };

static void put_model(struct buf *out, const struct server *s, const char *name)
{
    buf_puts(out, "{\"id\":");
    buf_json_string(out, name, strlen(name));
    buf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"osprey\",\"root\":",
               (long long)s->start_unix_s);
    buf_json_string(out, s->info.name, strlen(s->info.name));
    buf_printf(out, ",\"max_model_len\":%d}", s->info.context_tokens_max);
}

void route_models(struct server *s, struct http_exchange *x, const char *name)
{
    struct buf body;

    (void)name;
    buf_init(&body, MODELS_BYTES_MAX);
    buf_puts(&body, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < s->n_names; i++) {
        buf_puts(&body, i ? "," : "");
        put_model(&body, s, s->names[i]);
    }
    buf_puts(&body, "]}\n");
    http_respond(x, 200, "application/json", buf_text(&body), body.size_bytes);
    buf_release(&body);
}

void route_model(struct server *s, struct http_exchange *x, const char *name)
{
    struct api_error e;
    struct buf body;

    if (!server_has_model(s, name)) {
        api_error_set(&e, 404, "model_not_found",
                      "model '%s' does not exist; this server serves '%s'", name, s->names[0]);
        api_error_respond(x, &e);
        return;
    }
    buf_init(&body, MODELS_BYTES_MAX);
    put_model(&body, s, name);
    buf_putc(&body, '\n');
    http_respond(x, 200, "application/json", buf_text(&body), body.size_bytes);
    buf_release(&body);
}
