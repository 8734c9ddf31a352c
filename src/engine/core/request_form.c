#include "engine/core/request_form.h"

#include <string.h>

#include "base/str.h"

/* The field that a client knows a form by. */
static const char *form_field(enum osp_form form)
{
    return form == OSP_FORM_REGEX    ? "regex"
           : form == OSP_FORM_CHOICE ? "choice"
                                     : "response_format";
}

static enum osp_status compile_form(struct grammar **out, struct form_kit *kit,
                                    const struct form_source *source)
{
    enum osp_status st;

    if (source->form == OSP_FORM_NONE)
        return OSP_OK;
    st = form_kit_grammar(kit, source->form, source->form_text, out);
    if (st == OSP_ELIMIT)
        st = OSP_EINVAL; /* of the form, and not of the prompt */
    return st == OSP_OK ? st : fail_within(st, "%s", form_field(source->form));
}

/* Takes the wish's calls. */
static enum osp_status hold_to(struct osp_request *r, const struct osp_model *m,
                               const struct sched_limits *l, struct answer_form_wish *wish)
{
    struct draw_lists *lists = &r->seq.lists;
    enum osp_status st;

    st = form_kit_prepare(m->forms, m->tokenizer, m->text.path, &wish->tools);
    if (st == OSP_OK)
        st = draw_lists_need_mask(lists, m->facts.vocab_size);
    if (st != OSP_OK) {
        call_rules_free(wish->calls);
        return st;
    }
    wish->prompt = r->seq.tokens;
    wish->n_prompt = r->seq.n_prompt;
    wish->stop_ids = l->stop_ids;
    wish->n_stop_ids = l->n_stop_ids;
    wish->mask = lists->mask;
    wish->n_mask_words = lists->n_mask_words;
    r->seq.is_held = true;
    return answer_form_new(&r->form, wish);
}

static enum osp_status check_size(const char *field, const char *text, size_t n_bytes_max)
{
    const size_t n_bytes = text != NULL ? strlen(text) : 0;

    if (n_bytes > n_bytes_max)
        return fail(OSP_EINVAL, "%s: has %zu bytes, the limit is %zu", field, n_bytes, n_bytes_max);
    return OSP_OK;
}

enum osp_status request_form_check(const struct osp_request_options *opt)
{
    const struct form_source source = form_source_of(opt);
    enum osp_status st;

    if (form_source_is_empty(&source))
        return OSP_OK;
    if (opt->ignore_stop_tokens)
        return fail(OSP_EINVAL, "%s: not together with ignore_eos",
                    opt->form != OSP_FORM_NONE ? form_field(opt->form) : "tools");
    TRY(check_size(form_field(opt->form), opt->form_text, FORM_TEXT_BYTES_MAX));
    TRY(check_size("tools", opt->calls, CALLS_TEXT_BYTES_MAX));
out:
    return st;
}

enum osp_status request_form_make(struct osp_request *r, const struct osp_engine *engine,
                                  const struct form_source *source)
{
    const struct osp_model *m = engine->model;
    struct answer_form_wish wish = {.grammar = NULL};
    enum osp_status st;

    TRY(compile_form(&wish.grammar, m->forms, source));
    if (source->calls != NULL)
        TRY(call_rules_open(&wish.calls, m->forms, source->calls));
    TRY(hold_to(r, m, &engine->limits, &wish));
out:
    grammar_drop(wish.grammar);
    return st;
}

/* Without memory for it the request ends without it. */
static void keep_reason(struct osp_request *r)
{
    if (str_copy(&r->form_message, fail_message(), "the reason of a failure") != OSP_OK)
        r->form_message = NULL;
}

bool request_make_mask(struct osp_request *r, enum mask_effort effort)
{
    bool made;

    r->form_status = answer_form_make(r->form, effort, &made);
    if (r->form_status != OSP_OK)
        keep_reason(r);
    return made || r->form_status != OSP_OK;
}
