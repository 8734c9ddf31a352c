#include "cli/bench/bench_sse.h"

#include <jansson.h>
#include <string.h>

static void set_error(struct bench_sse *s, const char *text)
{
    if (!s->failed)
        snprintf(s->error, sizeof s->error, "%s", text);
    s->failed = true;
}

/* Text of any kind: content, reasoning by either name, or a tool call. */
static bool has_text(const json_t *delta)
{
    static const char *const NAMES[] = {"content", "reasoning", "reasoning_content"};

    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (json_string_length(json_object_get(delta, NAMES[i])) > 0)
            return true;
    return json_array_size(json_object_get(delta, "tool_calls")) > 0;
}

static void read_usage(struct timeline *t, const json_t *usage)
{
    const json_t *prompt = json_object_get(usage, "prompt_tokens");
    const json_t *answer = json_object_get(usage, "completion_tokens");

    if (json_is_integer(prompt))
        t->n_prompt_tokens = (int)json_integer_value(prompt);
    if (json_is_integer(answer))
        t->n_tokens = (int)json_integer_value(answer);
}

static void read_event(struct bench_sse *s, const json_t *event, uint64_t now_ns)
{
    struct timeline *t = s->timeline;
    const json_t *error = json_object_get(event, "error");
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);

    if (error != NULL) {
        const char *message = json_string_value(json_object_get(error, "message"));

        set_error(s, message != NULL ? message : "an error without a message");
        return;
    }
    read_usage(t, json_object_get(event, "usage"));
    if (choice == NULL)
        return;
    if (t->first_chunk_ns == 0)
        t->first_chunk_ns = now_ns;
    if (has_text(json_object_get(choice, "delta")))
        timeline_add_chunk(t, now_ns);
    t->end_ns = now_ns; /* of the output; later events hold usage only */
}

static void on_data(void *ctx, const char *data)
{
    struct bench_sse *s = ctx;
    json_error_t error;
    json_t *event = json_loads(data, JSON_ALLOW_NUL, &error); /* a model can output a NUL */

    if (event == NULL)
        set_error(s, "an event that is not JSON");
    else
        read_event(s, event, s->now_ns);
    json_decref(event);
}

void bench_sse_init(struct bench_sse *s, struct timeline *timeline)
{
    *s = (struct bench_sse){.timeline = timeline};
    sse_reader_init(&s->lines, on_data, s);
}

void bench_sse_release(struct bench_sse *s)
{
    sse_reader_release(&s->lines);
}

void bench_sse_push(struct bench_sse *s, const char *bytes, size_t n_bytes, uint64_t now_ns)
{
    s->now_ns = now_ns;
    sse_reader_push(&s->lines, bytes, n_bytes);
    if (s->lines.too_long)
        set_error(s, "a line longer than the limit");
}
