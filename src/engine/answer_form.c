/* Where the answer is: in its messages' frame, in reasoning, or in what is held to the form. */
#include "engine/answer_form.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum place {
    AT_CHANNEL,   /* <|channel|> comes next */
    IN_HEADER,    /* the channel's name, then <|message|> */
    IN_REASONING, /* anything, then <|end|> */
    AT_START,     /* <|start|> comes next */
    IN_ROLE,      /* "assistant", then <|channel|> */
    IN_FORM,
    AFTER_ALL
};

enum { PROMPT_TAIL = 8 }; /* tokens at the prompt's end in which <|start|> is looked for */

struct answer_form {
    const struct form_tools *tools;
    struct grammar *grammar;
    struct constraint *held; /* of the place; NULL: it has none */
    enum place place;
    char channel; /* first letter of the header under way */
    int32_t stops[CONSTRAINT_STOPS_MAX];
    int n_stops;
    int n_heard;
    uint32_t *mask, *limit; /* (n_words); limit: owned, or NULL */
    size_t n_words;
};

static enum osp_status hold(struct answer_form *f, enum place place, struct grammar *g,
                            const int32_t *stops, int n_stops)
{
    constraint_free(f->held);
    f->held = NULL;
    f->place = place;
    return constraint_new(&f->held, g, f->tools->index, stops, n_stops);
}

static void release_to(struct answer_form *f, enum place place)
{
    constraint_free(f->held);
    f->held = NULL;
    f->place = place;
}

/* ---- masks ---- */

static enum osp_status fill(struct answer_form *f)
{
    const struct special_ids *s = &f->tools->specials;
    const struct token_index *x = f->tools->index;
    enum osp_status st = OSP_OK;

    memset(f->mask, 0, f->n_words * sizeof *f->mask);
    if (f->held != NULL)
        TRY(constraint_mask(f->held, f->mask));
    if (f->place == AT_CHANNEL)
        mask_set(f->mask, s->channel);
    if (f->place == AT_START)
        mask_set(f->mask, s->start);
    if (f->place == IN_REASONING) {
        memcpy(f->mask, x->ordinary, x->n_words * sizeof *f->mask);
        mask_set(f->mask, s->end);
    }
    for (size_t i = 0; f->limit != NULL && i < f->n_words; i++)
        f->mask[i] &= f->limit[i];
out:
    return st;
}

/* ---- tokens ---- */

static enum osp_status begin_header(struct answer_form *f)
{
    f->channel = '\0';
    return hold(f, IN_HEADER, f->tools->header, &f->tools->specials.message, 1);
}

static enum osp_status after_header(struct answer_form *f)
{
    if (f->channel == 'f')
        return hold(f, IN_FORM, f->grammar, f->stops, f->n_stops);
    release_to(f, IN_REASONING);
    return OSP_OK;
}

static enum osp_status hear_held(struct answer_form *f, int32_t token)
{
    size_t n;
    enum osp_status st;

    TRY(constraint_accept(f->held, token));
    if (f->place == IN_HEADER && f->channel == '\0')
        f->channel = *token_index_bytes(f->tools->index, token, &n);
    if (!constraint_is_done(f->held))
        return OSP_OK;
    if (f->place == IN_HEADER)
        return after_header(f);
    if (f->place == IN_ROLE)
        return begin_header(f);
    release_to(f, AFTER_ALL);
out:
    return st;
}

static enum osp_status move(struct answer_form *f, int32_t token)
{
    switch (f->place) {
    case AT_CHANNEL:
        return begin_header(f);
    case AT_START:
        return hold(f, IN_ROLE, f->tools->role, &f->tools->specials.channel, 1);
    case IN_REASONING:
        if (token == f->tools->specials.end)
            f->place = AT_START;
        return OSP_OK;
    case AFTER_ALL:
        return OSP_OK;
    default:
        return hear_held(f, token);
    }
}

enum osp_status answer_form_hear(struct answer_form *f, int32_t token)
{
    bool refill = f->place != IN_REASONING;
    enum osp_status st;

    f->n_heard++;
    TRY(move(f, token));
    if (refill || f->place != IN_REASONING)
        TRY(fill(f));
out:
    return st;
}

int answer_form_heard(const struct answer_form *f)
{
    return f->n_heard;
}

/* ---- life ---- */

static bool begins_message(const struct answer_form_wish *w)
{
    for (int i = w->n_prompt; i-- > 0 && i >= w->n_prompt - PROMPT_TAIL;) {
        size_t n;

        if (w->prompt[i] == w->tools->specials.start)
            return true;
        if (w->prompt[i] < 0 || w->prompt[i] >= w->tools->index->n_tokens)
            return false;
        (void)token_index_bytes(w->tools->index, w->prompt[i], &n);
        if (n == 0)
            return false; /* another control token */
    }
    return false;
}

/* What ends a final message, or, of the engine's stop tokens, the answer. */
static void choose_stops(struct answer_form *f, const struct answer_form_wish *w, bool is_harmony)
{
    if (is_harmony)
        f->stops[f->n_stops++] = f->tools->specials.ret;
    for (int i = 0; !is_harmony && i < w->n_stop_ids && f->n_stops < CONSTRAINT_STOPS_MAX; i++)
        f->stops[f->n_stops++] = w->stop_ids[i];
}

static enum osp_status keep_limit(struct answer_form *f)
{
    bool has_limit = false;
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < f->n_words; i++)
        has_limit = has_limit || f->mask[i] != 0;
    if (!has_limit)
        return OSP_OK;
    TRY(mem_try_array(&f->limit, f->n_words, sizeof *f->limit, "a mask"));
    memcpy(f->limit, f->mask, f->n_words * sizeof *f->limit);
out:
    return st;
}

enum osp_status answer_form_new(struct answer_form **out, const struct answer_form_wish *wish)
{
    struct answer_form *f = mem_new(sizeof *f);
    bool is_harmony = begins_message(wish);
    enum osp_status st;

    *out = NULL;
    f->tools = wish->tools;
    f->grammar = grammar_share(wish->grammar);
    f->mask = wish->mask;
    f->n_words = (size_t)wish->n_mask_words;
    if (f->n_words < f->tools->index->n_words)
        TRY(fail(OSP_EINTERNAL, "a mask of %zu words, needs %zu", f->n_words,
                 f->tools->index->n_words));
    choose_stops(f, wish, is_harmony);
    TRY(keep_limit(f));
    f->place = AT_CHANNEL;
    if (!is_harmony)
        TRY(hold(f, IN_FORM, f->grammar, f->stops, f->n_stops));
    TRY(fill(f));
    *out = f;
out:
    if (st != OSP_OK)
        answer_form_free(f);
    return st;
}

void answer_form_free(struct answer_form *f)
{
    if (f == NULL)
        return;
    constraint_free(f->held);
    grammar_drop(f->grammar);
    free(f->limit);
    free(f);
}
