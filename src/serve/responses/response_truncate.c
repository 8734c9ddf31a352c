#include "serve/responses/response_truncate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Indices of messages in the order in which they are dropped. */
struct order {
    size_t *at; /* (n) owned */
    size_t n;
};

static const char *role_of(const json_t *messages, size_t i)
{
    const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));

    return role ? role : "";
}

static bool has_role(const json_t *messages, size_t i, const char *role)
{
    return strcmp(role_of(messages, i), role) == 0;
}

/* Index of the last message of this role; the number of messages if there is none. */
static size_t last_of(const json_t *messages, const char *role)
{
    size_t n = json_array_size(messages);

    for (size_t i = n; i-- > 0;)
        if (has_role(messages, i, role))
            return i;
    return n;
}

static enum osp_status order_init(struct order *o, const json_t *messages)
{
    size_t n = json_array_size(messages), user = last_of(messages, "user");
    size_t assistant = last_of(messages, "assistant"), end;
    enum osp_status st;

    o->n = 0;
    TRY(mem_try_array(&o->at, n, sizeof *o->at, "the messages of a conversation"));
    end = assistant < n ? assistant : n > 0 ? n - 1 : 0;
    for (size_t i = 0; i < n; i++)
        if (i < user && user < n && !has_role(messages, i, "system") &&
            !has_role(messages, i, "developer"))
            o->at[o->n++] = i;
    for (size_t i = user < n ? user + 1 : 0; i < end; i++)
        if (has_role(messages, i, "assistant") || has_role(messages, i, "tool"))
            o->at[o->n++] = i;
out:
    return st;
}

/* Adds the ids of the message's calls. */
static void note_calls(json_t *ids, const json_t *message)
{
    const json_t *calls = json_object_get(message, "tool_calls");

    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *id = json_object_get(json_array_get(calls, i), "id");

        if (json_is_string(id))
            json_object_set_new(ids, json_string_value(id), json_true());
    }
}

static bool is_orphan(const json_t *ids, const json_t *message)
{
    const char *id = json_string_value(json_object_get(message, "tool_call_id"));

    return id && !json_object_get(ids, id);
}

/* The messages without the first n of the order, and without results whose call is dropped.
 * NULL: out of memory. */
static json_t *without(const json_t *messages, const struct order *o, size_t n)
{
    json_t *kept = json_array(), *ids = json_object();
    size_t n_all = json_array_size(messages);
    bool *dropped = NULL;

    if (mem_try_array(&dropped, n_all, sizeof *dropped, "messages") != OSP_OK) {
        json_decref(kept);
        kept = NULL;
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        dropped[o->at[i]] = true;
    for (size_t i = 0; i < n_all; i++) {
        json_t *message = json_array_get(messages, i);

        if (dropped[i] || is_orphan(ids, message))
            continue;
        note_calls(ids, message);
        json_array_append(kept, message);
    }
out:
    free(dropped);
    json_decref(ids);
    return kept;
}

/* *kept and *n_tokens: of the conversation without the first n of the order. */
static enum osp_status try_without(const struct truncation *t, const struct order *o, size_t n,
                                   json_t **kept, size_t *n_tokens)
{
    json_decref(*kept);
    *kept = without(t->messages, o, n);
    if (!*kept)
        return fail(OSP_ENOMEM, "out of memory for the messages of a request");
    return t->count(t->ctx, *kept, n_tokens);
}

/* The most tokens that the prompt may have. */
static size_t limit_of(const struct truncation *t)
{
    int answer = t->context_tokens_max / TRUNCATE_ANSWER_SHARE;

    if (t->answer_tokens_max > 0)
        answer = t->answer_tokens_max < t->context_tokens_max / 2 ? t->answer_tokens_max
                                                                  : t->context_tokens_max / 2;
    return (size_t)(t->context_tokens_max - (answer > 0 ? answer : 1));
}

/* n_all: tokens of the whole prompt; n_least: of the shortest one. */
static size_t target_of(const struct truncation *t, size_t limit, size_t n_all, size_t n_least)
{
    size_t step = (size_t)t->context_tokens_max / TRUNCATE_STEP_SHARE + 1;
    size_t n_drop = (n_all - limit + step - 1) / step * step;

    return n_drop < n_all && n_all - n_drop >= n_least ? n_all - n_drop : limit;
}

/* Finds the fewest messages whose absence makes the prompt fit, by bisection. */
static enum osp_status bisect(const struct truncation *t, const struct order *o, size_t target,
                              json_t **kept)
{
    size_t low = 0, high = o->n, n_tokens = 0; /* `high` fits, `low` does not */
    enum osp_status st = OSP_OK;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        TRY(try_without(t, o, middle, kept, &n_tokens));
        if (n_tokens <= target)
            high = middle;
        else
            low = middle;
    }
    TRY(try_without(t, o, high, kept, &n_tokens));
out:
    return st;
}

enum osp_status response_truncate(const struct truncation *t, json_t **kept, size_t *n_dropped)
{
    size_t limit = limit_of(t), n_all = 0, n_least = 0;
    struct order order = {NULL, 0};
    enum osp_status st;

    *n_dropped = 0;
    *kept = json_incref(t->messages);
    TRY(t->count(t->ctx, t->messages, &n_all));
    if (n_all <= limit)
        goto out;
    TRY(order_init(&order, t->messages));
    TRY(try_without(t, &order, order.n, kept, &n_least));
    if (n_least <= limit && order.n > 0) {
        TRY(bisect(t, &order, target_of(t, limit, n_all, n_least), kept));
        *n_dropped = json_array_size(t->messages) - json_array_size(*kept);
    } else {
        json_decref(*kept);
        *kept = json_incref(t->messages);
    }
out:
    free(order.at);
    if (st != OSP_OK) {
        json_decref(*kept);
        *kept = NULL;
    }
    return st;
}
