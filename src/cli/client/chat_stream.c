#include "cli/client/chat_stream.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/json_limits.h"

/* A chunk has a few words. A hostile server could send deep or wide JSON. */
static const struct json_limits CHUNK_LIMITS = {.file_bytes = SSE_LINE_BYTES_MAX,
                                                .memory_bytes = 64 << 20,
                                                .string_bytes = SSE_LINE_BYTES_MAX,
                                                .depth = 32};

static void set_error(struct chat_stream *s, const char *text)
{
    if (!s->failed)
        snprintf(s->error, sizeof s->error, "%s", text);
    s->failed = true;
}

static void put_text(struct chat_stream *s, bool is_reasoning, const json_t *text)
{
    if (json_string_length(text) > 0)
        s->on_text(s->ctx, is_reasoning, json_string_value(text), json_string_length(text));
}

/* Servers send the reasoning by one name or under both. */
static void read_delta(struct chat_stream *s, const json_t *delta)
{
    const json_t *reasoning = json_object_get(delta, "reasoning");

    if (!json_is_string(reasoning))
        reasoning = json_object_get(delta, "reasoning_content");
    put_text(s, true, reasoning);
    put_text(s, false, json_object_get(delta, "content"));
    put_text(s, false, json_object_get(delta, "refusal"));
}

static void read_count(int *out, const json_t *value)
{
    const json_int_t n = json_integer_value(value);

    if (n > 0 && n <= INT_MAX)
        *out = (int)n;
}

/* {"error": {"message": TEXT}} or {"error": TEXT} */
static void read_error(struct chat_stream *s, const json_t *error)
{
    const json_t *message = json_is_string(error) ? error : json_object_get(error, "message");

    set_error(s,
              json_is_string(message) ? json_string_value(message) : "an error without a message");
}

static void read_event(struct chat_stream *s, const json_t *event)
{
    const json_t *error = json_object_get(event, "error");
    const json_t *choices = json_object_get(event, "choices");
    const json_t *usage = json_object_get(event, "usage"), *choice = json_array_get(choices, 0);
    const char *finish_reason = json_string_value(json_object_get(choice, "finish_reason"));

    if (error != NULL && !json_is_null(error)) {
        read_error(s, error);
        return;
    }
    s->has_chunk = s->has_chunk || json_is_array(choices);
    read_delta(s, json_object_get(choice, "delta"));
    if (finish_reason != NULL)
        snprintf(s->finish_reason, sizeof s->finish_reason, "%s", finish_reason);
    read_count(&s->n_prompt_tokens, json_object_get(usage, "prompt_tokens"));
    read_count(&s->n_completion_tokens, json_object_get(usage, "completion_tokens"));
}

static void on_data(void *ctx, const char *data)
{
    struct chat_stream *s = ctx;
    const size_t n_bytes = strlen(data);
    json_t *event = NULL;

    if (s->failed)
        return;
    if (json_limits_check(&CHUNK_LIMITS, data, n_bytes) == OSP_OK)
        event = json_loadb(data, n_bytes, JSON_ALLOW_NUL, NULL); /* a model can output a NUL */
    if (json_is_object(event))
        read_event(s, event);
    else
        set_error(s, "the stream has an event that is not a JSON object");
    json_decref(event);
}

void chat_stream_init(struct chat_stream *s, chat_text_fn *on_text, void *ctx)
{
    *s = (struct chat_stream){.on_text = on_text, .ctx = ctx};
    sse_reader_init(&s->lines, on_data, s);
}

void chat_stream_release(struct chat_stream *s)
{
    sse_reader_release(&s->lines);
}

void chat_stream_push(struct chat_stream *s, const char *bytes, size_t n_bytes)
{
    sse_reader_push(&s->lines, bytes, n_bytes);
    if (s->lines.too_long)
        set_error(s, "the stream has a line that is longer than 4 MiB");
}

enum osp_status chat_stream_end(const struct chat_stream *s, const char *url)
{
    if (s->failed)
        return fail(OSP_EIO, "%s: %s", url, s->error);
    if (!s->has_chunk)
        return fail(OSP_EIO, "%s: the response is not a stream of chat completion chunks", url);
    if (s->finish_reason[0] == '\0' && !s->lines.is_done)
        return fail(OSP_EIO, "%s: the connection ended before the answer was complete", url);
    return OSP_OK;
}
