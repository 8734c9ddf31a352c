/* Token streams that a model could write: random ones, and well-formed or known malformed
 * completions with some tokens dropped, doubled, swapped, replaced or joined. Stream i is the
 * same everywhere. */
#ifndef HARMONY_STREAMS_H
#define HARMONY_STREAMS_H

#include <string.h>

#include "base/rng.h"
#include "text/token/tokenizer.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

enum { STREAM_TOKENS_MAX = 48, STREAM_SEED = 2025, STREAM_IDS_MAX = 4096 };

/* Texts that streams are made of, beside random ordinary tokens. */
static const char *const stream_fragments[] = {
    "<|start|>",
    "<|end|>",
    "<|message|>",
    "<|channel|>",
    "<|constrain|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|startoftext|>",
    "<|reserved_200013|>",
    "assistant",
    "user",
    "analysis",
    "commentary",
    "final",
    " to=",
    "functions.",
    "get_weather",
    " json",
    " code",
    "{\"a\": 1}",
    " ",
    "\n",
    "Hello there",
    "é",
    "\xf0\x9f\x92\x96",
    "functions.get_weather to=assistant",
    "to",
    "<|start|>assistant<|channel|>analysis<|message|>",
    "<|start|>assistant<|channel|>final<|message|>",
    "<|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>",
    "<|channel|>commentary to=functions.get_weather json<|message|>",
};

/* Completions to mutate. The first is the one of a whole tool loop. */
static const char *const stream_models[] = {
    "<|channel|>analysis<|message|>The user asks for the weather. 💖<|end|><|start|>assistant"
    "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": "
    "\"Łódź\"}<|call|><|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>"
    "12 °C<|end|><|start|>assistant<|channel|>final<|message|>It is 12 °C.<|return|>",
    "<|channel|>analysis<|message|>Hello there, says the user.<|end|><|start|>assistant<|channel|>"
    "commentary<|message|>I will look.<|end|><|start|>assistant to=functions.search<|channel|>"
    "commentary <|constrain|>json<|message|>{ \"q\" :\t\"a\\u00e9\\n\" }<|call|>",
    "<|channel|>final <|constrain|>json<|message|>{\"a\": 1}\n\nHello there<|return|>",
    "<|channel|>commentary to=functions.get_weather<|message|>{}<|end|><|start|>assistant"
    "<|channel|>commentary to=functions.search code<|message|>ls -R<|end|><|start|>assistant"
    "<|channel|>analysis<|message|>Both.<|end|><|start|>assistant<|channel|>final<|message|>Hi.",
    "<|channel|>commentary 2?<|message|>Hello there<|end|>assistant<|channel|>final Hi<|return|>",
    "<|channel|>commentary to=assistant<|channel|>commentary?commentary?<|message|>Hi<|end|>",
    "assistantassistant<|channel|>––commentary to=functions.get_weather<|constrain|>json{}<|call|>",
    "Hello there<|end|><|start|>assistant<|channel|>analysis Hello<|channel|>final<|message|>Hi",
};

struct dice {
    uint64_t stream;
    uint32_t draw;
};

static inline size_t roll(struct dice *d, size_t n)
{
    return (size_t)(rng_bits(STREAM_SEED, d->stream, d->draw++) % n);
}

struct stock {
    const struct tokenizer *t;
    struct ids fragment[COUNT(stream_fragments)];
    struct ids model[COUNT(stream_models)];
};

static inline bool stock_encode(const struct stock *s, const char *text, struct ids *out)
{
    ids_init(out, STREAM_IDS_MAX);
    return tokenizer_encode_with_specials(s->t, text, strlen(text), out) == OSP_OK;
}

static inline bool stock_init(struct stock *s, const struct tokenizer *t)
{
    bool ok = true;

    *s = (struct stock){.t = t};
    for (size_t i = 0; i < COUNT(stream_fragments); i++)
        ok = stock_encode(s, stream_fragments[i], &s->fragment[i]) && ok;
    for (size_t i = 0; i < COUNT(stream_models); i++)
        ok = stock_encode(s, stream_models[i], &s->model[i]) && ok;
    return ok;
}

static inline void stock_release(struct stock *s)
{
    for (size_t i = 0; i < COUNT(stream_fragments); i++)
        ids_release(&s->fragment[i]);
    for (size_t i = 0; i < COUNT(stream_models); i++)
        ids_release(&s->model[i]);
}

static inline int32_t random_token(struct dice *d, const struct stock *s)
{
    static const int32_t odd[] = {-1, INT32_MIN, INT32_MAX, 201088, 201087, 9552, 31446, 244};

    switch (roll(d, 4)) {
    case 0:
        return (int32_t)(200000 + roll(d, 16)); /* mostly control tokens */
    case 1:
        return odd[roll(d, COUNT(odd))];
    default:
        return (int32_t)roll(d, (size_t)tokenizer_size(s->t));
    }
}

/* A stream of random fragments and tokens. */
static inline void random_stream(struct dice *d, const struct stock *s, struct ids *out)
{
    size_t n = roll(d, STREAM_TOKENS_MAX);

    while (out->n < n) {
        const struct ids *fragment = &s->fragment[roll(d, COUNT(stream_fragments))];

        if (roll(d, 4) == 0)
            ids_push(out, random_token(d, s));
        else
            ids_append(out, fragment->data, fragment->n);
    }
}

/* One change of a stream that is not empty. */
static inline void mutate(struct dice *d, const struct stock *s, struct ids *v)
{
    size_t a = roll(d, v->n), b = roll(d, v->n);
    int32_t token = v->data[a];

    switch (roll(d, 4)) {
    case 0:
        memmove(v->data + a, v->data + a + 1, (v->n - a - 1) * sizeof token);
        v->n -= v->n > 1;
        break;
    case 1:
        v->data[a] = v->data[b];
        v->data[b] = token;
        break;
    case 2:
        v->data[a] = random_token(d, s);
        break;
    default:
        ids_push(v, token);
        memmove(v->data + a + 1, v->data + a, (v->n - a - 1) * sizeof token);
    }
}

/* A completion, at times the beginning of one and the end of another, with a few changes, and
 * cut. */
static inline void mutated_stream(struct dice *d, const struct stock *s, struct ids *out)
{
    const struct ids *m = &s->model[roll(d, 2) * roll(d, COUNT(stream_models))];
    size_t n_edits = 1 + roll(d, 4);

    ids_append(out, m->data, m->n);
    if (roll(d, 4) == 0) {
        size_t from;

        m = &s->model[roll(d, COUNT(stream_models))];
        from = roll(d, m->n);
        out->n = 1 + roll(d, out->n);
        ids_append(out, m->data + from, m->n - from);
    }
    for (size_t i = 0; i < n_edits; i++)
        mutate(d, s, out);
    if (roll(d, 2) == 0)
        out->n = 1 + roll(d, out->n);
}

#endif
