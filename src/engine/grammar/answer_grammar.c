/* The answer's state: between messages, in a header, in free text, or in text constrained by a
 * grammar. */
#include "engine/grammar/answer_grammar.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/grammar/answer_header.h"

enum place {
    AT_START,       /* <|start|> comes next */
    IN_ROLE,        /* after <|start|>: up to <|channel|> */
    IN_CHANNEL,     /* after <|channel|>: up to <|message|> or <|constrain|> */
    IN_TYPE,        /* after <|constrain|>: up to <|message|> */
    IN_FREE,        /* reasoning, a preamble, a final message without a grammar: up to `closing` */
    IN_CONSTRAINED, /* a final message with a grammar, a call's arguments */
    AFTER_ALL
};

struct answer_grammar {
    const struct grammar_vocab *tools;
    struct grammar *grammar; /* of the final message; NULL: free */
    struct call_rules *calls;
    struct answer_headers headers;

    enum place place;
    struct choice_cursor cursor;    /* of a header */
    int function;                   /* recipient of the message, as far as its header says */
    struct constraint *constrained; /* IN_CONSTRAINED */
    int32_t closing;                /* IN_FREE */
    int n_messages, n_calls;
    int n_accepted;
    int32_t token;     /* the last accepted token, if has_token */
    bool has_token;    /* `token` is not processed yet */
    bool needs_fill;   /* the mask is not that of the next sample */
    bool is_long_work; /* the last mask took more than MASK_QUICK_STEPS */

    int32_t stops[CONSTRAINT_STOPS_MAX]; /* of a final message, or of all of the answer */
    int n_stops;
    uint32_t *mask, *limit; /* (n_words); limit: owned, or NULL */
    size_t n_words;
};

/* ---- masks ---- */

static enum osp_status fill_constrained(struct answer_grammar *f, enum mask_effort effort,
                                        bool *made)
{
    bool was_quick;
    enum osp_status st;

    TRY(constraint_try_mask(f->constrained, f->mask, MASK_QUICK_STEPS, &was_quick));
    f->is_long_work = !was_quick;
    *made = was_quick || effort == MASK_WHOLE;
    if (!was_quick && effort == MASK_WHOLE)
        TRY(constraint_mask(f->constrained, f->mask));
out:
    return st;
}

static enum osp_status fill(struct answer_grammar *f, enum mask_effort effort, bool *made)
{
    const struct token_index *x = f->tools->index;
    enum osp_status st = OSP_OK;

    *made = true;
    memset(f->mask, 0, f->n_words * sizeof *f->mask);
    switch (f->place) {
    case AT_START:
        mask_set(f->mask, f->tools->specials.start);
        break;
    case IN_ROLE:
    case IN_CHANNEL:
    case IN_TYPE:
        choice_mask(&f->cursor, x, f->mask);
        break;
    case IN_FREE:
        memcpy(f->mask, x->ordinary, x->n_words * sizeof *f->mask);
        mask_set(f->mask, f->closing);
        break;
    case IN_CONSTRAINED:
        TRY(fill_constrained(f, effort, made));
        break;
    case AFTER_ALL:
        break;
    }
    for (size_t i = 0; f->limit != NULL && i < f->n_words; i++)
        f->mask[i] &= f->limit[i];
out:
    return st;
}

/* ---- allowed messages ---- */

static bool may_go_on(const struct answer_grammar *f)
{
    return f->n_messages < ANSWER_MESSAGES_MAX;
}

/* A preamble would come before constrained text. An answer that must call a function has one
 * reasoning message and then the call. */
static unsigned allowed_kinds(const struct answer_grammar *f)
{
    bool has_functions = f->calls != NULL && f->calls->n_functions > 0;
    bool owes_call = f->calls != NULL && f->calls->must_call && f->n_calls == 0;
    unsigned kinds = MESSAGE_ANY;

    if (owes_call ? f->n_messages == 0 : may_go_on(f))
        kinds |= MESSAGE_REASONING;
    if (has_functions)
        kinds |= MESSAGE_CALL;
    if (has_functions && !owes_call && f->grammar == NULL && may_go_on(f))
        kinds |= MESSAGE_PREAMBLE;
    if (!owes_call)
        kinds |= MESSAGE_FINAL;
    return kinds;
}

/* ---- transitions ---- */

static void enter(struct answer_grammar *f, enum place place)
{
    constraint_free(f->constrained);
    f->constrained = NULL;
    f->is_long_work = false;
    f->place = place;
}

static void enter_header(struct answer_grammar *f, enum place place,
                         const struct choice_set *choice_set)
{
    enter(f, place);
    f->cursor = choice_cursor(choice_set, allowed_kinds(f));
}

static void enter_free(struct answer_grammar *f, int32_t closing)
{
    enter(f, IN_FREE);
    f->closing = closing;
}

static enum osp_status enter_constrained(struct answer_grammar *f, struct grammar *g,
                                         const int32_t *stops, int n_stops)
{
    enter(f, IN_CONSTRAINED);
    return constraint_new(&f->constrained, g, f->tools->index, stops, n_stops);
}

/* After a call that <|end|> closes, the model may go on. */
static enum osp_status enter_call(struct answer_grammar *f)
{
    const struct special_ids *s = &f->tools->specials;
    const int32_t stops[] = {s->call, s->end};
    bool may_be_more = !f->calls->one_call && may_go_on(f);

    f->n_calls++;
    return enter_constrained(f, f->calls->functions[f->function].arguments, stops,
                             may_be_more ? 2 : 1);
}

static enum osp_status enter_content(struct answer_grammar *f, unsigned kind)
{
    f->n_messages++;
    if (kind == MESSAGE_CALL)
        return enter_call(f);
    if (kind == MESSAGE_FINAL && f->grammar != NULL)
        return enter_constrained(f, f->grammar, f->stops, f->n_stops);
    enter_free(f, kind == MESSAGE_FINAL ? f->tools->specials.ret : f->tools->specials.end);
    return OSP_OK;
}

static enum osp_status after_phrase(struct answer_grammar *f, const struct choice *p)
{
    if (p->meaning != NO_FUNCTION)
        f->function = p->meaning;
    if (f->place == IN_ROLE)
        enter_header(f, IN_CHANNEL,
                     f->function == NO_FUNCTION ? &f->headers.channels
                                                : &f->headers.called_channels);
    else if (p->stop == f->tools->specials.constrain)
        enter_header(f, IN_TYPE, &f->headers.types);
    else
        return enter_content(f, p->kind);
    return OSP_OK;
}

static void after_message(struct answer_grammar *f, int32_t closing)
{
    enter(f, closing == f->tools->specials.end ? AT_START : AFTER_ALL);
}

static enum osp_status advance_header(struct answer_grammar *f, int32_t token)
{
    const struct choice *done;
    enum osp_status st;

    TRY(choice_accept(&f->cursor, f->tools->index, token, &done));
    if (done != NULL)
        TRY(after_phrase(f, done));
out:
    return st;
}

static enum osp_status advance_constrained(struct answer_grammar *f, int32_t token)
{
    enum osp_status st;

    TRY(constraint_accept(f->constrained, token));
    if (constraint_is_done(f->constrained))
        after_message(f, token);
out:
    return st;
}

static enum osp_status move(struct answer_grammar *f, int32_t token)
{
    switch (f->place) {
    case AT_START:
        f->function = NO_FUNCTION;
        enter_header(f, IN_ROLE, &f->headers.roles);
        return OSP_OK;
    case IN_ROLE:
    case IN_CHANNEL:
    case IN_TYPE:
        return advance_header(f, token);
    case IN_FREE:
        if (token == f->closing)
            after_message(f, token);
        return OSP_OK;
    case IN_CONSTRAINED:
        return advance_constrained(f, token);
    case AFTER_ALL:
        return OSP_OK;
    }
    return OSP_OK;
}

void answer_grammar_accept(struct answer_grammar *f, int32_t token)
{
    f->n_accepted++;
    f->token = token;
    f->has_token = true;
}

static bool is_allowed(const struct answer_grammar *f, int32_t token)
{
    return token >= 0 && (size_t)token / 32 < f->n_words && (f->mask[token / 32] >> token % 32 & 1);
}

bool answer_grammar_is_free(const struct answer_grammar *f)
{
    return f->place == IN_FREE && !f->has_token && !f->needs_fill;
}

int answer_grammar_n_free(const struct answer_grammar *f, const int32_t *tokens, int n)
{
    int n_free = 0;

    if (!answer_grammar_is_free(f))
        return 0;
    while (n_free < n && tokens[n_free] != f->closing && is_allowed(f, tokens[n_free]))
        n_free++;
    return n_free;
}

/* True when the mask is known to take long: MASK_QUICK does not try it. */
static bool is_long(const struct answer_grammar *f)
{
    return f->place == IN_CONSTRAINED &&
           (f->is_long_work || constraint_n_states(f->constrained) > MASK_QUICK_READINGS);
}

enum osp_status answer_grammar_fill_mask(struct answer_grammar *f, enum mask_effort effort,
                                         bool *made)
{
    const bool was_free = f->place == IN_FREE;
    enum osp_status st = OSP_OK;

    *made = false;
    if (effort == MASK_QUICK && is_long(f))
        return OSP_OK;
    if (f->has_token) {
        f->has_token = false;
        TRY(move(f, f->token));
        f->needs_fill = !was_free || f->place != IN_FREE;
    }
    *made = true;
    if (f->needs_fill)
        TRY(fill(f, effort, made));
    f->needs_fill = !*made;
out:
    return st;
}

enum osp_status answer_grammar_advance(struct answer_grammar *f, int32_t token)
{
    bool made;

    answer_grammar_accept(f, token);
    return answer_grammar_fill_mask(f, MASK_WHOLE, &made);
}

int answer_grammar_n_tokens(const struct answer_grammar *f)
{
    return f->n_accepted;
}

/* ---- life cycle ---- */

/* Reads what follows the prompt's last <|start|>. True if that is the beginning of a role. */
static bool begins_message(struct answer_grammar *f, const struct answer_grammar_config *w)
{
    const struct choice *done = NULL;
    int from = w->n_prompt;

    while (from > 0 && w->prompt[from - 1] != w->tools->specials.start)
        from--;
    if (from == 0)
        return false;
    f->function = NO_FUNCTION;
    enter_header(f, IN_ROLE, &f->headers.roles);
    for (int i = from; i < w->n_prompt; i++)
        if (choice_accept(&f->cursor, w->tools->index, w->prompt[i], &done) != OSP_OK ||
            done != NULL)
            return false;
    return true;
}

/* Tokens that end a final message, or the engine's stop tokens that end the answer. */
static void choose_stops(struct answer_grammar *f, const struct answer_grammar_config *w,
                         bool is_harmony)
{
    if (is_harmony)
        f->stops[f->n_stops++] = f->tools->specials.ret;
    for (int i = 0; !is_harmony && i < w->n_stop_ids && f->n_stops < CONSTRAINT_STOPS_MAX; i++)
        f->stops[f->n_stops++] = w->stop_ids[i];
}

static enum osp_status keep_limit(struct answer_grammar *f)
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

static enum osp_status begin(struct answer_grammar *f, const struct answer_grammar_config *config)
{
    bool is_harmony, made;
    enum osp_status st;

    if (f->n_words < f->tools->index->n_words)
        return fail(OSP_EINTERNAL, "a mask of %zu words, needs %zu", f->n_words,
                    f->tools->index->n_words);
    TRY(answer_headers_init(&f->headers, &f->tools->specials, f->calls));
    is_harmony = begins_message(f, config);
    if (!is_harmony && f->calls != NULL)
        return fail(OSP_EINVAL, "calls: the prompt must end in <|start|>assistant");
    choose_stops(f, config, is_harmony);
    TRY(keep_limit(f));
    if (!is_harmony)
        TRY(enter_constrained(f, f->grammar, f->stops, f->n_stops));
    st = fill(f, MASK_WHOLE, &made);
out:
    return st;
}

enum osp_status answer_grammar_new(struct answer_grammar **out,
                                   const struct answer_grammar_config *config)
{
    struct answer_grammar *f = mem_new(sizeof *f);
    enum osp_status st;

    *out = NULL;
    f->tools = config->tools;
    f->grammar = config->grammar != NULL ? grammar_ref(config->grammar) : NULL;
    f->calls = config->calls;
    f->mask = config->mask;
    f->n_words = (size_t)config->n_mask_words;
    st = begin(f, config);
    if (st == OSP_OK)
        *out = f;
    else
        answer_grammar_free(f);
    return st;
}

void answer_grammar_free(struct answer_grammar *f)
{
    if (f == NULL)
        return;
    constraint_free(f->constrained);
    answer_headers_release(&f->headers);
    call_rules_free(f->calls);
    grammar_unref(f->grammar);
    free(f->limit);
    free(f);
}
