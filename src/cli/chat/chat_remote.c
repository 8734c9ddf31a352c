#include "cli/chat/chat_remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/client/chat_stream.h"
#include "cli/client/client_call.h"
#include "cli/chat/conversation_json.h"
#include "cli/terminal/interrupt.h"

enum { BODY_BYTES_MAX = 128 << 20, DESCRIPTION_BYTES_MAX = 64 << 10 };

/* ---- the request ---- */

/* Only what is set, since the server has defaults of its own. */
static void put_sampling(struct buf *b, const struct osp_request_options *opt)
{
    const struct osp_sampling *s = &opt->sampling;

    if (s->has_temperature)
        buf_printf(b, ",\"temperature\":%.7g", (double)s->temperature);
    if (s->top_p > 0)
        buf_printf(b, ",\"top_p\":%.7g", (double)s->top_p);
    if (s->top_k > 0)
        buf_printf(b, ",\"top_k\":%d", s->top_k);
    if (s->min_p > 0)
        buf_printf(b, ",\"min_p\":%.7g", (double)s->min_p);
    if (s->has_seed)
        buf_printf(b, ",\"seed\":%llu", (unsigned long long)s->seed);
    if (opt->tokens_max > 0)
        buf_printf(b, ",\"max_tokens\":%d", opt->tokens_max);
}

/* The reasoning of earlier answers is not sent: the next turn's prompt does not have it, and some
 * servers refuse the field. */
static enum osp_status make_body(struct buf *b, const struct chat_remote *r,
                                 const struct conversation *c,
                                 const struct osp_request_options *opt)
{
    buf_puts(b, "{\"model\":");
    buf_json_string(b, r->model, strlen(r->model));
    buf_puts(b, ",\"messages\":");
    conversation_put_messages(b, c, false);
    put_sampling(b, opt);
    if (c->effort) {
        buf_puts(b, ",\"reasoning_effort\":");
        buf_json_string(b, c->effort, strlen(c->effort));
    }
    buf_puts(b, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    return b->overflow ? buf_failure(b, "the conversation") : OSP_OK;
}

/* ---- the answer ---- */

struct reader {
    struct chat_stream stream;
    struct answer_printer printer;
    uint64_t start_ns, first_text_ns;
};

static void on_text(void *ctx, bool is_reasoning, const char *text, size_t n_bytes)
{
    struct reader *r = ctx;

    if (r->first_text_ns == 0)
        r->first_text_ns = clock_ns();
    if (is_reasoning)
        answer_put_reasoning(&r->printer, text, n_bytes);
    else
        answer_put_content(&r->printer, text, n_bytes);
}

static bool on_body(void *ctx, const char *bytes, size_t n_bytes)
{
    struct reader *r = ctx;

    chat_stream_push(&r->stream, bytes, n_bytes);
    return !r->stream.failed && !r->stream.lines.is_done;
}

/* Token counts are the server's; the times are as measured here. */
static void set_usage(struct answer *out, const struct reader *r)
{
    const uint64_t end_ns = clock_ns(), first_ns = r->first_text_ns ? r->first_text_ns : end_ns;

    out->usage = (struct osp_usage){.n_prompt_tokens = r->stream.n_prompt_tokens,
                                    .n_generated_tokens = r->stream.n_completion_tokens,
                                    .prompt_seconds = (double)(first_ns - r->start_ns) * 1e-9,
                                    .generation_seconds = (double)(end_ns - first_ns) * 1e-9};
    if (strcmp(r->stream.finish_reason, "length") == 0)
        out->finish = OSP_FINISH_LENGTH;
}

static enum osp_status post(struct reader *reader, const struct chat_remote *r, const char *body)
{
    char *url = client_server_url(&r->server, "/v1/chat/completions");
    const struct client_call call = {.url = url,
                                     .body = body,
                                     .api_key = r->server.api_key,
                                     .is_cancelable = interrupt_descriptor() >= 0,
                                     .cancel_descriptor = interrupt_descriptor(),
                                     .on_body = on_body,
                                     .ctx = reader};
    enum osp_status st;

    reader->start_ns = clock_ns();
    TRY(client_run(&call));
    st = chat_stream_end(&reader->stream, url);
out:
    free(url);
    return st;
}

static enum osp_status remote_answer(void *self, struct answer *out, const struct conversation *c,
                                     const struct osp_request_options *opt,
                                     const struct answer_style *style)
{
    const struct chat_remote *r = self;
    struct reader reader = {.printer = {.style = style, .answer = out}};
    struct buf body;
    enum osp_status st;

    (void)interrupt_consume();
    chat_stream_init(&reader.stream, on_text, &reader);
    buf_init(&body, BODY_BYTES_MAX);
    TRY(make_body(&body, r, c, opt));
    st = post(&reader, r, buf_text(&body));
    set_usage(out, &reader);
    if (st == OSP_ECANCELED) {
        (void)interrupt_consume();
        out->finish = OSP_FINISH_CANCELED;
        st = OSP_OK;
    }
    if (st == OSP_OK || reader.first_text_ns > 0)
        answer_end(&reader.printer);
out:
    buf_release(&body);
    chat_stream_release(&reader.stream);
    return st;
}

/* ---- the model ---- */

static const char *remote_model(void *self)
{
    const struct chat_remote *r = self;

    return r->model;
}

static enum osp_status not_listed(const struct client_models *models, const char *name)
{
    struct buf list;
    enum osp_status st;

    buf_init(&list, FAIL_MESSAGE_BYTES_MAX);
    for (size_t i = 0; i < models->n; i++)
        buf_printf(&list, "%s%s", i > 0 ? ", " : "", models->ids[i]);
    st = fail(OSP_ENOTFOUND, "/model %s: the server has no such model; it lists %s", name,
              buf_text(&list));
    buf_release(&list);
    return st;
}

/* A server that has no list of models gets the name as it is. */
static enum osp_status remote_set_model(void *self, const char *name)
{
    struct chat_remote *r = self;
    struct client_models models;
    enum osp_status st = client_models_get(&models, &r->server);
    bool is_listed = st != OSP_OK;

    for (size_t i = 0; i < models.n; i++)
        is_listed = is_listed || strcmp(models.ids[i], name) == 0;
    st = is_listed ? OSP_OK : not_listed(&models, name);
    client_models_release(&models);
    if (st != OSP_OK)
        return st;
    free(r->model);
    r->model = mem_strdup(name);
    return OSP_OK;
}

static void remote_describe(void *self)
{
    const struct chat_remote *r = self;
    struct client_models models;
    struct buf text;

    buf_init(&text, DESCRIPTION_BYTES_MAX);
    printable_append(&text, r->model, strlen(r->model));
    buf_printf(&text, " on the server %s\n", r->server.root);
    if (client_models_get(&models, &r->server) == OSP_OK)
        for (size_t i = 0; i < models.n; i++)
            if (strcmp(models.ids[i], r->model) != 0) {
                buf_puts(&text, "also there: ");
                printable_append(&text, models.ids[i], strlen(models.ids[i]));
                buf_putc(&text, '\n');
            }
    fputs(buf_text(&text), stdout);
    client_models_release(&models);
    buf_release(&text);
}

/* ---- life ---- */

enum osp_status chat_remote_open(struct chat_remote *r, const char *url, const char *api_key,
                                 const char *model)
{
    enum osp_status st;

    *r = (struct chat_remote){0};
    TRY(client_server_open(&r->server, url, api_key));
    if (model != NULL)
        r->model = mem_strdup(model);
    else
        TRY(client_server_first_model(&r->server, &r->model));
out:
    return st;
}

void chat_remote_release(struct chat_remote *r)
{
    client_server_release(&r->server);
    free(r->model);
    *r = (struct chat_remote){0};
}

struct chat_source chat_remote_source(struct chat_remote *r)
{
    return (struct chat_source){.self = r,
                                .answer = remote_answer,
                                .model = remote_model,
                                .set_model = remote_set_model,
                                .describe = remote_describe};
}
